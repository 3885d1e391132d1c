"""Every branch of the strategy layer is reached by the examples alone; random properties come on top."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent


@pytest.mark.slow
def test_the_examples_reach_every_branch(tmp_path):
    """A rule without an example is a rule that nobody has explained."""
    env = {**os.environ, "COVERAGE_FILE": str(tmp_path / "coverage")}
    random = (Path(__file__), *HERE.glob("*_properties.py"))
    examples = sorted(str(path) for path in HERE.glob("test_*.py") if path not in random)
    collected = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *examples]
    run = [sys.executable, "-m", "coverage", "run", "--branch", "--source=packstone.strategy", *collected]
    subprocess.run(run, env=env, check=True, capture_output=True, cwd=HERE.parents[1])
    report = [sys.executable, "-m", "coverage", "report", "--fail-under=100"]
    done = subprocess.run(report, env=env, check=False, capture_output=True, text=True, cwd=HERE.parents[1])
    assert done.returncode == 0, done.stdout
