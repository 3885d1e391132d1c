"""Planning over an observed view of a million small files: seconds and memory.

    python bench/planning.py [--files 1000000] [--partitions 1000]

The view is created in memory (the names, sizes and facts that listing and footers give), partition by partition, as the
planner holds it; only the planning itself is timed. With --partitions 1 all files are in one folder.
"""

from __future__ import annotations

import argparse
import resource
import time

from packstone.model.files import FileEntry, Permissions
from packstone.tables.hive.file_facts import FileFacts, FileFormat, Verdict
from packstone.tables.hive.listing import PartitionListing
from packstone.tables.hive.options import HiveOptions
from packstone.tables.hive.plan import plan_partition

OWNER = Permissions(uid=0, gid=0, mode=0o644)


def make_listing(number: int, files: int) -> PartitionListing:
    entries = tuple(
        FileEntry(name=f"part-{i:06d}.parquet", size_bytes=500_000 + i % 1000, mtime_ns=i, permissions=OWNER)
        for i in range(files)
    )
    return PartitionListing(
        partition=f"dt={number:06d}",
        directory=f"/lake/t/dt={number:06d}",
        files=entries,
        ignored=(),
        summaries=(),
        writing=None,
        refused=None,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=1_000_000)
    parser.add_argument("--partitions", type=int, default=1000)
    arguments = parser.parse_args()
    options = HiveOptions()
    each = arguments.files // arguments.partitions
    planned, seconds, cpu_seconds, units = 0, 0.0, 0.0, 0
    for number in range(arguments.partitions):
        listing = make_listing(number, each)
        facts = {
            file.name: FileFacts(
                name=file.name, file_format=FileFormat.PARQUET, verdict=Verdict.MERGEABLE, group=f"g{at % 3}"
            )
            for at, file in enumerate(listing.files)
        }
        began, cpu_began = time.perf_counter(), time.process_time()
        plan = plan_partition(listing, listing.files, facts, options=options, known_outputs=frozenset())
        seconds, cpu_seconds = seconds + time.perf_counter() - began, cpu_seconds + time.process_time() - cpu_began
        planned += sum(len(unit.inputs) for unit in plan.units)
        units += len(plan.units)
    peak_mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    times = f"{seconds:.2f} s of planning ({cpu_seconds:.2f} s CPU)"
    print(f"{planned} files into {units} units: {times}, peak memory {peak_mib:.0f} MiB")


if __name__ == "__main__":
    main()
