"""The whole compaction of a Paimon table, in the same run as the kernels: read, merge, verify, commit.

Each contender gets its own table: the runs of merge_tree.py as level-0 files of one bucket (hard links), with
metadata as a writer creates it. Packstone compacts it with content verification and a commit; Java Paimon compacts
it; pypaimon and pypaimon-rust only read it merged, since they cannot compact.
"""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packstone.tables.paimon.format.data_file import ManifestEntry
    from packstone.tables.paimon.format.schema import TableSchema

ROOT = Path(__file__).resolve().parents[1]
INTEROP = ROOT / "tests" / "interop"
INPUT = 7  # the number in the names of inputs; outputs are numbered from 0
TYPES = {
    "customer": "INT",
    "name": "STRING",
    "price": "DOUBLE",
    "at": "TIMESTAMP(6)",
    "token": "STRING",
}


def make_table(source: Path, table: Path, *, keys: list[str]) -> None:
    """Create a table of the runs, with one commit."""
    from packstone.storage.local import LocalFileIO
    from packstone.tables.paimon.format.manifest import write_manifests
    from packstone.tables.paimon.format.manifest_list import write_manifest_list
    from packstone.tables.paimon.format.schema import read_latest_schema
    from packstone.tables.paimon.format.snapshot import Snapshot, dump_snapshot

    io = LocalFileIO()
    for folder in ("schema", "snapshot", "manifest", "bucket-0"):
        (table / folder).mkdir(parents=True)
    (table / "schema/schema-0").write_text(json.dumps(_schema(source, keys)))
    schema = read_latest_schema(io, str(table))
    entries = list(_entries(source, table, schema))
    folder, token = str(table / "manifest"), str(uuid.uuid4())
    metas = write_manifests(
        io, folder, entries, names=iter([f"manifest-{token}-0"]), partition_types=(), target_bytes=8 << 20
    )
    base, _ = write_manifest_list(io, folder, (), name=f"manifest-list-{token}-0")
    delta, _ = write_manifest_list(io, folder, metas, name=f"manifest-list-{token}-1")
    rows = sum(entry.file.row_count for entry in entries)
    snapshot = Snapshot(
        id=1,
        schema_id=0,
        base_manifest_list=base,
        delta_manifest_list=delta,
        commit_user="bench",
        commit_identifier=2**63 - 1,
        commit_kind="APPEND",
        time_millis=1_700_000_000_000,
        total_record_count=rows,
        delta_record_count=rows,
    )
    (table / "snapshot/snapshot-1").write_bytes(dump_snapshot(snapshot))
    (table / "snapshot/LATEST").write_text("1")


def _schema(source: Path, keys: list[str]) -> dict[str, object]:
    import pyarrow.parquet as pq

    held = pq.read_schema(next(source.glob("*.parquet")))
    kinds = {"string": "STRING", "int64": "BIGINT"}
    columns = [(name, f"{kinds[str(held.field(name).type)]} NOT NULL") for name in keys] + list(TYPES.items())
    return {
        "version": 3,
        "id": 0,
        "fields": [{"id": at, "name": name, "type": kind} for at, (name, kind) in enumerate(columns)],
        "highestFieldId": len(columns) - 1,
        "partitionKeys": [],
        "primaryKeys": keys,
        "options": {"bucket": "1", "write-only": "true"},
        "timeMillis": 0,
    }


def _entries(source: Path, table: Path, schema: TableSchema) -> Iterator[ManifestEntry]:
    """Describe each run as its writer does."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    from packstone.tables.paimon.format.binary_row import encode_row
    from packstone.tables.paimon.format.data_file import (
        EMPTY_ROW,
        DataFileMeta,
        FileKind,
        FileSource,
        ManifestEntry,
        SimpleStats,
    )

    names = [field.name for field in schema.key_fields]
    for path in sorted(source.glob("*.parquet")):
        name = f"data-{uuid.uuid4()}-{INPUT}.parquet"
        os.link(path, table / "bucket-0" / name)
        held = pq.read_table(path, columns=[*names, "_SEQUENCE_NUMBER", "_VALUE_KIND"])
        low, high = (
            encode_row([held[column][row].as_py() for column in names], schema.key_types)
            for row in (0, held.num_rows - 1)
        )
        sequences = pc.min_max(held["_SEQUENCE_NUMBER"]).as_py()
        file = DataFileMeta(
            file_name=name,
            file_size=path.stat().st_size,
            row_count=held.num_rows,
            min_key=low,
            max_key=high,
            key_stats=SimpleStats(min_values=low, max_values=high, null_counts=(0,) * len(names)),
            value_stats=SimpleStats(),
            value_stats_cols=(),
            min_sequence_number=sequences["min"],
            max_sequence_number=sequences["max"],
            schema_id=0,
            level=0,
            creation_time_ms=1_700_000_000_000,
            delete_row_count=pc.sum(pc.equal(held["_VALUE_KIND"], 3)).as_py(),
            file_source=FileSource.APPEND,
        )
        yield ManifestEntry(kind=FileKind.ADD, partition=EMPTY_ROW, bucket=0, total_buckets=1, file=file)


def packstone_inline(source: Path, target: Path, *, keys: list[str], threads: int) -> Callable[[], str]:
    """The whole command in one process on one core, as in one Spark task."""
    from packstone.pipeline.table import Table
    from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

    del threads
    table = target / "table"
    make_table(source, table, keys=keys)

    def run() -> str:
        outcome = Table(str(table)).compact(PaimonOptions(strategy=PaimonStrategy.FULL))
        spent = sum(unit.seconds for unit in outcome.units)
        return f"{outcome.status}, verified by {outcome.verified}: {outcome.verify_seconds:.1f} of {spent:.1f} task s"

    return run


def packstone_on_spark(source: Path, target: Path, *, keys: list[str], threads: int) -> Callable[[], str]:
    """The same on a warm Spark session, with the bucket split over its slots."""
    from pyspark.sql import SparkSession

    import packstone
    from packstone.tables.paimon.options import PaimonOptions, PaimonStrategy

    spark = (
        SparkSession.builder.master(f"local[{threads}]")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.log.level", "ERROR")
        .getOrCreate()
    )
    spark.range(1_000_000).selectExpr("sum(id)").collect()
    table = target / "table"
    make_table(source, table, keys=keys)
    size = sum(path.stat().st_size for path in source.glob("*.parquet"))

    def run() -> str:
        options = PaimonOptions(strategy=PaimonStrategy.FULL, task_bytes=size // (2 * threads) + 1)
        outcome = packstone.open(str(table), spark=spark, history=None).compact(options)
        return f"{outcome.status}, verified by {outcome.verified}, {len(outcome.units[0].outputs)} files"

    return run


def java_compaction(source: Path, target: Path, *, keys: list[str], threads: int) -> Callable[[], str]:
    """Java Paimon's own full compaction, without Spark and without verification."""
    del threads
    with _interop() as client:
        why_not = client.why_no_java()
        if why_not:
            raise SystemExit(f"SKIP {why_not}")
        table = target / "w.db" / "table"
        make_table(source, table, keys=keys)
        quick = [word for word in client.java_command() if "TieredStopAtLevel" not in word and "SerialGC" not in word]
        worker = client.Worker(quick)
        # The worker is compiled from source when it starts; this is not timed.
        worker.call(
            "create", target / "w.db" / "warm", fields=[["a", "INT"]], options={}, partition_keys=[], primary_keys=[]
        )

    def run() -> str:
        worker.call("compact", table, full=True)
        return "compacted, nothing verified"

    return run


def pypaimon_read(source: Path, target: Path, *, keys: list[str], threads: int) -> Callable[[], str]:
    """pypaimon's merge read (it has no compaction); the rows are counted and discarded."""
    del threads
    table = target / "w.db" / "table"
    make_table(source, table, keys=keys)
    with _interop() as client:
        python = client.VENV / "bin/python"
    if not python.exists():
        raise SystemExit("SKIP no pypaimon: `make interop` makes its environment")

    def run() -> str:
        import subprocess

        program = (
            "import sys\nfrom pypaimon.table.file_store_table import FileStoreTable\n"
            "b = FileStoreTable.from_path(sys.argv[1]).new_read_builder()\n"
            "r = b.new_read().to_arrow_batch_reader(b.new_scan().plan().splits())\n"
            "print(sum(x.num_rows for x in r))\n"
        )
        done = subprocess.run([str(python), "-c", program, str(table)], capture_output=True, text=True, check=True)
        return f"merge read of {done.stdout.strip()} rows, nothing written"

    return run


def remove_inputs(target: Path) -> None:
    """Remove everything except what the contender wrote."""
    for path in target.rglob(f"*-{INPUT}.parquet"):
        path.unlink()


@contextmanager
def _interop() -> Iterator[object]:
    folders = [str(INTEROP), str(INTEROP.parent)]  # the client uses a module of the tests
    sys.path[:0] = folders
    try:
        from paimon_interop import client

        yield client
    finally:
        for folder in folders:
            sys.path.remove(folder)
