"""What a metastore tells of the files in one folder, for whoever plans a merge of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from packstone.model.file_format import FileFormat

_TEXTS = frozenset(one for one in FileFormat if one.value.endswith("text"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """The format, header and partition values of a folder; ``refused`` says why it must stay as it is."""

    name: str  # of the partition, as Hive spells it; empty for a table without partitions
    file_format: FileFormat
    header_lines: int | None = None  # None: it does not say
    values: Mapping[str, str | None] | None = None
    refused: str | None = None

    def why_not(self, found: FileFormat) -> str | None:
        """Why a file of this format cannot be what the metastore says is here; None: it is."""
        if found is self.file_format or (self.file_format is FileFormat.TEXT and found in _TEXTS):
            return None
        return f"it is {found}, but the metastore says that {self.file_format} is here"
