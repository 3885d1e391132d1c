"""Loads of segment tables that tests kill; ``fork_server.py`` runs them in processes of their own."""

import os
import pickle

import pyarrow as pa

from packstone.model.codec import dump_record, load_record
from packstone.pipeline.table import Table
from packstone.rewrite.load.read_inputs import cut_batch
from packstone.runs.engine import InlineEngine
from packstone.runs.liveness import ProcessIdentity
from packstone.tables.segments.load import abandon_open, begin_open, finish_open
from packstone.tables.segments.load_options import LoadOptions
from packstone.tables.segments.tasks import LoadResult, write_load


def load_rows(io, path, inputs, **options):
    """Load files in this process, and merge if the table asks for it."""
    return Table(path, io=io).segments.load([str(one) for one in inputs], options=LoadOptions(**options)).to_json()


def clean_rows(io, path):
    """Remove what the dead left."""
    return Table(path, io=io).clean().to_json(dry_run=False)


def delete_rows(io, path, where):
    """Delete the rows that a filter selects."""
    return Table(path, io=io).segments.delete_rows(where).to_json()


def begin_rows(io, path, driver, stream="", **options):
    """Begin a load that another process finishes, as Spark's processes do; returned in a form that travels."""
    process = ProcessIdentity.of(driver)
    load = begin_open(io, path, options=LoadOptions(**options), process=process, stream=stream)
    return pickle.dumps(load).hex()


def write_rows(io, load, ids, task):
    """Write the rows of one task of such a load."""
    load = _unpack(load)
    batches = cut_batch(pa.record_batch({"id": ids}), source="the test", first_row=1)
    return dump_record(write_load(io, load.target, batches, task=task, name=f"a{task}_{os.getpid()}")).hex()


def finish_rows(io, load, results, **options):
    """Commit such a load with the results of these tasks."""
    load = _unpack(load)
    found = [load_record(LoadResult, bytes.fromhex(one), path="the test") for one in results]
    return finish_open(io, load, found, engine=InlineEngine(io), **options).to_json()


def abandon_rows(io, load):
    """Abandon such a load, as Spark does after a commit that failed."""
    load = _unpack(load)
    abandon_open(io, load.table, load.run)


def _unpack(load):
    return pickle.loads(bytes.fromhex(load))  # noqa: S301 - our own bytes
