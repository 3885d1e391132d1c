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
    GZIP_TEXT = "gzip text"
    BZIP2_TEXT = "bzip2 text"
    ZSTD_TEXT = "zstd text"
    LZ4_TEXT = "lz4 text"  # frames, as the command lz4 writes them
    SNAPPY_TEXT = "snappy text"  # the framing format
    DEFLATE_TEXT = "deflate text"
    HADOOP_LZ4_TEXT = "hadoop-lz4 text"  # Hadoop's own framing, which Hive and Spark write
    HADOOP_SNAPPY_TEXT = "hadoop-snappy text"
    EMPTY = "empty"
    UNKNOWN = "unknown"
