"""Fixtures of the interop tests: workers with pypaimon, Packstone's command, the checks after every commit.

They run by ``make interop`` only, which makes the other environment; no other target runs them.
"""

import os
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))  # for paimon_interop: tests are imported by path, not as packages

pytest.register_assert_rewrite("paimon_interop.proof")

from paimon_interop.client import Worker, java_command, why_no_java  # noqa: E402 - found by the path above
from paimon_interop.proof import Command, Proof, Readers  # noqa: E402

if not os.environ.get("PACKSTONE_INTEROP"):
    collect_ignore_glob = ["test_*.py"]


@pytest.fixture(scope="session")
def python(tmp_path_factory):
    """Pypaimon and pypaimon-rust, in a process of their own."""
    with Worker(log=tmp_path_factory.mktemp("worker") / "python.log") as worker:
        yield worker


@pytest.fixture(scope="session")
def java(tmp_path_factory):
    """Java Paimon, in a process of its own; without it the test is skipped with the reason."""
    if why := why_no_java():
        pytest.skip(why)
    with Worker(java_command(), log=tmp_path_factory.mktemp("worker") / "java.log") as worker:
        yield worker


@pytest.fixture(scope="session")
def readers(tmp_path_factory, python):
    """Everyone who can read a table; Java too where it is at hand."""
    if why_no_java():
        yield Readers(python, None)
        return
    with Worker(java_command(), log=tmp_path_factory.mktemp("worker") / "java-reader.log") as worker:
        yield Readers(python, worker)


@pytest.fixture(scope="session")
def packstone(tmp_path_factory):
    """Packstone's command."""
    command = Command(tmp_path_factory.mktemp("history") / "history.db")
    yield command
    command.close()


@pytest.fixture
def prove(python, readers, packstone, tmp_path):
    """Make a case's table with pypaimon; the answer compacts it and compares."""

    def make(case):
        table = case.create(python, tmp_path / "warehouse/d.db" / case.name)
        return Proof(table, readers, case.readers, packstone)

    return make
