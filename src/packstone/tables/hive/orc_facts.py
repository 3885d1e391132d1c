"""ORC files are merged with those that share everything that one footer says of a whole file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from packstone.rewrite.orc.agreement import read_orc_facts

if TYPE_CHECKING:
    from packstone.tables.hive.file_verdict import FileFacts, LookedAt


def orc_facts(look: LookedAt) -> FileFacts:
    """Read the tail of the file, nothing else."""
    facts = read_orc_facts(look.io, look.path)
    if facts.left_alone:
        return look.left_alone(facts.left_alone)
    if look.codec not in ("keep", facts.codec):
        return look.left_alone(f"ORC files keep their codec ({facts.codec}); merge them without --codec")
    return look.mergeable(f"codec={facts.codec} {facts.agreement}", rows=facts.rows, codec=facts.codec)
