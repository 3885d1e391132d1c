"""A daily load into a segment table: load as one segment, merge segments if it pays off, remove expired files.

Run as: python examples/segments_daily.py [--inline] [--sort-by COLUMN,...] TABLE INPUT...

The table is created on the first day, with the columns of the first Parquet file. Try it on the demo lake:

    packstone demo --folder lake --lake-only
    python examples/segments_daily.py --inline --sort-by country sales lake/orders/dt=2024-05-02

Prints one line of JSON; the exit code is 1 if something failed, so that the scheduler notices. Running it again is
safe: a load becomes visible completely or not at all, and its label is loaded once. By default the label is a digest
of the input files, with their sizes and modification times: the same folder with new files is a new load; the same
files again are not ("load": "already-loaded"). If files may be copied again for the same
day, give the day: --label 2024-05-02.
"""

import argparse
import hashlib
import json
import os
import sys
from pathlib import Path

import pyarrow.parquet as pq

import packstone
from packstone.errors import PackstoneError


def main() -> int:
    """Load, compact, clean."""
    parser = argparse.ArgumentParser(description="Load files into a segment table, then merge and clean it.")
    parser.add_argument("table")
    parser.add_argument("inputs", nargs="+")
    parser.add_argument("--sort-by", default="", help="columns to sort by, if the table is created now")
    parser.add_argument(
        "--label", default=None, help="the name of this load, such as its day; default: a digest of the inputs"
    )
    parser.add_argument("--inline", action="store_true", help="without Spark")
    typed = parser.parse_args()
    if typed.inline:
        os.environ["PACKSTONE_ENGINE"] = "inline"
    try:
        if not Path(typed.table).exists():
            create(typed.table, typed.inputs[0], typed.sort_by)
        table = packstone.open(typed.table)
        label = typed.label or label_of(typed.inputs)
        loaded = table.segments.load(typed.inputs, label=label, bad_records="redirect")
        outcome = table.compact()
        cleaned = table.clean()
    except PackstoneError as error:
        print(json.dumps({"table": typed.table, "status": "failed", "message": error.message}))
        return 1
    done = {
        "table": typed.table,
        "status": outcome.status,
        "load": loaded.status,
        "label": label,
        "segment": str(loaded.segment),
        "rows": loaded.rows,
        "bad_rows": loaded.bad_rows,
        "merged": {unit.partition: unit.inputs for unit in outcome.units},
        "segments": [row.id for row in table.segments.show().rows if row.status in ("Success", "Partial Success")],
        "version": table.segments.describe().version,
        "freed_bytes": cleaned.bytes,
    }
    print(json.dumps(done))
    return 1 if outcome.status in ("failed", "partial") else 0


def label_of(inputs: list[str]) -> str:
    """A label for the files of the inputs, their sizes and times; a digest, because a label is short."""
    facts = []
    for given in inputs:
        facts.append(given)
        files = [Path(given)] if Path(given).is_file() else sorted(Path(given).rglob("*"))
        for file in files:
            if file.is_file():
                found = file.stat()
                facts.append(f"{file} {found.st_size} {found.st_mtime_ns}")
    return hashlib.sha256("\n".join(facts).encode()).hexdigest()[:32]


def create(path: str, first: str, sort_by: str) -> None:
    """Create the table with the columns of the first input."""
    sample = Path(first) if Path(first).is_file() else min(Path(first).glob("*.parquet"))
    packstone.create(path, pq.read_schema(sample), sort_by=[name for name in sort_by.split(",") if name])


if __name__ == "__main__":
    sys.exit(main())
