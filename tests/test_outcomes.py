"""What `plan` and `compact` answer, word for word, over the three families: a change of the loop changes no answer.

The answers are in ``testdata/outcomes``; ``pytest --rewrite`` writes them anew. Times, sizes and names that differ from
run to run are left out.
"""

import json
import re
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

FOLDER = Path(__file__).parent / "testdata" / "outcomes"
PAIMON = Path(__file__).parent / "testdata" / "paimon"
VARYING = {"seconds", "verify_seconds", "commit_ms", "reader_gap_ms", "bytes_after", "bytes_before", "cost", "run"}
VARYING |= {"why_bigger", "fingerprint", "read_seconds_before", "read_seconds_after", "rewrite_bytes"}


def make_hive(lake):
    """Partitions that are merged, too small, of two formats, and with a broken file."""
    lake.parquet("dt=1", files=6)
    lake.parquet("dt=2", files=2)
    lake.text("dt=3", {f"{at}.csv": b"%d,x\n" % at for at in range(6)})
    broken = lake.parquet("dt=4", files=7)
    (broken / "bad.parquet").write_bytes(b"PAR1 this is not a Parquet file PAR1")
    lake.parquet("dt=5", files=5, codec="zstd")
    lake.parquet("dt=5", files=5)
    return lake.table


def make_segments(lake, packstone):
    """Nine loads of ten rows."""
    table, source = lake.root / "sales", lake.root / "in.parquet"
    lake.root.mkdir(parents=True)
    assert packstone("segments", "create", table, "--schema", "id long, name string", "--sort-by", "id").code == 0
    for number in range(9):
        ids = pa.array(range(number * 10, number * 10 + 10), pa.int64())
        pq.write_table(pa.table({"id": ids, "name": ["x"] * 10}), source)
        assert packstone("segments", "load", table, source).code == 0
    return table


HIVE = {
    "hive": (),
    "hive-where": ("--where", "dt = 1"),
    "hive-exclude": ("--exclude", "dt=1", "--exclude", "dt=5"),
    "hive-max-time": ("--max-time=0s",),
    "hive-max-bytes": ("--max-bytes=1B",),
    "hive-min-files": ("--set", "min-files=2"),
    "hive-count": ("--verify", "count"),
    "hive-young": ("--min-age", "1d"),
}
SEGMENTS = {
    "segments": (),
    "segments-major": ("--strategy", "major"),
    "segments-custom": ("--ids", "1,2,3"),
    "segments-max-time": ("--max-time=0s",),
}
TABLES = ["append_partitions", "append_unaware", "deletes", "java_evolved", "java_levels", "orc", "partial_update",
          "pk_overlapping", "pk_partitions_buckets", "sequence_field"]  # fmt: skip


@pytest.mark.parametrize("case", HIVE)
def test_hive(lake, packstone, case, request):
    """A directory of five partitions: planned, compacted, compacted again."""
    check(case, answers(packstone, make_hive(lake), HIVE[case]), lake.root, request)


@pytest.mark.parametrize("case", SEGMENTS)
def test_segments(lake, packstone, case, request):
    """A table of nine loads: planned, compacted, compacted again."""
    check(case, answers(packstone, make_segments(lake, packstone), SEGMENTS[case]), lake.root, request)


@pytest.mark.parametrize("strategy", ["minor", "full"])
@pytest.mark.parametrize("table", TABLES)
def test_paimon(tmp_path, packstone, table, strategy, request):
    """A table that another program wrote: planned, compacted, compacted again."""
    copy = shutil.copytree(PAIMON / table / "table", tmp_path / "lake" / table)
    found = answers(packstone, copy, ("--strategy", strategy))
    check(f"paimon-{table}-{strategy}", found, tmp_path / "lake", request)


def answers(packstone, table, options):
    """What plan, compact and a second compact say."""
    found = {}
    for name in ("plan", "compact", "again"):
        words = [word for word in options if name != "plan" or not word.startswith("--max")]  # a plan has no budget
        done = packstone("plan" if name == "plan" else "compact", table, *words, "--format", "json")
        found[name] = {"code": done.code, **(done.json if done.out else {"error": done.err.strip()})}
    return found


def check(case, found, root, request):
    """Compare with the file, or write it."""
    text = json.dumps(steady(found), indent=1, ensure_ascii=False, sort_keys=True)
    text = text.replace(str(root), "ROOT")
    text = re.sub(r"\d{8}T\d{6}-[0-9a-f]{6}", "RUN", text)
    text = re.sub(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", "UUID", text)
    text = re.sub(r"part-\d{5}-\d{5}-RUN-\d+", "PART", text)
    text = re.sub(r"\d+\.\d{3,}(?= <)", "SIZE", text)  # depends on the version of PyArrow
    path = FOLDER / f"{case}.json"
    if request.config.getoption("--rewrite"):
        FOLDER.mkdir(exist_ok=True)
        path.write_text(text + "\n")
    assert text + "\n" == path.read_text()


def steady(value):
    """Without what differs from run to run."""
    if isinstance(value, dict):
        return {key: steady(one) for key, one in value.items() if key not in VARYING}
    return [steady(one) for one in value] if isinstance(value, list) else value
