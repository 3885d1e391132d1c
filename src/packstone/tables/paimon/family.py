"""The entry of Paimon tables in the list of table families."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packstone.tables.family import Family
from packstone.tables.foreign import holds

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

_SCHEMA: Final = re.compile(r"^schema-\d+$")


def is_paimon(io: FileIO, directory: str) -> bool:
    """Whether a folder is a Paimon table: its schema folder holds a schema. A table without a snapshot has no rows."""
    return holds(io, f"{directory}/schema", _SCHEMA)


PAIMON: Final = Family(
    name="paimon",
    title="Paimon tables",
    singular="a Paimon table",
    part="bucket",
    version="snapshot",
    options="packstone.tables.paimon.options:PaimonOptions",
    strategies={
        "minor": "the strategy that the table's options choose",
        "full": "all runs of every bucket",
        "universal": "by number and size of runs",
        "force-up-level0": "always including level 0",
    },
    table="packstone.tables.paimon.table:PaimonTable",
    source="packstone.tables.paimon.scan:PaimonSource",
    find=is_paimon,
    filters=frozenset({"where", "min_age"}),
    clean_arguments=frozenset({"expire_snapshots", "retain_min", "retain_max", "older_than", "max_expired"}),
)
