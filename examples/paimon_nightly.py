"""Every night on Paimon tables: compact what the table's own options ask for, then expire snapshots.

Run as: python examples/paimon_nightly.py [--inline] [--max-bytes 500G] [--keep 10] TABLE...

Try it on a copy of examples/paimon/orders. Prints one line of JSON for each table; the exit code is 1 if one of them
failed or was compacted only in part, so that the scheduler notices.
"""

import argparse
import json
import sys

import packstone
from packstone.errors import PackstoneError
from packstone.model.sizes import parse_bytes
from packstone.service.paimon_clean import ExpiryRequest


def main() -> int:
    """Go through the tables until the budget is used up."""
    parser = argparse.ArgumentParser(description="Compact Paimon tables, then expire their snapshots.")
    parser.add_argument("tables", nargs="+")
    parser.add_argument("--max-bytes", default="500G", type=parse_bytes)
    parser.add_argument("--keep", default=10, type=int, help="snapshots that always stay")
    parser.add_argument("--inline", action="store_true", help="without Spark")
    typed = parser.parse_args()

    left_bytes = typed.max_bytes
    failed = False
    for path in typed.tables:
        try:
            # `open` uses the active Spark session, or starts a local one when there is something to merge.
            table = packstone.PaimonTable(path) if typed.inline else packstone.open(path)
            outcome = table.compact(budget=packstone.Budget(max_bytes=left_bytes))
            # The newest snapshots stay, and whatever was still the newest within the table's snapshot.time-retained.
            report = table.cleaner().clean(dry_run=False, expiry=ExpiryRequest(retain_min=typed.keep))
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
            "snapshots": outcome.snapshots,
            "expired": report.expiry.expired if report.expiry else (),
            "freed_bytes": report.bytes,
            "left_alone": [str(skip) for skip in outcome.skipped if skip.kind not in ("not-needed", "filtered")],
        }
        print(json.dumps(done))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
