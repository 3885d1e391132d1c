"""SIGINT and SIGTERM at any moment of any command: at most one sentence, no traceback, nothing half done."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from paimon_lake import PaimonLake
from patience import patient
from segment_lake import SegmentLake

from packstone.runs.interrupts import Interrupted, interruptible
from packstone.storage.faulty import FaultyFileIO
from packstone.storage.local import LocalFileIO

PACKSTONE = Path(sys.executable).with_name("packstone")
SENTENCE = re.compile(
    r"packstone: Interrupted(; no file is left half-written or half-moved|: [^\n]*; run the command again[a-z ]*)\.\n"
)


@pytest.fixture
def table(tmp_path):
    """Partitions of files that take some time to merge, and a CSV file to load."""
    numbers = pa.table({"id": range(60_000), "s": [f"value {at}" for at in range(60_000)]})
    for at in range(20):
        folder = tmp_path / "t" / f"p={at % 5}"
        folder.mkdir(parents=True, exist_ok=True)
        pq.write_table(numbers, folder / f"{at}.parquet")
    (tmp_path / "a.csv").write_text("id,s\n" + "".join(f"{at},v\n" for at in range(200_000)))
    return tmp_path


def wait_until_caught(pid: int) -> None:
    """Wait until a process has a handler for SIGTERM: until our first module is read, nobody can take one for it."""
    for _ in range(patient(3_000)):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)
    raise TimeoutError("the command installed no handler in half a minute")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "words", [("plan", "t"), ("health", "t"), ("compact", "t"), ("segments", "load", "seg", "a.csv")]
)
@pytest.mark.sample(4)
def test_one_sentence_whenever_it_comes(table, quiet_env, words, number):
    """From the first import to the last byte: the command was done before, or says that it was interrupted."""
    run = {"cwd": table, "env": quiet_env, "stdout": subprocess.DEVNULL}
    subprocess.run([PACKSTONE, "segments", "create", "seg", "--schema", "id long, s string"], check=True, **run)
    for delay in (0, 0.2, 0.6):
        process = subprocess.Popen([PACKSTONE, *words], stderr=subprocess.PIPE, text=True, **run)
        wait_until_caught(process.pid)
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=patient(60))
        is_done = (process.returncode, said) == (0, "")
        assert is_done or (process.returncode == 128 + number and SENTENCE.fullmatch(said)), (process.returncode, said)
    found = subprocess.run([PACKSTONE, "recover", "t", "--format", "json"], check=False, **run)
    assert found.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_end_of_the_interpreter_keeps_the_exit_code(number):
    """When the result is printed, a signal changes nothing: Python would otherwise die of it while it shuts down."""
    program = (
        f"import atexit, os; atexit.register(os.kill, os.getpid(), {int(number)}); "
        "from packstone.cli.main import main; main(['--version'])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=patient(60)
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_an_interruption_that_python_drops_comes_again():
    """Raised while an object is removed, an exception is only printed; ours is raised again a moment later."""

    class Removed:
        def __del__(self):
            os.kill(os.getpid(), signal.SIGTERM)
            for _ in range(100):
                time.sleep(0.001)

    with pytest.raises(Interrupted), interruptible():  # noqa: PT012 - what is raised, and when, is the claim
        Removed()
        for _ in range(500):
            time.sleep(0.01)


def test_a_load_whose_merge_is_interrupted(packstone, tmp_path, monkeypatch):
    """The load is done and must not be repeated: the sentence says that `compact` continues."""
    (tmp_path / "a.csv").write_text("id,s\n1,x\n")
    seg = tmp_path / "seg"
    properties = ("--property", "AUTO_LOAD_MERGE=true", "--property", "COMPACTION_LEVEL_THRESHOLD=2,0")
    packstone("segments", "create", seg, "--schema", "id long, s string", *properties)
    packstone("segments", "load", seg, tmp_path / "a.csv")

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if path.endswith("units-0001.json"):  # the record of a wave, which a load has none of
                signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    for module in ("pipeline.table", "storage.stores"):
        monkeypatch.setattr(f"packstone.{module}.open_store", lambda _: Stop(LocalFileIO()))
    done = packstone("segments", "load", seg, tmp_path / "a.csv", "--format", "json")
    assert (done.code, done.json["rows"]) == (143, 1)
    assert done.err == (
        "packstone: Interrupted: the load is done, the merge after it stopped early; "
        "continue with `packstone compact`.\n"
    )
    assert packstone("segments", "show", seg, "--format", "json").json["segments"]


def test_an_interruption_is_told_once(packstone, lake, monkeypatch):
    """Nothing was done yet: the reason is on stdout, what to do next on stderr, and neither is printed twice."""
    lake.parquet("dt=1")

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if "/staging/" in path:
                signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: Stop(LocalFileIO()))
    done = packstone("compact", lake.table)
    assert (done.code, done.err) == (143, "packstone: Interrupted: nothing was changed; run the command again.\n")
    lines = [line.rstrip() for line in done.out.splitlines()]
    assert lines == [f"failed  {lake.table}", "failed  The run was interrupted before it finished."]


@pytest.mark.parametrize("family", ["hive", "paimon", "segments"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interruption_before_the_first_part(packstone, tmp_path, monkeypatch, family, number):
    """A run that is interrupted while it begins has failed, and the history lists it: it is not `nothing-to-do`."""
    table = tmp_path / "t"
    if family == "hive":
        (table / "dt=1").mkdir(parents=True)
        for at in range(2):
            pq.write_table(pa.table({"id": [at]}), table / "dt=1" / f"{at}.parquet")
    elif family == "paimon":
        PaimonLake(table).create(bucket=1)
    else:
        SegmentLake(table).create()

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            super()._step(name, path, act, torn=torn)
            if path.endswith("/run.json"):  # the first record of a run on the table
                signal.raise_signal(number)

    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: Stop(LocalFileIO()))
    done = packstone("compact", table, "--format", "json")
    assert (done.code, done.json["status"], done.json["interrupted"]) == (128 + number, "failed", number.name)
    assert done.err == "packstone: Interrupted: nothing was changed; run the command again.\n"
    (run,) = packstone("history", "--format", "json").json["runs"]
    assert (run["command"], run["status"]) == ("compact", "failed")
    assert "interrupted" in run["message"]


def test_an_interruption_among_tables_names_the_table(packstone, lake, monkeypatch):
    """With --each the sentence says where it happened: earlier tables are merged, later ones are not begun."""
    for name in ("a", "b", "c"):
        lake.table = lake.root / name
        lake.parquet("dt=1")

    class Stop(FaultyFileIO):
        def _step(self, name, path, act, *, torn=None):
            if "/.packstone/b/staging/" in path:
                signal.raise_signal(signal.SIGTERM)
            super()._step(name, path, act, torn=torn)

    monkeypatch.setattr("packstone.pipeline.table.open_store", lambda _: Stop(LocalFileIO()))
    done = packstone("compact", lake.root, "--each", "--format", "json")
    where = f"Interrupted in {lake.root}/b, table 2 of 3"
    assert (done.code, done.err) == (143, f"packstone: {where}: nothing was changed; run the command again.\n")
    assert [one["status"] for one in done.json["tables"]] == ["committed", "failed"]


def test_an_import_is_finished_first(tmp_path, monkeypatch):
    """A module that is half imported would stay so; the interruption comes when it is there."""
    (tmp_path / "interrupted_module.py").write_text(
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGTERM)\ntime.sleep(0.01)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(Interrupted), interruptible():  # noqa: PT012 - what is raised, and when, is the claim
        import interrupted_module

        assert interrupted_module.whole
        for _ in range(500):
            time.sleep(0.01)
        pytest.fail("the interruption did not come")
    assert sys.modules.pop("interrupted_module").whole
