"""Damaged ORC files cost themselves and nothing else: no abort, no hang, no traceback, and all rows of the others."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[1] / "orc_mutations.py"


def run_cases(kind, first, last, folder):
    """Run cases in another process, which is started again behind a case that ended it; answer with the findings."""
    findings = []
    env = {**os.environ, "PACKSTONE_ENGINE": "inline", "PACKSTONE_HISTORY": f"sqlite:///{folder}/history.db"}
    while first < last:
        work = folder / str(first)
        work.mkdir()
        command = [sys.executable, SCRIPT, kind, str(first), str(last), work]
        done = subprocess.run(command, capture_output=True, text=True, env=env, check=False)
        lines = done.stdout.splitlines()
        findings += [line for line in lines if line.startswith("finding")]
        if done.returncode == 0:
            break
        first = 1 + max((int(line.split()[1]) for line in lines if line.startswith("case")), default=last)
        findings.append(f"case {first - 1} ended the process with {done.returncode}: {done.stderr[-500:]}")
    return findings


@pytest.mark.parametrize(("kind", "cases"), [("hive", 40), ("paimon", 12), ("load", 60)])
@pytest.mark.sample(3)
def test_damaged_files(tmp_path, kind, cases):
    """Bits, runs of bytes and lengths changed anywhere in a file, by fixed seeds."""
    assert run_cases(kind, 0, cases, tmp_path) == []


@pytest.mark.soak
@pytest.mark.timeout(7200)
@pytest.mark.parametrize(("kind", "cases"), [("hive", 5_000), ("paimon", 1_000), ("load", 5_000)])
def test_many_damaged_files(tmp_path, kind, cases):
    """The long form."""
    assert run_cases(kind, 100_000, 100_000 + cases, tmp_path) == []
