"""The Python API in one script: open, health, plan, compact, verify, restore.

Run as: python examples/quickstart.py TABLE [--inline]
"""

import os
import sys

import packstone


def main(path: str, *, inline: bool) -> None:
    """Merge a table, verify the run, and undo it."""
    # `open` uses the active Spark session, or starts a local one when there is something to merge.
    if inline:
        os.environ["PACKSTONE_ENGINE"] = "inline"  # in this process, without Spark
    table = packstone.open(path)

    health = table.health()
    print(f"{health.files} files, {health.ideal_files} would be enough: score {health.score}")
    for hazard in health.hazards:
        print(f"  {hazard.name} in {hazard.where}")

    # `plan.save(path)` and `packstone.Plan.load(path)` keep a plan for a review.
    plan = table.plan(packstone.HiveOptions(target_bytes=128 << 20, min_files=5, header_lines=1))
    for unit in plan.outcome.units:
        print(f"  {unit.partition}: {unit.why}")

    # Runs exactly this plan: a part whose files changed since planning is skipped. What `plan` skipped is not counted.
    outcome = table.compact(plan)
    print(f"{outcome.status}: {outcome.files_before} -> {outcome.files_after} files, {outcome.rows} rows verified")
    if outcome.run is None:
        return

    proof = table.verify(outcome.run)
    print(f"verified again: {proof.rows} rows in {proof.proved} files, {len(proof.problems)} problems")

    undone = table.restore(outcome.run)
    print(f"restored {undone.files_restored} files; {table.health().files} files as before")


if __name__ == "__main__":
    paths = [word for word in sys.argv[1:] if not word.startswith("-")]
    if len(paths) != 1:
        raise SystemExit("usage: python examples/quickstart.py TABLE [--inline]")
    main(paths[0], inline="--inline" in sys.argv)
