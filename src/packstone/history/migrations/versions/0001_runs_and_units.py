"""Runs and their units.

A migration is history itself: it spells out its columns and never imports ``history.schema``, which moves on.
"""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0001"
down_revision = None

# MySQL's DATETIME drops the fraction of the second unless told otherwise.
_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")

# MySQL's usual collation would take /lake/T and /lake/t for one table, and MyISAM has no transactions.
_OPTIONS: dict[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def upgrade() -> None:
    """Create both tables.

    MySQL has no way back from a CREATE TABLE: what a killed migration made there is made anew. It has no rows, for
    nobody records before the version is written; a table with rows is not ours to drop.
    """
    _drop_unfinished("packstone_unit", "packstone_run")
    _create_runs()
    _create_units()


def _drop_unfinished(*names: str) -> None:
    bind = op.get_bind()
    if op.get_context().as_sql or bind.dialect.name not in ("mysql", "mariadb"):
        return
    found = [name for name in names if sa.inspect(bind).has_table(name)]
    counts = (sa.select(sa.func.count()).select_from(sa.table(name)) for name in found)
    if not any(bind.scalar(count) for count in counts):
        for name in found:
            op.drop_table(name)


def downgrade() -> None:
    """Drop both tables, and with them the history."""
    op.drop_table("packstone_unit")
    op.drop_table("packstone_run")


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
        sa.Column(
            "run_id",
            sa.String(64),
            sa.ForeignKey("packstone_run.run_id", ondelete="CASCADE"),
            primary_key=True,
        ),
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
