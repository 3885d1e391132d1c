"""Create the tables for runs, their units, files and skips, and for the formats found by a refresh of a metastore.

A migration must not change later: it spells out its columns and never imports ``history.schema``, which changes with
each version. Revisions 1 and 2 were never released; databases of the third are upgraded.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = None

# MySQL's DATETIME drops the fraction of the second unless a precision is given.
_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

# MySQL's default collation treats /lake/T and /lake/t as equal, and MyISAM has no transactions.
_OPTIONS: dict[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}

_TABLES = ("packstone_skip", "packstone_file", "packstone_unit", "packstone_run", "hive_format_type")


def upgrade() -> None:
    """Create all tables.

    MySQL cannot roll back a CREATE TABLE, so tables that a killed migration created are dropped and created again. Such
    a table has no rows, because no run is recorded before the version is written; a table with rows is never dropped.
    """
    _drop_unfinished()
    _create_runs()
    _create_units()
    _create_files_and_skips()
    _create_formats()


def _drop_unfinished() -> None:
    bind = op.get_bind()
    if op.get_context().as_sql or bind.dialect.name not in ("mysql", "mariadb"):
        return
    found = [name for name in _TABLES if sa.inspect(bind).has_table(name)]
    counts = (sa.select(sa.func.count()).select_from(sa.table(name)) for name in found)
    if not any(bind.scalar(count) for count in counts):
        for name in found:
            op.drop_table(name)


def downgrade() -> None:
    """Drop all tables, and with them the history."""
    for name in _TABLES:
        op.drop_table(name)


def _create_runs() -> None:
    op.create_table(
        "packstone_run",
        sa.Column("run_id", sa.String(64), primary_key=True),
        sa.Column("command", sa.String(64), nullable=False),
        sa.Column("family", sa.String(64), nullable=False),
        sa.Column("table_path", sa.String(4096), nullable=False),
        sa.Column("strategy", sa.String(64), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("started_at", _MOMENT, nullable=False),
        sa.Column("finished_at", _MOMENT, nullable=False),
        sa.Column("files_before", sa.BigInteger(), nullable=False),
        sa.Column("files_after", sa.BigInteger(), nullable=False),
        sa.Column("bytes_before", sa.BigInteger(), nullable=False),
        sa.Column("bytes_after", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("verified", sa.String(64), nullable=False),
        sa.Column("seconds", sa.Double(), nullable=False),
        sa.Column("verify_seconds", sa.Double(), nullable=False),
        sa.Column("swap_ms", sa.Double(), nullable=False),
        sa.Column("read_seconds_before", sa.Double()),
        sa.Column("read_seconds_after", sa.Double()),
        sa.Column("host", sa.String(255), nullable=False),
        sa.Column("user_name", sa.String(255), nullable=False),
        sa.Column("packstone_version", sa.String(64), nullable=False),
        sa.Column("message", sa.String(4000), nullable=False),
        **_OPTIONS,
    )
    op.create_index("packstone_run_started", "packstone_run", ["started_at"])
    op.create_index("packstone_run_status", "packstone_run", ["status", "started_at"])


def _create_units() -> None:
    op.create_table(
        "packstone_unit",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("partition_name", sa.String(4096), nullable=False),
        sa.Column("unit_number", sa.Integer(), nullable=False),
        sa.Column("how", sa.String(64), nullable=False),
        sa.Column("status", sa.String(64), nullable=False),
        sa.Column("why", sa.String(4000), nullable=False),
        sa.Column("input_files", sa.BigInteger(), nullable=False),
        sa.Column("output_files", sa.BigInteger(), nullable=False),
        sa.Column("bytes_before", sa.BigInteger(), nullable=False),
        sa.Column("bytes_after", sa.BigInteger(), nullable=False),
        sa.Column("row_count", sa.BigInteger(), nullable=False),
        sa.Column("fingerprint", sa.String(255), nullable=False),
        sa.Column("read_seconds_before", sa.Double()),
        sa.Column("read_seconds_after", sa.Double()),
        sa.Column("seconds", sa.Double(), nullable=False),
        **_OPTIONS,
    )


def _create_files_and_skips() -> None:
    op.create_table(
        "packstone_file",
        _run_id(),
        sa.Column("unit_position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("side", sa.String(64), primary_key=True),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("file_name", sa.String(4096), nullable=False),
        **_OPTIONS,
    )
    op.create_table(
        "packstone_skip",
        _run_id(),
        sa.Column("position", sa.Integer(), primary_key=True, autoincrement=False),
        sa.Column("what", sa.String(4096), nullable=False),
        sa.Column("why", sa.String(4000), nullable=False),
        sa.Column("kind", sa.String(64), nullable=False),
        **_OPTIONS,
    )


def _create_formats() -> None:
    op.create_table(
        "hive_format_type",
        sa.Column("format_key", sa.String(64), primary_key=True),
        sa.Column("metastore", sa.String(255), nullable=False),
        sa.Column("db_name", sa.String(255), nullable=False),
        sa.Column("table_name", sa.String(255), nullable=False),
        sa.Column("partition_name", sa.String(1024), nullable=False),
        sa.Column("table_type", sa.String(64), nullable=False),
        sa.Column("format_type", sa.String(64), nullable=False),
        sa.Column("input_format", sa.String(1024), nullable=False),
        sa.Column("serde", sa.String(1024), nullable=False),
        sa.Column("location", sa.String(4096), nullable=False),
        sa.Column("location_key", sa.String(64), nullable=False),
        sa.Column("field_delimiter", sa.String(64), nullable=False),
        sa.Column("header_lines", sa.Integer(), nullable=False),
        sa.Column("bucket_count", sa.Integer(), nullable=False),
        sa.Column("seen_at", _MOMENT, nullable=False),
        sa.Column("changed_at", _MOMENT, nullable=False),
        **_OPTIONS,
    )
    op.create_index("hive_format_type_table", "hive_format_type", ["db_name", "table_name"])
    op.create_index("hive_format_type_location", "hive_format_type", ["location_key"])


def _run_id() -> sa.Column[str]:
    return sa.Column(
        "run_id", sa.String(64), sa.ForeignKey("packstone_run.run_id", ondelete="CASCADE"), primary_key=True
    )
