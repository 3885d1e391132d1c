"""A disk that fills up while PyArrow writes: one sentence, no traceback, and the table as it was."""

import os
import random
import subprocess
import sys

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_lake import PaimonLake

ROWS = 10_000
# A limit on the size of a file fails writes as a full disk does, at the chosen byte.
PROGRAM = r"""
import resource, signal, sys
import pyarrow.parquet
from packstone.cli import main

signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
limits, arguments = sys.argv[1].split(","), sys.argv[2:]
unlimited = resource.getrlimit(resource.RLIMIT_FSIZE)
for limit in map(int, limits):
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, unlimited[1]))
    code = main.run(arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, unlimited)
    print("exit", code, flush=True)
"""


def run(tmp_path, limits, *arguments):
    """Run a command under each limit; return its exit codes and all that it printed."""
    environment = {
        **os.environ,
        "PACKSTONE_ENGINE": "inline",
        "PACKSTONE_HISTORY": f"sqlite:///{tmp_path}/history.db",
        "PACKSTONE_UNRECORDED": f"{tmp_path}/unrecorded",
    }
    command = [sys.executable, "-c", PROGRAM, ",".join(map(str, limits)), *map(str, arguments)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    codes = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("exit ")]
    return codes, " ".join((done.stdout + done.stderr).split())


def random_table(seed):
    """Rows that do not compress."""
    chance = random.Random(seed)
    return pa.table({
        "id": [chance.randrange(1 << 60) for _ in range(ROWS)],
        "s": [str(chance.random()) for _ in range(ROWS)],
    })  # fmt: skip


def check(codes, printed, *, limits):
    """Every write failed, and nothing but sentences was printed."""
    assert codes == [1] * len(limits), printed
    assert "Traceback" not in printed
    assert "Exception ignored" not in printed
    assert "Unexpected" not in printed
    assert "File too large" in printed


@pytest.mark.parametrize("use_dictionary", [True, False])
def test_hive(tmp_path, use_dictionary):
    """Files that are encoded again, and files whose pages are copied."""
    (tmp_path / "t").mkdir()
    for number in range(6):
        pq.write_table(random_table(number), tmp_path / f"t/f{number}.parquet", use_dictionary=use_dictionary)
    size_bytes = sum(file.stat().st_size for file in (tmp_path / "t").iterdir())
    limits = [60_000, size_bytes // 4]
    check(*run(tmp_path, limits, "compact", tmp_path / "t"), limits=limits)
    assert len(list((tmp_path / "t").iterdir())) == 6


@pytest.mark.slow
def test_segments(tmp_path):
    """A load and a compaction, whose writers keep the footer for the index."""
    (tmp_path / "in").mkdir()
    pq.write_table(random_table(0), tmp_path / "in/a.parquet")
    table = tmp_path / "t"
    unlimited = [1 << 40]
    assert run(tmp_path, unlimited, "segments", "create", table, "--schema", "id long, s string", "--sort-by", "id")[
        0
    ] == [0]
    limits = [60_000, 90_000]
    check(*run(tmp_path, limits, "segments", "load", table, tmp_path / "in"), limits=limits)
    for _ in range(4):
        assert run(tmp_path, unlimited, "segments", "load", table, tmp_path / "in")[0] == [0]
    limits = [50_000, 90_000]
    check(*run(tmp_path, limits, "compact", table), limits=limits)


def test_paimon(tmp_path):
    """A merge of sorted runs."""
    chance = random.Random(0)
    lake = PaimonLake(tmp_path / "t", buckets=1).create()
    for _ in range(5):
        lake.append({key: chance.randrange(1 << 60) for key in range(ROWS)})
    before = lake.rows()
    limits = [50_000, 90_000]
    check(*run(tmp_path, limits, "compact", tmp_path / "t", "--strategy", "full"), limits=limits)
    assert lake.rows() == before
