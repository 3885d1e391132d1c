"""Alembic runs this file; the open connection comes from ``history/schema.py``, so it needs no address."""

from __future__ import annotations

from alembic import context

from packstone.history.schema import METADATA
from packstone.history.sqlite_file import VERSION_TABLE

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
)
with context.begin_transaction():
    context.run_migrations()
