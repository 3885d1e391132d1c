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
from paimon_interop.client import Worker, java_command, spark_command
from paimon_interop.java_cases import JAVA_FIXTURES, JavaCase
from paimon_interop.proof import Readers
from paimon_interop.spark_cases import SPARK_FIXTURES, run_statements

TESTDATA = Path(__file__).resolve().parents[1] / "testdata/paimon"
MAKERS = {Case: "pypaimon 2.1.0", JavaCase: "Java Paimon 1.4.2"}


def main() -> None:
    """Write the named cases, or all."""
    wanted = set(sys.argv[1:])
    with Worker() as python, Worker(java_command()) as java, tempfile.TemporaryDirectory() as scratch:
        for case in (*FIXTURES, *JAVA_FIXTURES):
            if not wanted or case.name in wanted:
                maker = java if isinstance(case, JavaCase) else python
                table = case.create(maker, Path(scratch) / "d.db" / case.name)
                found = Readers(python, java).rows(table, case.readers)
                more = {"rows_after_full": first_rows(case.commits)} if case.hides_level0 else {}
                made_by = "pypaimon-rust 0.4.0" if getattr(case, "rust_writes", False) else MAKERS[type(case)]
                write_fixture(case.name, table, {"made_by": made_by, **found, **more})
        for name in SPARK_FIXTURES:
            if not wanted or f"spark09_{name}" in wanted:
                write_spark_fixture(name, Readers(python, java), Path(scratch) / "spark")


def write_spark_fixture(name: str, readers: Readers, warehouse: Path) -> None:
    """Let Spark SQL make the table; pypaimon cannot read manifests as old as these."""
    with Worker(spark_command(warehouse)) as spark:
        table = run_statements(spark, warehouse, name)
    found = readers.rows(table, ("pypaimon-rust", "java"))
    write_fixture(f"spark09_{name}", table, {"made_by": "Paimon 0.9.0 on Spark 3.5", **found})


def write_fixture(name: str, table: Path, expected: dict[str, object]) -> None:
    """Move the table to its place and write beside it what everybody reads."""
    folder = TESTDATA / name
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    shutil.move(table, folder / "table")
    lines = ",\n".join(f"  {json.dumps(name)}: {as_lines(value)}" for name, value in expected.items())
    (folder / "expected.json").write_text("{\n" + lines + "\n}\n", encoding="utf-8")
    print(name)  # noqa: T201 - a program for a person


def as_lines(value: object) -> str:
    """JSON with a row on a line, so that a diff shows rows."""
    if isinstance(value, list) and value and isinstance(value[0], list):
        return "[\n" + ",\n".join("    " + json.dumps(row, ensure_ascii=False) for row in value) + "\n  ]"
    return json.dumps(value, ensure_ascii=False)


if __name__ == "__main__":
    main()
