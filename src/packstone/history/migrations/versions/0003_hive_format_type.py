"""The formats of all tables and partitions of a metastore, as the last refresh found them."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import mysql

revision = "0003"
down_revision = "0002"

_MOMENT = sa.DateTime().with_variant(mysql.DATETIME(fsp=6), "mysql", "mariadb")
_OPTIONS: dict[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def upgrade() -> None:
    """Create the table; MySQL may hold an empty one of an upgrade that was killed."""
    _drop_unfinished()
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


def downgrade() -> None:
    """Drop the table; a refresh fills it anew."""
    op.drop_table("hive_format_type")


def _drop_unfinished() -> None:
    bind = op.get_bind()
    if op.get_context().as_sql or bind.dialect.name not in ("mysql", "mariadb"):
        return
    if sa.inspect(bind).has_table("hive_format_type"):
        op.drop_table("hive_format_type")  # without its revision nobody has filled it
