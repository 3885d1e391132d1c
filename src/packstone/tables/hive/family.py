"""The Hive family: its row in ``FAMILIES``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from packstone.tables.family import Family

if TYPE_CHECKING:
    from packstone.storage.fileio import FileIO


def is_plain_folder(_io: FileIO, _directory: str) -> bool:
    """Return True: every folder that is not a table of another family is a Hive directory."""
    return True


HIVE: Final = Family(
    name="hive",
    title="Hive directories",
    singular="a Hive directory",
    part="partition",
    options="packstone.tables.hive.options:HiveOptions",
    strategies={"small-files": "small files of each partition"},
    table="packstone.tables.hive.table:HiveTable",
    find=is_plain_folder,
    filters=frozenset({"where", "exclude", "min_age"}),
    arguments=frozenset({"metastore_url", "publish", "after_publish", "take_over"}),
    has_partition_targets=True,
)
