"""Packstone's command is killed at random moments, and everybody else reads the table as it was."""

import os
import random
import signal
import subprocess
import time

from paimon_interop.cases import long_key
from paimon_interop.proof import PACKSTONE, Proof

ROUNDS = 6
START_SECONDS = (0.4, 2.0)  # from the interpreter's start to after the commit


def test_others_read_a_table_whose_compaction_was_killed(python, readers, packstone, tmp_path):
    """After every SIGKILL all readers give the previous rows; the next compaction succeeds and changes none."""
    case = long_key("killed")
    table = case.create(python, tmp_path / "warehouse/d.db/killed")
    proof = Proof(table, readers, case.readers, packstone)
    env = {**os.environ, "PACKSTONE_HISTORY": f"sqlite:///{tmp_path}/h.db", "PACKSTONE_ENGINE": "inline"}
    killed = 0
    for number in range(ROUNDS):
        rows = readers.rows(table, case.readers)
        command = [str(PACKSTONE), "compact", str(table), "--strategy", "full"]
        process = subprocess.Popen(command, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(random.uniform(*START_SECONDS))
        process.kill()
        killed += process.wait() == -signal.SIGKILL
        assert readers.rows(table, case.readers) == rows
        case.write(python, table, ([[number, f"again {number}", number]],))
    assert killed > 0
    rows = readers.rows(table, case.readers)
    assert proof.packstone("compact", table, "--strategy", "full")["status"] == "committed"
    assert readers.rows(table, case.readers) == rows
    assert python.call("check", table) == []
