"""Write tests/testdata/paimon anew: small real tables of pypaimon's making, for tests where pypaimon is not installed.

Run as: .venv/bin/python tests/interop/regenerate_fixtures.py [CASE ...]    (after `make interop` made its environment)

Each folder holds ``table/``, as pypaimon wrote it, and ``expected.json``: the columns, the rows that pypaimon reads
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

from paimon_interop.cases import FIXTURES, Case
from paimon_interop.client import Worker

TESTDATA = Path(__file__).resolve().parents[1] / "testdata/paimon"


def main() -> None:
    """Write the named cases, or all."""
    wanted = set(sys.argv[1:])
    with Worker() as worker:
        for case in FIXTURES:
            if not wanted or case.name in wanted:
                write_fixture(worker, case)


def write_fixture(worker: Worker, case: Case) -> None:
    """Let pypaimon make the table in a warehouse of its own, and move it to its place."""
    with tempfile.TemporaryDirectory() as scratch:
        table = case.create(worker, Path(scratch) / "d.db" / case.name)
        found = worker.call("read", table)
        assert worker.call("read", table, rust=True) == found, f"{case}: pypaimon-rust reads other rows"
        folder = TESTDATA / case.name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.move(table, folder / "table")
    expected = {"made_by": "pypaimon 2.1.0", **found}
    if case.hides_level0:
        expected["rows_after_full"] = case.first_rows()
    lines = ",\n".join(
        f"  {json.dumps(name)}: {json.dumps(value, ensure_ascii=False)}" for name, value in expected.items()
    )
    (folder / "expected.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(f"{case}: {len(found['rows'])} rows")  # noqa: T201 - a program for a person


if __name__ == "__main__":
    main()
