"""Every night: several tables, the worst first, one budget in bytes for all of them.

Run as: python examples/nightly.py [--inline] [--max-bytes 500G] TABLE...

Prints one line of JSON for each table. The exit code is 1 if one of them failed or was merged only in part, so that
the scheduler notices; a table that was refused or is in use is left for the next night.
"""

import argparse
import json
import os
import sys
from datetime import timedelta

import packstone
from packstone import Outcome, PackstoneError
from packstone.model.sizes import parse_bytes

QUIET_FOR = timedelta(hours=1)  # a file that changed within the last hour may not be finished


def main() -> int:
    """Rank the tables, then compact until the budget is used up."""
    parser = argparse.ArgumentParser(description="Compact several tables within one budget.")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--max-bytes", default="500G", type=parse_bytes)
    parser.add_argument("--inline", action="store_true", help="without Spark")
    parser.add_argument("--min-age-seconds", default=QUIET_FOR.total_seconds(), type=float)
    typed = parser.parse_args()

    if typed.inline:
        os.environ["PACKSTONE_ENGINE"] = "inline"
    finished = packstone.Filters(min_age_seconds=typed.min_age_seconds)
    options = packstone.HiveOptions(keep_days=3)
    left_bytes = typed.max_bytes
    failed = False
    for table in rank([packstone.open(path) for path in typed.tables]):
        try:
            outcome = table.compact(options=options, filters=finished, budget=packstone.Budget(max_bytes=left_bytes))
        except PackstoneError as error:
            print(json.dumps({"table": table.path, "status": "failed", "message": error.message}))
            failed = True
            continue
        left_bytes -= outcome.cost.read_bytes
        failed |= outcome.status in ("failed", "partial")
        print(json.dumps(summarise(outcome)))
        table.clean()
    return 1 if failed else 0


def rank(tables: list[packstone.Table]) -> list[packstone.Table]:
    """Sort key: tables with the most superfluous files first."""

    def superfluous(table: packstone.Table) -> int:
        health = table.health()
        return health.files - health.ideal_files

    return sorted(tables, key=superfluous, reverse=True)


def summarise(outcome: Outcome) -> dict[str, object]:
    """The result of one table for the log."""
    return {
        "table": outcome.table,
        "status": outcome.status,
        "run": outcome.run,
        "files": [outcome.files_before, outcome.files_after],
        "bytes_read": outcome.cost.read_bytes,
        "left_alone": [str(skip) for skip in outcome.skipped if skip.kind not in ("not-needed", "filtered")],
    }


if __name__ == "__main__":
    sys.exit(main())
