"""Picking for many buckets of a merge tree in one process, and the time of `packstone explain` from the shell.

    python bench/picking.py [--buckets 100000] [--runs 8]

The buckets are created before the clock starts; each strategy then decides for all of them, with the reasons as text,
as a planner does. The limit is 10 s for 100,000 buckets of 8 runs.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import time
from pathlib import Path

from packstone.model.sorted_run import SortedRun
from packstone.strategy.force_up_level0 import ForceUpLevel0Options, force_up_level0_strategy
from packstone.strategy.full import FullOptions, full_strategy
from packstone.strategy.tree_view import TreeView
from packstone.strategy.universal import UniversalOptions, universal_strategy


def make_buckets(count: int, runs: int) -> list[TreeView]:
    draw = random.Random(7)
    views = []
    for _ in range(count):
        fresh = draw.randint(1, runs - 1)
        levels = [0] * fresh + sorted(draw.sample(range(1, runs), runs - fresh))
        sizes = [draw.randint(1, 10 ** (1 + level)) for level in levels]
        found = (SortedRun(level=level, size_bytes=size) for level, size in zip(levels, sizes, strict=True))
        views.append(TreeView(runs=tuple(found)))
    return views


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--buckets", type=int, default=100_000)
    parser.add_argument("--runs", type=int, default=8)
    arguments = parser.parse_args()
    views = make_buckets(arguments.buckets, arguments.runs)
    strategies = (
        universal_strategy(UniversalOptions()),
        force_up_level0_strategy(ForceUpLevel0Options()),
        full_strategy(FullOptions()),
    )
    print(f"{arguments.buckets:,} buckets of {arguments.runs} runs")
    for strategy in strategies:
        began, cpu = time.perf_counter(), time.process_time()
        picked = sum(1 for view in views if strategy.pick(view).picks)
        took, used = time.perf_counter() - began, time.process_time() - cpu
        print(f"{strategy.name:<16} {took:6.2f} s  {used:6.2f} CPU s  {picked:,} picked")
    command = [str(Path(sys.executable).with_name("packstone")), "explain", "universal", "0:1", "0:1", "5:10"]
    best = min(_time(command) for _ in range(5))
    print(f"packstone explain, from the shell: {best:.2f} s (best of 5)")


def _time(command: list[str]) -> float:
    began = time.perf_counter()
    subprocess.run(command, check=True, capture_output=True)
    return time.perf_counter() - began


if __name__ == "__main__":
    main()
