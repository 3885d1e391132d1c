"""The files of the units, and what a run left alone and why."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"

_OPTIONS: dict[str, Any] = {
    f"{server}_{option}": value
    for server in ("mysql", "mariadb")
    for option, value in (("engine", "InnoDB"), ("charset", "utf8mb4"), ("collate", "utf8mb4_bin"))
}


def upgrade() -> None:
    """Create both tables; see 0001 about MySQL."""
    _drop_unfinished("packstone_file", "packstone_skip")
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
    """Drop both tables."""
    op.drop_table("packstone_skip")
    op.drop_table("packstone_file")


def _run_id() -> sa.Column[str]:
    return sa.Column(
        "run_id", sa.String(64), sa.ForeignKey("packstone_run.run_id", ondelete="CASCADE"), primary_key=True
    )
