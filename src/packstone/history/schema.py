"""The tables of the history as this Packstone reads and writes them.

The tables are *made* by the migrations alone; a test compares the two. Rules that keep one schema good
for SQLite, MySQL, MariaDB and PostgreSQL, and its dashboards' SQL the same on all of them:

- No name needs quotes anywhere. ``table``, ``rows``, ``partition`` and ``user`` are reserved words in one
  or the other, hence ``table_path``, ``row_count``, ``partition_name``, ``user_name``; the keys of the
  columns are the fields of the records.
- Every string has a length (MySQL insists), and together they stay below MySQL's 65,535 bytes a row.
- Times are UTC without a zone: MySQL has no other kind that goes beyond 2038, and Grafana takes them so.
- Indexes hold short columns only. A path may be longer than any index entry (MySQL 3,072 bytes,
  PostgreSQL 2,704), and the newest runs of one table are found quickly enough by walking back in time.
- Units are numbered by their place in the record: whether ``unit`` counts per run or per partition is the
  recording family's affair.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import (
    BigInteger,
    Column,
    DateTime,
    Dialect,
    Double,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    TypeDecorator,
)

# In the order in which they were added; the last is what this Packstone needs. Kept here besides the
# migrations themselves, because asking Alembic means importing it.
REVISIONS = ("0001", "0002", "0003")
VERSION_TABLE = "packstone_schema_version"

RUN_ID_CHARS = 64
WORD_CHARS = 64
NAME_CHARS = 255
PATH_CHARS = 4096
TEXT_CHARS = 4000


class UtcDateTime(TypeDecorator[datetime]):
    """An aware datetime outside, the same instant in UTC without a zone inside."""

    impl = DateTime
    cache_ok = True

    def process_bind_param(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Drop the zone after going to UTC."""
        return None if value is None else value.astimezone(UTC).replace(tzinfo=None)

    def process_result_value(self, value: datetime | None, dialect: Dialect) -> datetime | None:  # noqa: ARG002
        """Put the zone back."""
        return None if value is None else value.replace(tzinfo=UTC)


METADATA = MetaData()

RUNS = Table(
    "packstone_run",
    METADATA,
    Column("run_id", String(RUN_ID_CHARS), primary_key=True, key="run"),
    Column("command", String(WORD_CHARS), nullable=False),
    Column("family", String(WORD_CHARS), nullable=False),
    Column("table_path", String(PATH_CHARS), nullable=False, key="table"),
    Column("strategy", String(WORD_CHARS), nullable=False),
    Column("status", String(WORD_CHARS), nullable=False),
    Column("started_at", UtcDateTime, nullable=False),
    Column("finished_at", UtcDateTime, nullable=False),
    Column("files_before", BigInteger, nullable=False),
    Column("files_after", BigInteger, nullable=False),
    Column("bytes_before", BigInteger, nullable=False),
    Column("bytes_after", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False, key="rows"),
    Column("verified", String(WORD_CHARS), nullable=False),
    Column("seconds", Double, nullable=False),
    Column("verify_seconds", Double, nullable=False),
    Column("swap_ms", Double, nullable=False),
    Column("read_seconds_before", Double),
    Column("read_seconds_after", Double),
    Column("host", String(NAME_CHARS), nullable=False),
    Column("user_name", String(NAME_CHARS), nullable=False, key="user"),
    Column("packstone_version", String(WORD_CHARS), nullable=False),
    Column("message", String(TEXT_CHARS), nullable=False),
    Index("packstone_run_started", "started_at"),
    Index("packstone_run_status", "status", "started_at"),
)

UNITS = Table(
    "packstone_unit",
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("partition_name", String(PATH_CHARS), nullable=False, key="partition"),
    Column("unit_number", Integer, nullable=False, key="unit"),
    Column("how", String(WORD_CHARS), nullable=False),
    Column("status", String(WORD_CHARS), nullable=False),
    Column("why", String(TEXT_CHARS), nullable=False),
    Column("input_files", BigInteger, nullable=False, key="inputs"),
    Column("output_files", BigInteger, nullable=False, key="outputs"),
    Column("bytes_before", BigInteger, nullable=False),
    Column("bytes_after", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False, key="rows"),
    Column("fingerprint", String(NAME_CHARS), nullable=False),
    Column("read_seconds_before", Double),
    Column("read_seconds_after", Double),
    Column("seconds", Double, nullable=False),
)

# The names of a unit's files: ``side`` is input or output.
FILES = Table(
    "packstone_file",
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("unit_position", Integer, primary_key=True, autoincrement=False),
    Column("side", String(WORD_CHARS), primary_key=True),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("file_name", String(PATH_CHARS), nullable=False, key="name"),
)

# What a run left alone, and why.
SKIPS = Table(
    "packstone_skip",
    METADATA,
    Column("run_id", ForeignKey(RUNS.c.run, ondelete="CASCADE"), primary_key=True, key="run"),
    Column("position", Integer, primary_key=True, autoincrement=False),
    Column("what", String(PATH_CHARS), nullable=False),
    Column("why", String(TEXT_CHARS), nullable=False),
    Column("kind", String(WORD_CHARS), nullable=False),
)

FORMATS = Table(
    "hive_format_type",
    METADATA,
    Column("format_key", String(64), primary_key=True, key="key"),
    Column("metastore", String(NAME_CHARS), nullable=False),
    Column("db_name", String(NAME_CHARS), nullable=False, key="database"),
    Column("table_name", String(NAME_CHARS), nullable=False, key="table"),
    Column("partition_name", String(1024), nullable=False, key="partition"),
    Column("table_type", String(WORD_CHARS), nullable=False),
    Column("format_type", String(WORD_CHARS), nullable=False, key="file_format"),
    Column("input_format", String(1024), nullable=False),
    Column("serde", String(1024), nullable=False),
    Column("location", String(PATH_CHARS), nullable=False),
    Column("location_key", String(64), nullable=False),
    Column("field_delimiter", String(WORD_CHARS), nullable=False),
    Column("header_lines", Integer, nullable=False),
    Column("bucket_count", Integer, nullable=False),
    Column("seen_at", UtcDateTime, nullable=False),
    Column("changed_at", UtcDateTime, nullable=False),
    Index("hive_format_type_table", "database", "table"),
    Index("hive_format_type_location", "location_key"),
)
