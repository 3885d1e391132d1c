"""Calls on JSON-lines tables that tests kill; ``fork_server.py`` runs them in processes of their own."""

import os

from jsonl_family.options import JsonlOptions
from jsonl_lake import with_row

from packstone.pipeline.table import Table
from packstone.tables import families


def jsonl(io, path, verb, history=None, unrecorded="", run=None, **options):
    """Do one verb on a table of the new family, and say how it ended."""
    families.FAMILIES = with_row()  # this process is a fork and ends with the call
    os.environ["PACKSTONE_UNRECORDED"] = unrecorded or os.environ["PACKSTONE_UNRECORDED"]
    table = Table(path, io=io, history=history)
    if verb == "compact":
        return table.compact(JsonlOptions(**options)).to_json()
    return (table.restore(run) if verb == "restore" else getattr(table, verb)()).to_json()
