"""SIGINT and SIGTERM while Spark starts and while its job runs: one sentence, and no traceback of PySpark or Py4J."""

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import patient

PACKSTONE = Path(sys.executable).with_name("packstone")
SENTENCE = re.compile(r"packstone: Interrupted: [^\n]*; run the command again[a-z ]*\.\n")


def wait_for(is_so, seconds):
    """Wait until a condition is true."""
    for _ in range(int(patient(seconds) / 0.05)):
        if is_so():
            return
        time.sleep(0.05)
    raise AssertionError("it did not come to that")


def is_alive(group):
    """Whether a process of this group is left: a JVM that nobody is connected to would wait for ever."""
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("to_group", [False, True], ids=["process", "group"])
def test_a_running_job_is_cancelled(lake, spark_env, tmp_path, to_group):
    """Ctrl-C does not wait for the end of the job: what is merged by then is published, the rest is left as it was."""
    for at in range(40):
        lake.parquet(f"p={at}", files=6, rows=20_000)
    before = lake.ids()
    env = {**spark_env, "PACKSTONE_LOGS": str(tmp_path / "logs"), "PACKSTONE_UNRECORDED": str(tmp_path / "unrecorded")}
    command = [PACKSTONE, "compact", lake.table, "--engine", "spark", "--parallel", "1"]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    wait_for(lambda: any((lake.root / ".packstone").rglob("*.data")), 120)
    os.killpg(process.pid, signal.SIGINT) if to_group else process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=patient(120))
    assert process.returncode == 128 + signal.SIGINT, said
    assert SENTENCE.fullmatch(said), said
    assert sum(len(lake.names(f"p={at}")) > 1 for at in range(40)) > 20, said
    assert lake.ids() == before
    wait_for(lambda: not is_alive(process.pid), 60)


@pytest.mark.parametrize("moment", ["starting", "running"])
@pytest.mark.parametrize("to_group", [False, True], ids=["process", "group"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_one_sentence_under_spark(lake, spark_env, tmp_path, number, to_group, moment):
    """To the process alone, as a service manager sends it, or to all of its group, the JVM too, as a terminal does."""
    for at in range(8):
        lake.parquet(f"p={at}", files=6, rows=60_000)
    before = lake.ids()
    env = {**spark_env, "PACKSTONE_LOGS": str(tmp_path / "logs"), "PACKSTONE_UNRECORDED": str(tmp_path / "unrecorded")}
    command = [PACKSTONE, "compact", lake.table, "--engine", "spark"]
    process = subprocess.Popen(
        command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, start_new_session=True
    )
    staged = lake.root / ".packstone"
    wait_for(lambda: any(tmp_path.glob("logs/*")) if moment == "starting" else any(staged.rglob("*.data")), 120)
    time.sleep(0.5 if moment == "starting" else 0.0)
    os.killpg(process.pid, number) if to_group else process.send_signal(number)
    _, said = process.communicate(timeout=patient(120))
    assert process.returncode == 128 + number, said
    assert SENTENCE.fullmatch(said), said
    assert lake.ids() == before
    wait_for(lambda: not is_alive(process.pid), 60)
