"""A small real Paimon table to commit to, with a writer and a reader that share no code with Packstone.

``append`` is what another program does: files on level 0 and an APPEND snapshot, written with fastavro and PyArrow by
the Avro schemas that pypaimon wrote into tests/testdata, published with an exclusive link. ``rows`` reads back.
``compaction`` is the product's half: edits that merge the live files of each bucket into one file on level 5.
"""

import contextlib
import json
import os
import struct
import sys
import time
import uuid
from functools import cache
from pathlib import Path

import fastavro
import pyarrow as pa
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).parent / "interop"))

from paimon_interop.invariants import problems_of
from paimon_interop.table_files import ADD, TableFiles

from packstone.runs.clock import Clock
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.commit import CommitOptions, RetryWait
from packstone.tables.paimon.conflicts import Edit
from packstone.tables.paimon.draft import MergeLimits
from packstone.tables.paimon.format.data_file import EMPTY_ROW, DataFileMeta, FileSource, SimpleStats
from packstone.tables.paimon.format.live_files import read_live_files
from packstone.tables.paimon.format.snapshot import read_latest_snapshot

FIXTURE = Path(__file__).parent / "testdata/paimon/pk_overlapping/table/manifest"
EMPTY_STATS = {"_MIN_VALUES": EMPTY_ROW, "_MAX_VALUES": EMPTY_ROW, "_NULL_COUNTS": []}
BIGINT = {"name": "id", "type": "BIGINT NOT NULL"}


def long_row(number):
    """One BIGINT as Paimon serialises a row."""
    return struct.pack(">i", 1) + bytes(8) + struct.pack("<q", number)


@cache
def avro_schema(prefix):
    """How pypaimon writes manifests ("manifest-") or their lists ("manifest-list-")."""
    names = sorted(p.name for p in FIXTURE.iterdir())
    name = next(n for n in names if n.startswith(prefix) and (prefix != "manifest-" or "-list-" not in n))
    with (FIXTURE / name).open("rb") as file:
        return fastavro.parse_schema(fastavro.reader(file).writer_schema)


class PaimonLake:
    """One table with a BIGINT key and value, a fixed number of buckets, and maybe a partition column."""

    def __init__(self, path, *, buckets=2, partitioned=False):
        self.path = Path(path)
        self.table = str(path)
        self.buckets, self.partitioned = buckets, partitioned

    def create(self, **options):
        """Write the first schema."""
        fields = [{"id": 0, "name": "id", "type": "BIGINT NOT NULL"}, {"id": 1, "name": "v", "type": "BIGINT"}]
        if self.partitioned:
            fields.append({"id": 2, "name": "p", "type": "BIGINT NOT NULL"})
        keys = ["p"] if self.partitioned else []
        schema = {
            "version": 3,
            "id": 0,
            "fields": fields,
            "highestFieldId": len(fields) - 1,
            "partitionKeys": keys,
            "primaryKeys": [*keys, "id"],
            "options": {"bucket": str(self.buckets), **options},
            "timeMillis": 0,
        }
        for folder in ("schema", "snapshot", "manifest"):
            (self.path / folder).mkdir(parents=True, exist_ok=True)
        (self.path / "schema/schema-0").write_text(json.dumps(schema))
        return self

    # ---- the other program -------------------------------------------------------------------------------------------

    def append(self, rows, *, partition=None, user="other", attempts=200, time_ms=None, deleted=()):
        """Commit rows {id: v} as one APPEND snapshot; return its number.

        Those of the ids that are deleted are delete markers, of which the record says nothing: as pypaimon 2.1 writes.
        """
        entries = []
        for bucket in range(self.buckets):
            some = {key: value for key, value in sorted(rows.items()) if key % self.buckets == bucket}
            if some:
                entries.append(self._write_file(some, bucket, partition, deleted))
        for _ in range(attempts):
            number = self._try_append(entries, user, time_ms or int(time.time() * 1000))
            if number is not None:
                return number
            time.sleep(0.002)
        raise TimeoutError("every race was lost")

    def _write_file(self, rows, bucket, partition, deleted=()):
        first = time.time_ns()
        sequences = range(first, first + len(rows))
        file = self._parquet(rows, dict(zip(rows, sequences, strict=True)), bucket, partition, deleted=deleted)
        meta = {
            "_FILE_NAME": file.name,
            "_FILE_SIZE": file.stat().st_size,
            "_ROW_COUNT": len(rows),
            "_MIN_KEY": long_row(min(rows)),
            "_MAX_KEY": long_row(max(rows)),
            "_KEY_STATS": {
                "_MIN_VALUES": long_row(min(rows)),
                "_MAX_VALUES": long_row(max(rows)),
                "_NULL_COUNTS": [0],
            },
            "_VALUE_STATS": EMPTY_STATS,
            "_VALUE_STATS_COLS": [],
            "_MIN_SEQUENCE_NUMBER": sequences[0],
            "_MAX_SEQUENCE_NUMBER": sequences[-1],
            "_SCHEMA_ID": 0,
            "_LEVEL": 0,
            "_EXTRA_FILES": [],
            "_CREATION_TIME": int(time.time() * 1000),
            "_DELETE_ROW_COUNT": 0,
            "_FILE_SOURCE": 0,
        }
        return {
            "_VERSION": 2,
            "_KIND": 0,
            "_PARTITION": EMPTY_ROW if partition is None else long_row(partition),
            "_BUCKET": bucket,
            "_TOTAL_BUCKETS": self.buckets,
            "_FILE": meta,
        }

    def bucket_folder(self, bucket, partition=None):
        """Where files of a bucket stand."""
        return self.path.joinpath(*([] if partition is None else [f"p={partition}"]), f"bucket-{bucket}")

    def _parquet(self, rows, sequences, bucket, partition, name=None, deleted=()):
        folder = self.bucket_folder(bucket, partition)
        folder.mkdir(parents=True, exist_ok=True)
        keys, count = list(rows), len(rows)
        columns = {
            "_KEY_id": pa.array(keys, pa.int64()),
            "_SEQUENCE_NUMBER": pa.array([sequences[key] for key in keys], pa.int64()),
            "_VALUE_KIND": pa.array([3 if key in deleted else 0 for key in keys], pa.int8()),
            "id": pa.array(keys, pa.int64()),
            "v": pa.array([rows[key] for key in keys], pa.int64()),
        }
        if self.partitioned:
            columns["p"] = pa.array([partition] * count, pa.int64())
        path = folder / (name or f"data-{uuid.uuid4()}-0.parquet")
        pq.write_table(pa.table(columns), path)
        return path

    def _try_append(self, entries, user, time_ms):
        latest = self.latest()
        number = latest["id"] + 1 if latest else 1
        token = uuid.uuid4()
        folder = self.path / "manifest"
        previous = []
        if latest:
            try:
                files = TableFiles(self.path)
                previous = files.manifests(latest["baseManifestList"]) + files.manifests(latest["deltaManifestList"])
            except FileNotFoundError:
                return None  # expired while we read
        name = f"manifest-{token}-0"
        size = write_avro(folder / name, avro_schema("manifest-"), entries)
        partitions = sorted(entry["_PARTITION"] for entry in entries)
        meta = {
            "_VERSION": 2,
            "_FILE_NAME": name,
            "_FILE_SIZE": size,
            "_NUM_ADDED_FILES": len(entries),
            "_NUM_DELETED_FILES": 0,
            "_PARTITION_STATS": {
                "_MIN_VALUES": partitions[0],
                "_MAX_VALUES": partitions[-1],
                "_NULL_COUNTS": [0] if self.partitioned else [],
            },
            "_SCHEMA_ID": 0,
            "_MIN_BUCKET": min(entry["_BUCKET"] for entry in entries),
            "_MAX_BUCKET": max(entry["_BUCKET"] for entry in entries),
            "_MIN_LEVEL": 0,
            "_MAX_LEVEL": 0,
        }
        lists = avro_schema("manifest-list-")
        sizes = [
            write_avro(folder / f"manifest-list-{token}-{at}", lists, some)
            for at, some in enumerate((previous, [meta]))
        ]
        rows = sum(entry["_FILE"]["_ROW_COUNT"] for entry in entries)
        inherited = ("indexManifest", "watermark", "statistics")
        snapshot = {
            "version": 3,
            "uuid": str(token),
            "id": number,
            "schemaId": 0,
            "baseManifestList": f"manifest-list-{token}-0",
            "baseManifestListSize": sizes[0],
            "deltaManifestList": f"manifest-list-{token}-1",
            "deltaManifestListSize": sizes[1],
            "commitUser": user,
            "commitIdentifier": 2**63 - 1,
            "commitKind": "APPEND",
            "timeMillis": time_ms,
            "totalRecordCount": (latest["totalRecordCount"] if latest else 0) + rows,
            "deltaRecordCount": rows,
            **{name: latest[name] for name in inherited if latest and latest.get(name) is not None},
        }
        if not self.publish(snapshot):
            for path in (name, f"manifest-list-{token}-0", f"manifest-list-{token}-1"):
                (folder / path).unlink()
            return None
        return number

    def publish(self, snapshot):
        """Give a snapshot its number exclusively; False if it is taken."""
        path = self.path / "snapshot" / f"snapshot-{snapshot['id']}"
        aside = self.path / "snapshot" / f".aside-{uuid.uuid4()}"
        aside.write_text(json.dumps(snapshot))
        try:
            os.link(aside, path)
        except FileExistsError:
            return False
        finally:
            aside.unlink()
        hint = self.path / "snapshot" / f".hint-{uuid.uuid4()}"
        hint.write_text(str(snapshot["id"]))
        hint.rename(self.path / "snapshot/LATEST")
        return True

    # ---- reading -----------------------------------------------------------------------------------------------------

    def ids(self):
        """The numbers of all snapshots."""
        return sorted(int(p.name.partition("-")[2]) for p in (self.path / "snapshot").glob("snapshot-*"))

    def snapshot(self, number):
        """One snapshot's JSON."""
        return json.loads((self.path / "snapshot" / f"snapshot-{number}").read_text())

    def latest(self):
        """The newest snapshot's JSON, or None."""
        while ids := self.ids():
            with contextlib.suppress(FileNotFoundError):
                return self.snapshot(ids[-1])
        return None

    def live(self, number=None, *, snapshot=None):
        """The live entries of a snapshot, by replaying its manifests."""
        snapshot = snapshot or (self.latest() if number is None else self.snapshot(number))
        files, live = TableFiles(self.path), {}
        for which in ("baseManifestList", "deltaManifestList"):
            for entry in files.entries(snapshot[which]):
                if entry.kind == ADD:
                    live[entry.identity] = entry
                else:
                    del live[entry.identity]
        return list(live.values())

    def rows(self, number=None, *, snapshot=None):
        """All rows {(partition, id): v} of a snapshot, merged by key: the highest sequence wins."""
        found = {}
        files = TableFiles(self.path)
        for entry in self.live(number, snapshot=snapshot):
            with pq.ParquetFile(files.data_path(entry)) as file:
                table = file.read()
            for row in table.to_pylist():
                at = row.get("p"), row["id"]
                found[at] = max(found.get(at, (-1, 0)), (row["_SEQUENCE_NUMBER"], row["v"]))
        return {at: value for at, (_, value) in found.items()}

    def problems(self):
        """All that is wrong with the table, by code that is not the product's."""
        return problems_of(self.path)

    def names(self):
        """Every file of the table by its path in it."""
        return {str(p.relative_to(self.path)) for p in self.path.rglob("*") if p.is_file()}

    # ---- the product's half ------------------------------------------------------------------------------------------

    def compaction(self, *, buckets=None, io=None, name="data-{token}-0.parquet"):
        """Edits that merge each bucket that has something on level 0 into one file on level 5."""
        io = io or LocalFileIO()
        snapshot = read_latest_snapshot(io, self.table)
        found = read_live_files(io, self.table, snapshot)
        wanted = (b for b in found if buckets is None or b.bucket in buckets)
        return [self._edit(b, name) for b in wanted if any(file.level == 0 for file in b.files)]

    def _edit(self, bucket, name):
        partition = struct.unpack("<q", bucket.partition[-8:])[0] if self.partitioned else None
        rows, folder = {}, self.bucket_folder(bucket.bucket, partition)
        for file in bucket.files:
            with pq.ParquetFile(folder / file.file_name) as data:
                for row in data.read().to_pylist():
                    rows[row["id"]] = max(rows.get(row["id"], (-1, 0)), (row["_SEQUENCE_NUMBER"], row["v"]))
        rows = dict(sorted(rows.items()))
        path = self._parquet(
            {key: value for key, (_, value) in rows.items()},
            {key: sequence for key, (sequence, _) in rows.items()},
            bucket.bucket,
            partition,
            name=name.format(token=uuid.uuid4(), bucket=bucket.bucket, partition=partition),
        )
        after = merged_file(path, rows)
        return Edit(
            partition=bucket.partition,
            bucket=bucket.bucket,
            total_buckets=bucket.total_buckets,
            before=bucket.files,
            after=(after,),
        )


def merged_file(path, rows):
    """What a manifest says of a merged file."""
    low, high = long_row(min(rows)), long_row(max(rows))
    sequences = [sequence for sequence, _ in rows.values()]
    return DataFileMeta(
        file_name=path.name,
        file_size=path.stat().st_size,
        row_count=len(rows),
        min_key=low,
        max_key=high,
        key_stats=SimpleStats(min_values=low, max_values=high, null_counts=(0,)),
        value_stats=SimpleStats(),
        value_stats_cols=(),
        min_sequence_number=min(sequences),
        max_sequence_number=max(sequences),
        schema_id=0,
        level=5,
        creation_time_ms=0,
        delete_row_count=0,
        file_source=FileSource.COMPACT,
    )


def write_avro(path, schema, records):
    """Write a container file; return its size."""
    with path.open("xb") as file:
        fastavro.writer(file, schema, records, codec="deflate")
    return path.stat().st_size


def options(**other):
    """Commit options for tests: quick, and merging whenever there are two manifests."""
    given = {
        "user": "packstone",
        "writer_version": "packstone-test",
        "retry": RetryWait(max_retries=50, min_ms=1, max_ms=20),
        "merge": MergeLimits(min_count=2),
        "settle_seconds": 0.0,
        "manifest_codec": "deflate",  # which every fastavro can read
        **other,
    }
    return CommitOptions(**given)


def tools(**other):
    """The clock and ids of this process, for ``commit_edits``; names are recorded nowhere."""
    record = other.pop("record", lambda _paths: None)
    given = {
        "now_ms": lambda: int(time.time() * 1000),
        "new_id": lambda: str(uuid.uuid4()),
        "random": lambda: 0.5,
        "sleep": time.sleep,
        **other,
    }
    return {"clock": Clock(**given), "record": record}
