"""Loads of segment tables that tests kill; ``fork_server.py`` runs them in processes of their own."""

from packstone.runs.engine import InlineEngine
from packstone.service.load_options import LoadOptions
from packstone.service.segment_clean import clean_segments
from packstone.service.segment_load import load_files


def load_rows(io, path, inputs, **options):
    """Load files in this process."""
    return load_files(io, path, inputs, options=LoadOptions(**options), engine=InlineEngine(io)).to_json()


def clean_rows(io, path):
    """Remove what the dead left."""
    return clean_segments(io, path, dry_run=False).to_json()
