"""Write examples/paimon/orders anew: the table of docs/paimon.md, as Java Paimon's writers leave it.

Run as: .venv/bin/python tests/interop/make_example_table.py    (after `make interop` made its environment)

Three days of orders in two buckets each, written by a job that does not compact (`write-only`). Java compacted the
first day once; updates and cancellations came after that. The second day was never compacted, the third has just begun.
"""

import json
import random
import shutil
import tempfile
from pathlib import Path

from paimon_interop.client import Worker, java_command

TABLE = Path(__file__).resolve().parents[2] / "examples/paimon/orders"
FIELDS = (
    ("dt", "STRING"),
    ("order_id", "BIGINT"),
    ("customer", "STRING"),
    ("state", "STRING"),
    ("amount", "DECIMAL(10, 2)"),
)
OPTIONS = {"bucket": "2", "write-only": "true"}
FIRST_COMMIT_MS = 1_714_600_000_000  # the snapshots are given times of their own: what expires must not depend on today
MINUTES_10_MS = 600_000


def main() -> None:
    """Make the table in a scratch folder, then put it in its place."""
    draw = random.Random(7)
    with tempfile.TemporaryDirectory() as scratch, Worker(java_command()) as java:
        table = Path(scratch) / "d.db" / "orders"
        java.call(
            "create", table, fields=FIELDS, primary_keys=["dt", "order_id"], partition_keys=["dt"], options=OPTIONS
        )
        for commit in first_day(draw):
            write(java, table, commit)
            if len(commit) > 1_000:
                java.call("compact", table, full=True)
        for rows in (90, 120, 150, 110, 80, 130, 70, 100):
            write(java, table, [order(draw, "2024-05-02", draw.randrange(600)) for _ in range(rows)])
        for rows in (60, 40):
            write(java, table, [order(draw, "2024-05-03", draw.randrange(300)) for _ in range(rows)])
        give_times(table)
        shutil.rmtree(TABLE, ignore_errors=True)
        TABLE.parent.mkdir(parents=True, exist_ok=True)
        shutil.move(table, TABLE)


def first_day(draw: random.Random) -> list[list[list[str]]]:
    """All orders of a day, and then what happened to some of them."""
    day = "2024-05-01"
    everything = [order(draw, day, number) for number in range(2_400)]
    return [
        everything,
        *([order(draw, day, draw.randrange(2_400)) for _ in range(size)] for size in (70, 90, 60, 80, 75)),
    ]


def order(draw: random.Random, day: str, number: int) -> list[str]:
    """One row; the last item is its kind."""
    customer = f"customer-{draw.randrange(10**9):09d}"
    state = draw.choice(("placed", "paid", "shipped", "returned"))
    kind = "-D" if draw.random() < 0.08 else "+I"
    return [day, 1_000_000 + number, customer, state, f"{draw.randrange(100, 90_000) / 100:.2f}", kind]


def write(java: Worker, table: Path, rows: list[list[str]]) -> None:
    """One commit; of two rows with one key the later counts."""
    newest = {row[1]: row for row in rows}.values()
    java.call("write", table, rows=[row[:-1] for row in newest], kinds=[row[-1] for row in newest])


def give_times(table: Path) -> None:
    """Let the commits be ten minutes apart, long ago."""
    for path in (table / "snapshot").glob("snapshot-*"):
        snapshot = json.loads(path.read_text(encoding="utf-8"))
        snapshot["timeMillis"] = FIRST_COMMIT_MS + snapshot["id"] * MINUTES_10_MS
        path.write_text(json.dumps(snapshot, indent=2), encoding="utf-8")


if __name__ == "__main__":
    main()
