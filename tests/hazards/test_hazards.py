"""One rule and one test for each hazard of merging Hive-style directories; ``docs/hazards.md`` names them all.

A hazard is known by its number in the peers' notes. What is needed many times over (every kind of bad input, every
crash point) has tests of its own; here each hazard is met once, as it would be met in a lake.
"""

import contextlib
import hashlib
import lzma
import os
import re
import struct
import time
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from block_file_model import avro_file, rc_file, read_avro_file, sequence_file
from pyarrow import orc

from packstone.errors import PackstoneError, VerificationError
from packstone.model.unit import Verify
from packstone.pipeline.table import Table
from packstone.runs.engine import InlineEngine
from packstone.storage.faulty import Action, Fault, FaultyFileIO
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

NOBODY = 0xFFFFFFFF  # an entry of an ACL that names nobody


def open_on(io, path: Path, *, history: str | None = None) -> Table:
    """Open a table whose every access goes through this storage."""
    return Table(os.path.realpath(path), io=io, engine=lambda: InlineEngine(io), history=history)


def age(path: Path, *, days: float) -> None:
    """Make a file look unchanged for this long."""
    then = time.time() - days * 86_400
    os.utime(path, (then, then))


def test_hazard_01_hidden_and_marker_files(packstone, lake, tree):
    """Markers and hidden files stay byte for byte, and no reader's rows come from them; ``_x=1`` is a partition."""
    folder = lake.parquet("dt=1")
    part = (folder / "part-00000.parquet").read_bytes()
    markers = {
        "_SUCCESS": b"",
        "_committed_7": b"{}",
        ".part-00000.parquet.crc": b"crc",
        ".hidden.parquet": part,
        "_hidden.parquet": part,
    }
    for name, content in markers.items():
        (folder / name).write_bytes(content)
    (folder / ".hidden" / "x").mkdir(parents=True)
    (folder / ".hidden" / "x" / "part.parquet").write_bytes(part)
    lake.parquet("dt=1/_x=1")
    before = tree(folder)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["files_before"], done.json["files_after"]) == (0, 12, 2)
    assert {unit["part"] for unit in done.json["units"]} == {"dt=1", "dt=1/_x=1"}
    after = tree(folder)
    for name in (*markers, ".hidden/x/part.parquet"):
        assert after[name] == before[name]


def test_hazard_01_summary_files_go_with_the_files_they_describe(packstone, lake, tree):
    """``_metadata`` names row groups of the originals: it goes to the backup when they do, and comes back with them."""
    folder = lake.parquet("dt=1")
    (lake.table / "_metadata").write_bytes(b"PAR1 of all")
    (folder / "_common_metadata").write_bytes(b"PAR1 of one")
    (folder / "_SUCCESS").write_bytes(b"")
    before = tree(lake.table)
    run = packstone("compact", lake.table, "--format", "json").json["run"]
    assert lake.names() == ["dt=1"]
    assert "_SUCCESS" in lake.names("dt=1")
    assert "_common_metadata" not in lake.names("dt=1")
    assert packstone("restore", run, lake.table, "--yes").code == 0
    assert tree(lake.table) == before


def test_hazard_02_writes_in_flight(lake):
    """An input that changes between the reading and the swap: the partition is left alone, the writer's bytes stay."""
    folder = lake.parquet("dt=1")
    ids = lake.ids()
    other = lake.parquet("dt=2")

    class WriterAtWork(LocalFileIO):
        """Somebody writes to an input as soon as the merged file is durable."""

        def sync_file(self, path: str) -> None:
            super().sync_file(path)
            pq.write_table(pa.table({"id": [777], "name": ["new"]}), folder / "part-00002.parquet")

    outcome = open_on(WriterAtWork(), lake.table).compact(HiveOptions())
    assert outcome.status == "partial"
    assert [(skip.what, skip.kind) for skip in outcome.skipped if skip.kind == "conflict"] == [("dt=1", "conflict")]
    assert len(lake.names("dt=1")) == 6
    assert sorted(lake.ids("dt=1")) == sorted([*(i for i in ids if i // 10 != 2), 777])
    assert len(list(other.iterdir())) == 1


def test_hazard_02_a_file_that_arrives_meanwhile_is_not_a_conflict(lake):
    """A new file beside the inputs is left alone, and nothing else stops."""
    folder = lake.parquet("dt=1")

    class AppenderAtWork(LocalFileIO):
        """Somebody adds a file while we merge."""

        def sync_file(self, path: str) -> None:
            super().sync_file(path)
            pq.write_table(pa.table({"id": [777], "name": ["new"]}), folder / "part-99999.parquet")

    ids = lake.ids()
    outcome = open_on(AppenderAtWork(), lake.table).compact(HiveOptions())
    assert outcome.status == "committed"
    assert "part-99999.parquet" in lake.names("dt=1")
    assert lake.ids() == sorted([*ids, 777])


def test_hazard_03_files_open_for_write(packstone, lake, tree):
    """Names of unfinished files are never data; a fresh one refuses, and 0 bytes are not taken for an empty file."""
    folder = lake.parquet("dt=1")
    half = (folder / "part-00000.parquet").read_bytes()[:300]
    names = ("a.inprogress", "b.parquet.tmp", "c.pending", "d.writing", "e.parquet._COPYING_")
    for name in names:
        (folder / name).write_bytes(half)
    assert packstone("compact", folder).code == 3
    for name in names:
        age(folder / name, days=3)
    (folder / "part-zero.parquet").write_bytes(b"")
    before = tree(folder)
    done = packstone("compact", folder, "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2)
    after = tree(folder)
    for name in (*names, "part-zero.parquet"):
        assert after[name] == before[name]


def test_hazard_04_uncommitted_task_attempts(packstone, lake, tree):
    """What a failed job left is neither merged nor made permanent: attempt folders stay, torn files are blamed."""
    folder = lake.parquet("dt=1")
    whole = (folder / "part-00000.parquet").read_bytes()
    attempt = folder / "_temporary" / "0" / "_temporary" / "attempt_201907010000_0001_m_000000_0"
    attempt.mkdir(parents=True)
    (attempt / "part-00000.parquet").write_bytes(whole)
    (folder / "part-torn.parquet").write_bytes(whole[: len(whole) // 2])
    for path in (attempt / "part-00000.parquet", attempt, *attempt.parents):
        if folder in path.parents:
            age(path, days=3)
    before = tree(folder)
    done = packstone("compact", folder, "--format", "json")
    assert (done.code, done.json["status"], len(done.json["units"][0]["inputs"])) == (1, "partial", 6)
    after = tree(folder)
    assert after["part-torn.parquet"] == before["part-torn.parquet"]
    kept = str((attempt / "part-00000.parquet").relative_to(folder))
    assert after[kept] == before[kept]


def test_hazard_05_names_that_hive_takes_for_attempts(packstone, lake):
    """Hive reads a task id off digits at the end of a name and drops "duplicates" of it; our names show it none."""
    task_id = re.compile(r"^.*?([0-9]+)(_[0-9]{1,6})?(\..*)?$")  # as in Hive's Utilities
    lake.parquet("dt=1")
    lake.text("dt=2", {f"00000{at}_0": b"%d\n" % at for at in range(6)})
    packstone("compact", lake.table)
    names = [name for partition in ("dt=1", "dt=2") for name in lake.names(partition)]
    assert len(names) == 2
    for name in names:
        assert not task_id.match(name), name


def test_hazard_07_buckets_that_names_tell(packstone, lake, tree):
    """Spark writes the bucket's number into the name; such a folder is refused, and health says why."""
    folder = lake.parquet("dt=1")
    for at, path in enumerate(sorted(folder.iterdir())):
        path.rename(folder / f"part-{at:05d}-0f2c1ac4-54d2-4f4f-9d0e-6f0e4cfa1a5d_{at % 3:05d}.c000.snappy.parquet")
    lake.parquet("dt=2")
    before = tree(folder)
    hazards = packstone("health", lake.table, "--format", "json").json["hazards"]
    assert [(h["hazard"], h["where"]) for h in hazards if h["hazard"] == "bucketed"] == [("bucketed", "dt=1")]
    done = packstone("compact", lake.table, "--format", "json")
    assert [unit["part"] for unit in done.json["units"]] == ["dt=2"]
    assert "shows a bucketed table" in done.skipped("dt=1")
    assert tree(folder) == before
    assert packstone("compact", folder).code == 3


@pytest.mark.parametrize(
    "names",
    [("base_0000005",), ("delta_0000001_0000001",), ("delete_delta_0000002_0000002_0000",), ("base_7_v0000012",)],
)
@pytest.mark.parametrize("with_files", [True, False])
def test_hazard_09_acid_directories(packstone, lake, tree, names, with_files):
    """A transactional table is refused at its root, at a partition, inside a delta, and when it is empty."""
    for name in names:
        folder = lake.folder(f"dt=1/{name}")
        if with_files:
            lake.parquet(f"dt=1/{name}")
    before = tree(lake.table)
    for target in (lake.table, lake.table / "dt=1", folder):
        done = packstone("compact", target, "--format", "json")
        assert (done.code, done.json["status"]) == (3, "refused"), target
        assert "Hive ACID" in done.out
    assert tree(lake.table) == before


TABLE_FORMATS = {
    "Delta Lake": "_delta_log/",
    "Hudi": ".hoodie/",
    "Iceberg": "metadata/00000-7d3f.metadata.json",
    "Iceberg of a Hadoop catalog": "metadata/version-hint.text",
    "Paimon": "snapshot/ schema/",
    "CarbonData": "Metadata/tablestatus",
    "CarbonData with versions": "Metadata/tablestatus_1700000000",
    "CarbonData without a load": "Metadata/schema",
    "segment table": "Metadata/status/",
    "Spark streaming query": "_spark_metadata/",
    "Flink checkpoint": "chk-42/",
    "Flink checkpoint folder": "shared/ taskowned/",
    "Flink savepoint": "savepoint-abc123-0123456789ab/",
}


def make_marker(table: Path, marker: str) -> None:
    """Make the folders and the empty files that tell a table format."""
    for path in marker.split():
        if path.endswith("/"):
            (table / path).mkdir(parents=True)
        else:
            (table / path).parent.mkdir(parents=True, exist_ok=True)
            (table / path).touch()


@pytest.mark.parametrize(("name", "marker"), TABLE_FORMATS.items(), ids=TABLE_FORMATS)
def test_hazard_10_the_directory_is_a_table_format(packstone, lake, tree, name, marker):
    """Its markers count even if they are empty, at the target and at every ancestor of it, and the format is named."""
    lake.parquet("data/dt=1")
    make_marker(lake.table, marker)
    before = tree(lake.table)
    targets = [lake.table]
    if not name.startswith(("Flink checkpoint", "Flink savepoint")) or name == "Flink checkpoint folder":
        targets += [lake.table / "data", lake.table / "data" / "dt=1"]
    for target in targets:
        for command in ("health", "plan", "compact", "recover", "clean"):
            done = packstone(command, target, "--format", "json")
            if command in ("recover", "clean", "health") and done.code == 0:
                assert name.startswith("Flink")  # found by walking, which these do not need
                continue
            assert (done.code, done.json["status"]) == (3, "refused"), (command, target)
            assert name.split()[0].lower() in (done.out + done.err).lower()
    assert tree(lake.table) == before


def test_hazard_10_a_table_of_another_format_inside_the_target(packstone, lake, tree):
    """A Delta table beside the partitions of a table is refused by name, and the partitions are merged."""
    lake.parquet("dt=0")
    lake.parquet("delta/dt=1")
    (lake.table / "delta" / "_delta_log").mkdir()
    before = tree(lake.table / "delta")
    done = packstone("compact", lake.table, "--format", "json")
    assert [unit["part"] for unit in done.json["units"]] == ["dt=0"]
    assert "Delta Lake" in done.skipped("delta")
    assert tree(lake.table / "delta") == before


def test_hazard_11_files_referenced_from_elsewhere(packstone, lake, tree, tmp_path):
    """Links are left alone and reported; what others may refer to by path is kept under a path one can tell."""
    folder = lake.parquet("dt=1")
    outside = tmp_path / "outside.parquet"
    (folder / "part-00000.parquet").rename(outside)
    (folder / "linked.parquet").symlink_to(outside)
    (lake.table / "dt=2").symlink_to(folder)
    link = tree(folder)["linked.parquet"]
    hazards = packstone("health", lake.table, "--format", "json").json["hazards"]
    assert [h["hazard"] for h in hazards].count("symbolic-link") >= 1
    done = packstone("compact", lake.table, "--format", "json")
    assert [(u["part"], len(u["inputs"])) for u in done.json["units"]] == [("dt=1", 5)]
    assert tree(folder)["linked.parquet"] == link
    assert outside.exists()
    kept = lake.root / ".packstone" / "orders" / "backup" / done.json["run"] / "dt=1"
    assert sorted(path.name for path in kept.iterdir()) == [f"part-{at:05d}.parquet.kept" for at in range(1, 6)]


def test_hazard_12_spark_streaming_sink(packstone, lake, tree):
    """``_spark_metadata`` is the truth about the directory, so no file of it is moved, however deep the target is."""
    folder = lake.parquet("dt=1/hour=2")
    (lake.table / "_spark_metadata").mkdir()
    (lake.table / "_spark_metadata" / "0").write_text("v1")
    before = tree(lake.table)
    for target in (lake.table, folder):
        done = packstone("compact", target)
        assert done.code == 3
        assert "Spark streaming query" in done.sentence
    assert tree(lake.table) == before


def test_hazard_13_kafka_connect_reads_offsets_from_names(packstone, lake):
    """The file with the highest offset of each topic and partition stays under its name; the others are merged."""
    folder = lake.parquet("dt=1", files=12)
    names = [f"clicks+{at % 2}+{at * 100:010d}+{at * 100 + 99:010d}.parquet" for at in range(12)]
    for path, name in zip(sorted(folder.iterdir()), names, strict=True):
        path.rename(folder / name)
    rows = lake.ids()
    hazards = packstone("health", lake.table, "--format", "json").json["hazards"]
    (found,) = [h for h in hazards if h["hazard"] == "kafka-connect-names"]
    assert "2 files stay" in found["evidence"]
    done = packstone("compact", lake.table, "--format", "json")
    assert [len(unit["inputs"]) for unit in done.json["units"]] == [10]
    assert sorted(name for name in lake.names("dt=1") if name.startswith("clicks")) == sorted(names[-2:])
    assert "Kafka Connect resumes its topic" in done.skipped(names[-1])
    assert lake.ids() == rows


def test_hazard_18_crash_between_steps(lake, packstone, tmp_path):
    """Whichever step of a run fails, the rows are the original rows, at the latest after ``recover``."""
    lake.parquet("dt=1", files=5)
    counting = FaultyFileIO(LocalFileIO())
    open_on(counting, lake.table).compact(HiveOptions())
    assert len(counting.steps) > 20
    for step in range(len(counting.steps)):
        again = type(lake)(tmp_path / f"lake{step}")
        again.parquet("dt=1", files=5)
        ids = again.ids()
        io = FaultyFileIO(LocalFileIO(), fault=Fault(step=step, action=Action.FAIL))
        with contextlib.suppress(PackstoneError, OSError):
            open_on(io, again.table).compact(HiveOptions())
        # The process that failed is this one and lives, so its ownership is taken over by word.
        assert packstone("recover", again.table, "--take-over").code == 0, counting.steps[step]
        assert again.ids() == ids, counting.steps[step]
        done = packstone("compact", again.table, "--take-over", "--format", "json")
        assert (done.code, len(again.names("dt=1"))) == (0, 1), counting.steps[step]


def test_hazard_19_writes_are_durable_before_originals_move(lake):
    """Merged bytes and the intent are synced before the first original moves; each batch of moves is synced too."""
    folder = os.path.realpath(lake.parquet("dt=1"))
    io = FaultyFileIO(LocalFileIO())
    open_on(io, lake.table).compact(HiveOptions())
    steps = io.steps
    originals = [at for at, step in enumerate(steps) if step.startswith(f"move {folder}/part-")]
    published = [at for at, step in enumerate(steps) if step.startswith("move ") and "/staging/" in step]
    synced_data = [at for at, step in enumerate(steps) if step.startswith("sync_file ") and "/staging/" in step]
    intent = [at for at, step in enumerate(steps) if step.startswith("write_new ") and ".intent.json" in step]
    done = [at for at, step in enumerate(steps) if step.startswith("write_new ") and ".done.json" in step]
    synced_table = [at for at, step in enumerate(steps) if step == f"sync_dir {folder}"]
    assert len(originals) == 6
    assert max(synced_data) < min(intent) < min(originals)
    assert any(max(originals) < at < min(published) for at in synced_table)
    assert any(max(published) < at < min(done) for at in synced_table)


def test_hazard_22_acls_and_attributes(packstone, lake):
    """Outputs have the ACL and the user's attributes of their inputs; inputs that differ are never mixed."""
    folder = lake.parquet("dt=1")
    entries = ((1, 6, NOBODY), (2, 4, 1234), (4, 4, NOBODY), (16, 4, NOBODY), (32, 0, NOBODY))  # user 1234 may read
    acl = struct.pack("<I", 2) + b"".join(struct.pack("<HHI", *entry) for entry in entries)
    for number, path in enumerate(sorted(folder.iterdir())):
        try:
            os.setxattr(path, "user.origin", b"shop" if number < 3 else b"web")
            os.setxattr(path, "system.posix_acl_access", acl)
        except OSError as error:
            pytest.skip(f"no ACLs or attributes on this file system: {error}")
    done = packstone("compact", lake.table, "--set", "min-files=2", "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2), done
    assert sorted(os.getxattr(path, "user.origin") for path in folder.iterdir()) == [b"shop", b"web"]
    assert [os.getxattr(path, "system.posix_acl_access") for path in folder.iterdir()] == [acl, acl]
    assert lake.ids() == list(range(60))


def test_hazard_29_mixed_formats_and_schemas(packstone, lake):
    """Only files that agree in format, schema and codec are merged; every group comes out on its own."""
    folder = lake.parquet("dt=1", files=5)
    lake.parquet("dt=1", files=5, codec="zstd")
    for at in range(5):
        wider = pa.table({"id": [1000 + at], "name": ["w"], "added": [1.5]})
        pq.write_table(wider, folder / f"wide-{at}.parquet")
        swapped = pa.table({"name": ["s"], "id": [2000 + at]})
        pq.write_table(swapped, folder / f"swapped-{at}.parquet")
        (folder / f"old-{at}").write_bytes(b"%d\x01text\n" % at)
    orc.write_table(pa.table({"id": [1]}), folder / "x.orc")
    for at in range(5):
        (folder / f"{at}.avro").write_bytes(avro_file([(at, b"x")]))
        (folder / f"packed-{at}.avro").write_bytes(avro_file([(at, b"x")], codec="deflate"))
        (folder / f"sequence-{at}").write_bytes(sequence_file([(b"k", b"v")]))
    (folder / "x.rc").write_bytes(rc_file([(b"k", b"v")]))
    ids = lake.ids()
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, len(done.json["units"])) == (0, 8)
    assert lake.ids() == ids
    assert (folder / "x.orc").exists()
    assert (folder / "x.rc").exists()
    assert sorted(len(read_avro_file(path.read_bytes())) for path in folder.glob("*.avro")) == [5, 5]
    shapes = Counter(
        (tuple(pq.read_schema(path).names), pq.ParquetFile(path).metadata.row_group(0).column(0).compression)
        for path in folder.glob("*.parquet")
    )
    assert shapes == {
        (("id", "name"), "SNAPPY"): 1,
        (("id", "name"), "ZSTD"): 1,
        (("id", "name", "added"), "SNAPPY"): 1,
        (("name", "id"), "SNAPPY"): 1,
    }


def test_hazard_30_text(packstone, lake):
    """Lines stay lines: a missing last newline is added, nothing else is; what is not plain lines is left alone."""
    lines = {
        "a.csv": b"1,one\n2,two\n",
        "b.csv": b"3,no newline",
        "e.csv": b'7,"quoted\nnewline"\n',
        "f.csv": b"8,\xff\xfe not utf-8\n",
        "g.csv": b"\n\n9,blank lines before\n",
    }
    alone = {
        "bom.csv": b"\xef\xbb\xbf1,bom\n",
        "cr.csv": b"6,ends in cr\r7,cr\r",
        "mixed.csv": b"6,lf\n7,crlf\r\n",
        "zipped.csv.xz": lzma.compress(b"1,xz\n"),
        "doc.xml": b"<?xml version='1.0'?>\n<a>\n</a>\n",
        "doc.json": b'{\n "a": 1\n}\n',
    }
    others = {"crlf.csv": b"4,crlf\r\n5,crlf\r\n", "three.csv": b"1,2,3\n", "semicolon.csv": b"1;2\n3;4\n"}
    folder = lake.text("", {**lines, **alone, **others})
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["status"]) == (0, "committed"), done.out
    for name, content in {**alone, **others}.items():
        assert (folder / name).read_bytes() == content
    assert all(done.skipped(name) for name in alone)
    (merged,) = folder.glob("packstone-*.csv")
    assert merged.read_bytes() == b"".join(
        content if content.endswith(b"\n") else content + b"\n" for content in lines.values()
    )


def test_hazard_35_a_merged_file_bigger_than_its_inputs(packstone, lake, tree):
    """Where encoding anew makes a file much bigger the originals stay, with the reason; ``--codec`` insists."""
    folder = lake.folder("dt=1")
    for at in range(6):  # 50,000 values that no other file has, in a dictionary of 3.5 MB
        values = [hashlib.sha256(b"%d" % (at * 50_000 + number)).hexdigest() for number in range(50_000)]
        table = pa.table({"id": range(at * 100_000, at * 100_000 + 100_000), "s": values + values})
        by_id = [pq.SortingColumn(0)]  # sorted files are encoded again
        pq.write_table(table, folder / f"{at}.parquet", dictionary_pagesize_limit=1 << 23, sorting_columns=by_id)
    lake.parquet("dt=2")
    ids, before = lake.ids(), tree(folder)
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, [unit["part"] for unit in done.json["units"]]) == (0, ["dt=2"])
    assert re.search(r"6 files of .* would become one of .*column s takes .*--codec", done.skipped("dt=1"))
    assert (tree(folder), lake.ids()) == (before, ids)
    assert packstone("compact", folder, "--codec", "zstd").code == 0
    assert (len(lake.names("dt=1")), lake.ids()) == (1, ids)


def test_hazard_35_a_little_bigger_is_not_a_reason(packstone, lake):
    """Growth by a few bytes, here a newline to every byte, does not stop a merge."""
    lake.text("", {f"{at}.txt": b"%d" % at for at in range(6)})
    done = packstone("compact", lake.table, "--format", "json")
    assert (done.code, done.json["bytes_after"]) == (0, 12)


NASTY_NAMES = [
    "dt=2019-07-01 10%3A00%3A00",
    "dt=__HIVE_DEFAULT_PARTITION__",
    "dt=a=b",
    "dt=日本語 é",
    "dt=with 'quotes\" and \\backslash",
    "dt=new\nline",
    "dt=[brackets]*?{x}",
    "dt=-rf",
    "dt=\x1b[31mred",
    "dt=100%",
    os.fsdecode(b"dt=not-\xff-utf8"),
    "dt=" + "x" * 240,
]


def test_hazard_36_archived_partitions(packstone, lake, tree):
    """A Hadoop archive is refused, as is the partition that is one; the others are merged."""
    lake.parquet("dt=1/data.har")
    (lake.table / "dt=1" / "data.har" / "_index").write_text("x")
    (lake.table / "dt=1" / "data.har" / "_masterindex").write_text("x")
    lake.parquet("dt=2")
    before = tree(lake.table / "dt=1")
    done = packstone("compact", lake.table, "--format", "json")
    assert [unit["part"] for unit in done.json["units"]] == ["dt=2"]
    assert "archived (HAR)" in done.skipped("dt=1")
    for target in ("dt=1", "dt=1/data.har"):
        done = packstone("compact", lake.table / target)
        assert (done.code, "archived (HAR)" in done.out + done.err) == (3, True)
    assert tree(lake.table / "dt=1") == before


@pytest.mark.parametrize("name", NASTY_NAMES, ids=[ascii(name)[:30] for name in NASTY_NAMES])
def test_hazard_39_special_characters(packstone, lake, tree, name):
    """Any name that a file system allows survives a merge, its restore, and what is printed about it."""
    folder = lake.parquet(name, files=4)
    (folder / "part-00003.parquet").rename(folder / ("x" + name.removeprefix("dt=")[:200] + ".parquet"))
    (folder / "part-00002.parquet").rename(folder / "a%20b=c #1.parquet")
    lake.parquet(name, files=2)
    before = tree(lake.table)
    ids = lake.ids()
    assert packstone("health", lake.table).code == 0
    assert packstone("plan", lake.table).code == 0
    done = packstone("compact", folder)
    assert done.code == 0, done.err
    assert "\x1b" not in done.out
    assert len(done.out.splitlines()) < 20
    assert lake.ids() == ids
    assert len(lake.names(name)) == 1
    run = packstone("history", "--format", "json").json["runs"][0]["run"]
    assert packstone("verify", run, folder).code == 0
    # The history keeps text only, so a path that is none must be given.
    target = (folder,) if "utf8" in name else ()
    assert packstone("restore", run, *target, "--yes").code == 0
    assert tree(lake.table) == before


def test_hazard_39_double_slashes_and_dots_in_the_target(packstone, lake):
    """One folder has one owner and one journal, whatever it is called."""
    lake.parquet("dt=1")
    done = packstone("compact", f"{lake.root}//orders/./dt=1/../dt=1/", "--format", "json")
    assert (done.code, done.json["table"]) == (0, f"{lake.table}/dt=1")
    assert packstone("compact", f"file://{lake.table}/dt=1").code == 0


def test_hazard_39_names_too_long_to_be_kept(packstone, lake, tree):
    """A name that leaves no room for our ending cannot be kept as a backup, so the file is left alone."""
    folder = lake.parquet("dt=1", files=7)
    long = "x" * 243 + ".parquet"
    (folder / "part-00006.parquet").rename(folder / long)
    before = tree(folder)[long]
    done = packstone("compact", folder, "--format", "json")
    assert (done.code, done.json["status"]) == (0, "committed")
    assert "too long" in done.skipped(long)
    assert tree(folder)[long] == before
    assert len(lake.names("dt=1")) == 2


def test_hazard_40_empty_and_degenerate_inputs(packstone, lake):
    """0 rows, only nulls, one file, one big file: each has an answer that keeps the schema and every row."""
    folder = lake.folder("dt=1")
    schema = pa.schema({"id": pa.int64(), "v": pa.float64()})
    for at in range(5):
        pq.write_table(schema.empty_table(), folder / f"empty-{at}.parquet")
    done = packstone("compact", folder, "--format", "json")
    assert (done.code, done.json["rows"], len(lake.names("dt=1"))) == (0, 0, 1)
    assert pq.read_schema(next(folder.iterdir())).equals(schema)
    nulls = lake.folder("dt=2")
    for at in range(5):
        pq.write_table(pa.table({"id": [None, at], "v": [None, None]}, schema=schema), nulls / f"n-{at}.parquet")
    assert packstone("compact", nulls).code == 0
    (merged,) = nulls.iterdir()
    assert Counter(map(str, pq.read_table(merged, partitioning=None).to_pylist())) == Counter(
        str({"id": i, "v": None}) for i in (None, 0, None, 1, None, 2, None, 3, None, 4)
    )
    lake.parquet("dt=3", files=1)
    assert packstone("compact", lake.table / "dt=3", "--format", "json").json["status"] == "nothing-to-do"
    lake.parquet("dt=4", files=5, rows=5000)
    done = packstone("compact", lake.table / "dt=4", "--block-size", "1K", "--format", "json")
    assert (done.code, done.json["status"]) == (0, "nothing-to-do")


def test_hazard_42_restore_after_newer_writes(packstone, lake):
    """Restoring takes out exactly our outputs and puts the originals back; what arrived since stays."""
    lake.parquet("dt=1")
    ids = lake.ids()
    run = packstone("compact", lake.table, "--format", "json").json["run"]
    lake.parquet("dt=1", files=2)
    assert packstone("restore", run, lake.table, "--yes").code == 0
    assert len(lake.names("dt=1")) == 8
    assert lake.ids() == list(range(len(ids) + 20))
    again = packstone("restore", run, lake.table, "--yes", "--format", "json")
    assert (again.code, again.json["status"]) == (0, "nothing-to-do")


def test_hazard_42_restore_refuses_what_was_merged_again(packstone, lake, tree):
    """An output that a later run merged cannot be taken out; that run is named, and restored first it works."""
    lake.parquet("dt=1")
    first = packstone("compact", lake.table, "--format", "json").json["run"]
    lake.parquet("dt=1")
    second = packstone("compact", lake.table, "--format", "json").json["run"]
    before = tree(lake.table)
    done = packstone("restore", first, lake.table, "--yes")
    assert done.code == 3
    assert second in done.sentence
    assert tree(lake.table) == before
    assert packstone("restore", second, lake.table, "--yes").code == 0
    assert packstone("restore", first, lake.table, "--yes").code == 0
    assert lake.ids() == list(range(120))
    assert len(lake.names("dt=1")) == 12


def test_hazard_42_restore_refuses_a_changed_output(packstone, lake, tree):
    """Somebody rewrote our output: it is theirs now, and putting the originals beside it would double rows."""
    folder = lake.parquet("dt=1")
    run = packstone("compact", lake.table, "--format", "json").json["run"]
    (merged,) = folder.iterdir()
    pq.write_table(pa.table({"id": [1]}), merged)
    before = tree(lake.table)
    done = packstone("restore", run, lake.table, "--yes")
    assert done.code == 3
    assert "is not the file that was merged" in done.sentence
    assert tree(lake.table) == before


class SwappedRow(LocalFileIO):
    """A storage that gives back a merged file with one row lost and another one doubled: the count is right."""

    def open_input(self, path: str):
        """Lie about staged files only."""
        if "/staging/" not in path or not path.endswith(".data"):
            return super().open_input(path)
        table = pq.read_table(path, partitioning=None)
        lying = pa.concat_tables([table.slice(0, table.num_rows - 1), table.slice(0, 1)])
        sink = pa.BufferOutputStream()
        pq.write_table(lying, sink, store_schema=False)
        return pa.BufferReader(sink.getvalue())


def test_hazard_44_a_count_is_not_enough(lake, tree, tmp_path, packstone):
    """A row lost and another doubled cancel in a count, not in the fingerprint: stop, publish nothing, keep all."""
    lake.parquet("dt=1")
    before = tree(lake.table)
    table = open_on(SwappedRow(), lake.table, history=f"sqlite:///{tmp_path}/history.db")
    with pytest.raises(VerificationError, match="The evidence is kept in") as caught:
        table.compact()
    assert tree(lake.table) == before
    evidence = Path(caught.value.facts["staging"])
    assert list(evidence.glob("*.data"))
    (recorded,) = packstone("history", "--format", "json").json["runs"]
    assert recorded["status"] == "failed"
    assert str(evidence) in recorded["message"]
    assert packstone("compact", lake.table).code == 0
    assert lake.ids() == list(range(60))


def test_hazard_44_what_count_would_have_let_pass(lake):
    """The same lie under ``--verify count``: this is why content is the default."""
    lake.parquet("dt=1")
    outcome = open_on(SwappedRow(), lake.table).compact(HiveOptions(verify=Verify.COUNT))
    assert outcome.status == "committed"
