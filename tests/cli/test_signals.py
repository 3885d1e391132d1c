"""SIGINT and SIGTERM at any moment of any command: at most one sentence, no traceback, nothing half done."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from packstone.runs.interrupts import Interrupted, interruptible

PACKSTONE = Path(sys.executable).with_name("packstone")
SENTENCE = "packstone: Interrupted; nothing is half done.\n"


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
    for _ in range(3_000):
        status = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines())
        if int(status["SigCgt"], 16) >> (signal.SIGTERM - 1) & 1:
            return
        time.sleep(0.01)
    raise TimeoutError("the command installed no handler in half a minute")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    "words", [("plan", "t"), ("health", "t"), ("compact", "t"), ("segments", "load", "seg", "a.csv")]
)
def test_one_sentence_whenever_it_comes(table, quiet_env, words, number):
    """From the first import to the last byte: the command was done before, or says that it was interrupted."""
    run = {"cwd": table, "env": quiet_env, "stdout": subprocess.DEVNULL}
    subprocess.run([PACKSTONE, "segments", "create", "seg", "--schema", "id long, s string"], check=True, **run)
    for delay in (0, 0.2, 0.6):
        process = subprocess.Popen([PACKSTONE, *words], stderr=subprocess.PIPE, text=True, **run)
        wait_until_caught(process.pid)
        time.sleep(delay)
        process.send_signal(number)
        _, said = process.communicate(timeout=60)
        assert (process.returncode, said) in [(0, ""), (1, SENTENCE)], said
    found = subprocess.run([PACKSTONE, "recover", "t", "--format", "json"], check=False, **run)
    assert found.returncode == 0


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
