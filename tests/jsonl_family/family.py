"""JSON-lines tables: the row."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from packstone.tables.family import Family
from packstone.tables.foreign import holds

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO

MANIFEST_NAME: Final = re.compile(r"^[0-9]{20}\.json$")


def is_jsonl(io: FileIO, directory: str) -> bool:
    """A manifest folder with a version in it."""
    return holds(io, f"{directory}/manifest", MANIFEST_NAME)


JSONL: Final = Family(
    name="jsonl",
    title="JSON-lines tables",
    singular="a JSON-lines table",
    part="partition",
    options="jsonl_family.options:JsonlOptions",
    strategies={"small-files": "small files of each partition"},
    table="jsonl_family.table:JsonlTable",
    find=is_jsonl,
    filters=frozenset({"where"}),
)
