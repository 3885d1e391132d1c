"""What the content of a file in a Hive directory is."""

from __future__ import annotations

from enum import StrEnum


class FileFormat(StrEnum):
    """A file's format, told by its first bytes."""

    PARQUET = "parquet"
    TEXT = "text"
    ORC = "orc"
    AVRO = "avro"
    SEQUENCE_FILE = "sequencefile"
    RC_FILE = "rcfile"
    COMPRESSED = "compressed text"
    EMPTY = "empty"
    UNKNOWN = "unknown"
