"""What looking into one file found: its format, whether it may be merged, and with which others."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from packstone.model.file_format import FileFormat
from packstone.tables.hive.header_line import FirstLine
from packstone.tables.hive.text_shape import TextShape

if TYPE_CHECKING:
    from packstone.model.files import FileEntry
    from packstone.storage.fileio import FileIO


HEAD_BYTES: Final = 64 << 10  # as much of a file, or of its text, is looked at


class Verdict(StrEnum):
    """Whether a file may take part in a merge."""

    MERGEABLE = "mergeable"
    LEFT_ALONE = "left alone"  # fine as it is, but nothing we merge
    UNREADABLE = "unreadable"  # broken: reported as such


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFacts:
    """One file's format, whether it may be merged, and with which others."""

    name: str
    file_format: FileFormat
    verdict: Verdict
    why: str = ""
    group: str = ""
    rows: int = 0
    codec: str = ""
    first_lines: tuple[FirstLine, ...] = ()  # of text that may have a header
    shape: TextShape | None = None  # of text that may be delimited


@dataclass(frozen=True, slots=True, kw_only=True)
class LookedAt:
    """A file whose format is known, for the format's own look into it."""

    io: FileIO
    path: str
    file: FileEntry
    file_format: FileFormat
    head: bytes  # the first 64 KiB
    is_whole: bool  # whether that is all
    ending: str  # of its name, in lower case
    codec: str  # the one asked for, or ``keep``

    def mergeable(self, shared: str, *, rows: int = 0, codec: str = "") -> FileFacts:
        """It is merged with the files that share this line; ending, owner, mode and ACL must always agree."""
        return FileFacts(
            name=self.file.name,
            file_format=self.file_format,
            verdict=Verdict.MERGEABLE,
            group=f"{self.file_format} {shared} .{self.ending} {self.io.read_permissions(self.path)}",
            rows=rows,
            codec=codec,
        )

    def left_alone(self, why: str) -> FileFacts:
        """It is fine, but not merged."""
        return not_merged(self.file, self.file_format, verdict=Verdict.LEFT_ALONE, why=why)


def not_merged(file: FileEntry, found: FileFormat, *, verdict: Verdict, why: str) -> FileFacts:
    """It takes no part in a merge, for this reason."""
    return FileFacts(name=file.name, file_format=found, verdict=verdict, why=why)
