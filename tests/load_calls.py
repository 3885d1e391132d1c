"""Loads of segment tables that tests kill; ``fork_server.py`` runs them in processes of their own."""

from packstone.pipeline.table import Table
from packstone.tables.segments.load_options import LoadOptions


def load_rows(io, path, inputs, **options):
    """Load files in this process, and merge if the table asks for it."""
    return Table(path, io=io).segments.load([str(one) for one in inputs], options=LoadOptions(**options)).to_json()


def clean_rows(io, path):
    """Remove what the dead left."""
    return Table(path, io=io).clean().to_json(dry_run=False)


def delete_rows(io, path, where):
    """Delete the rows that a filter selects."""
    return Table(path, io=io).segments.delete_rows(where).to_json()
