"""Every night on Paimon tables: compact with the table's own options, then expire snapshots.

Run as: python examples/paimon_nightly.py [--inline] [--max-bytes 500G] [--keep 10] TABLE...

Try it on a copy of examples/paimon/orders. Prints one line of JSON for each table; the exit code is 1 if one of them
failed or was compacted only in part, so that the scheduler notices.
"""

import argparse
import json
import os
import sys

import packstone
from packstone.errors import PackstoneError
from packstone.model.maintenance import CleanRequest
from packstone.model.sizes import parse_bytes


def main() -> int:
    """Go through the tables until the budget is used up."""
    parser = argparse.ArgumentParser(description="Compact Paimon tables, then expire their snapshots.")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--max-bytes", default="500G", type=parse_bytes)
    parser.add_argument("--keep", default=10, type=int, help="number of snapshots that are always kept")
    parser.add_argument("--inline", action="store_true", help="without Spark")
    typed = parser.parse_args()

    if typed.inline:
        os.environ["PACKSTONE_ENGINE"] = "inline"
    left_bytes = typed.max_bytes
    failed = False
    for path in typed.tables:
        try:
            # `open` uses the active Spark session, or starts a local one when there is something to merge.
            table = packstone.open(path)
            outcome = table.compact(budget=packstone.Budget(max_bytes=left_bytes))
            # Keeps the newest snapshots, and those that were the newest within the table's snapshot.time-retained.
            report = table.clean(CleanRequest(expire_snapshots=True, retain_min=typed.keep)).to_json()
        except PackstoneError as error:
            print(json.dumps({"table": path, "status": "failed", "message": error.message}))
            failed = True
            continue
        left_bytes -= outcome.cost.read_bytes
        failed |= outcome.status in ("failed", "partial")
        done = {
            "table": path,
            "status": outcome.status,
            "files": [outcome.files_before, outcome.files_after],
            "snapshots": outcome.versions,
            "expired": report["snapshots_expired"],
            "freed_bytes": report["bytes"],
            "left_alone": [str(skip) for skip in outcome.skipped if skip.kind not in ("not-needed", "filtered")],
        }
        print(json.dumps(done))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
