"""Write tests/testdata/paimon anew: small real tables of pypaimon's and Java Paimon's making, for tests without either.

Run as: .venv/bin/python tests/interop/regenerate_fixtures.py [CASE ...]    (after `make interop` made its environment)

Each folder holds ``table/``, as its maker wrote it, and ``expected.json``: the columns and the rows that all three read
(in the form of ``paimon_interop/rows.py``). Of a first-row table no reader shows level 0, so there ``rows_after_full``
are the rows after a full compaction. File names are random, so every run gives another diff; name the cases that
changed.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from paimon_interop.cases import FIXTURES, Case, first_rows
from paimon_interop.client import Worker, java_command
from paimon_interop.java_cases import JAVA_FIXTURES, JavaCase

TESTDATA = Path(__file__).resolve().parents[1] / "testdata/paimon"
MAKERS = {Case: "pypaimon 2.1.0", JavaCase: "Java Paimon 1.4.2"}


def main() -> None:
    """Write the named cases, or all."""
    wanted = set(sys.argv[1:])
    with Worker() as python, Worker(java_command()) as java:
        for case in (*FIXTURES, *JAVA_FIXTURES):
            if not wanted or case.name in wanted:
                write_fixture(case, maker=java if isinstance(case, JavaCase) else python, python=python)


def write_fixture(case: Case | JavaCase, *, maker: Worker, python: Worker) -> None:
    """Let the maker make the table in a warehouse of its own, and move it to its place."""
    with tempfile.TemporaryDirectory() as scratch:
        table = case.create(maker, Path(scratch) / "d.db" / case.name)
        found = maker.call("read", table)
        assert python.call("read", table) == found, f"{case}: pypaimon reads other rows"
        assert python.call("read", table, rust=True) == found, f"{case}: pypaimon-rust reads other rows"
        folder = TESTDATA / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.move(table, folder / "table")
    expected = {"made_by": MAKERS[type(case)], **found}
    if case.hides_level0:
        expected["rows_after_full"] = first_rows(case.commits)
    lines = ",\n".join(f"  {json.dumps(name)}: {as_lines(value)}" for name, value in expected.items())
    (folder / "expected.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(f"{case}: {len(found['rows'])} rows")  # noqa: T201 - a program for a person


def as_lines(value: object) -> str:
    """JSON with a row on a line, so that a diff shows rows."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in value) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
