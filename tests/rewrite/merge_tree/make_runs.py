"""Runs of records as data files in memory, and specs that merge them."""

from __future__ import annotations

import dataclasses

import pyarrow as pa
import pyarrow.parquet as pq
from plain_model import java_key

from packstone.rewrite.data_files.rows import read_rows
from packstone.rewrite.merge_tree.merge import run_merge
from packstone.rewrite.merge_tree.spec import (
    KIND_COLUMN,
    SEQUENCE_COLUMN,
    ColumnSource,
    DataFormat,
    EngineSpec,
    InputFile,
    MergeSpec,
    OutputSpec,
    pack_schema,
)
from packstone.storage.memory import MemoryFileIO

FOLDER = "/t"


def make_schema(keys, values):
    """Key columns, system columns, value columns; keys and values are pairs of name and type."""
    fields = [pa.field(f"_KEY_{name}", kind) for name, kind in keys]
    system = [
        pa.field(SEQUENCE_COLUMN, pa.int64(), nullable=False),
        pa.field(KIND_COLUMN, pa.int8(), nullable=False),
    ]
    return pa.schema([*fields, *system, *(pa.field(name, kind) for name, kind in (*keys, *values))])


def make_io():
    """An empty store."""
    io = MemoryFileIO()
    io.make_dirs(FOLDER)
    return io


def write_parquet(io, path, table, **options):
    """Put a Parquet file there."""
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, **options)
    io.write_new(path, sink.getvalue().to_pybytes())
    return pq.read_metadata(pa.BufferReader(sink.getvalue()))


def make_file(io, name, records, schema, *, row_group_rows=None, sources=None):
    """Write records as one file and describe it."""
    path = f"{FOLDER}/{name}.parquet"
    table = pa.Table.from_pylist(records, schema=schema)
    write_parquet(io, path, table, row_group_size=row_group_rows or max(1, len(records)))
    columns = sources or tuple(ColumnSource(target=one, source=one) for one in schema.names)
    return InputFile(
        path=path,
        file_format=DataFormat.PARQUET,
        size_bytes=io.stat(path).size_bytes,
        rows=len(records),
        columns=columns,
    )


def sort_run(records, keys):
    """One record per key, in order: what a run is."""
    by_key = {tuple(java_key(record[name]) for name in keys): record for record in records}
    return [by_key[key] for key in sorted(by_key)]


def make_spec(io, runs, schema, *, engine=None, row_group_rows=None, **more):
    """A spec of one section whose runs are single files."""
    keys = tuple(name for name in schema.names if name.startswith("_KEY_"))
    files = tuple(
        (make_file(io, f"run-{at}", run, schema, row_group_rows=row_group_rows),) for at, run in enumerate(runs)
    )
    output = more.pop("output", OutputSpec(directory=FOLDER))
    return MergeSpec(
        sections=(files,),
        arrow_schema=pack_schema(schema),
        key_columns=keys,
        engine=engine or EngineSpec(),
        drop_deletes=more.pop("drop_deletes", False),
        output=output,
        **more,
    )


def merge(io, spec):
    """Run the kernel."""
    return run_merge(io, spec, name_file=lambda at: f"out-{at}.{spec.output.file_format}")


def read_back(io, written, schema, *, file_format=DataFormat.PARQUET):
    """Read the records of the files written, with the reader that the inputs are read with."""
    columns = tuple(ColumnSource(target=one, source=one) for one in schema.names)
    batches = []
    for file in written:
        described = InputFile(
            path=file.path, file_format=file_format, size_bytes=file.size_bytes, rows=file.rows, columns=columns
        )
        batches.extend(read_rows(io, described, schema))
    return pa.Table.from_batches(batches, schema=schema).to_pylist()


def with_keys(record, keys):
    """Add the _KEY_ columns that mirror value columns."""
    return {**{f"_KEY_{name}": record[name] for name in keys}, **record}


def replace_output(spec, **changes):
    """The same spec with another output."""
    return dataclasses.replace(spec, output=dataclasses.replace(spec.output, **changes))
