"""Skipping row groups of an index of a million: milliseconds with the search tree and with the vector test.

    python bench/pruning.py [--blocklets 1000000] [--repeat 9]

A sorted segment (account, then code as text), and the same row groups as if they were not sorted. The best of several
runs counts; reading the index and building the tree are not timed: a process does that once. The limit is 50 ms.
"""

from __future__ import annotations

import argparse
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from packstone.query.filter.key_search import build_sorted_keys, prune
from packstone.query.filter.parse_filter import parse_filter
from packstone.query.filter.resolve import prepare_filter

SCHEMA = pa.schema([("account", pa.int64()), ("code", pa.string()), ("price", pa.float64())])


def make_index(blocklets: int) -> pa.Table:
    """Bounds of row groups in which accounts ascend, codes follow the accounts and prices are random."""
    start = np.arange(blocklets) * 10
    low, high = pa.array(start), pa.array(start + 9)
    first, last = (
        pc.binary_join_element_wise("A", pc.utf8_lpad(pc.cast(end, pa.string()), 12, "0"), "") for end in (low, high)
    )
    price = np.random.default_rng(7).random(blocklets) * 1000
    zeros, no = pa.array(np.zeros(blocklets, dtype=np.int64)), pa.array(np.zeros(blocklets, dtype=bool))
    return pa.table(
        {
            "rows": pa.array(np.full(blocklets, 10)),
            "start.account": low, "end.account": high, "min.account": low, "max.account": high, "nulls.account": zeros,
            "min.code": first.cast(pa.binary()), "max.code": last.cast(pa.binary()), "nulls.code": zeros,
            "min.price": pa.array(price), "max.price": pa.array(price + 10), "nulls.price": zeros, "nan.price": no,
        }
    )  # fmt: skip


def main() -> None:
    """Print one line for each filter."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--blocklets", type=int, default=1_000_000)
    parser.add_argument("--repeat", type=int, default=9)
    given = parser.parse_args()
    index, one = make_index(given.blocklets), given.blocklets * 3
    keys = build_sorted_keys(index, ["account"])
    values = ", ".join(str(one + at * 10_007) for at in range(6))
    filters = {
        "point": f"account = {one}",
        "range": f"account BETWEEN {one} AND {one + 5_000}",
        "in": f"account IN ({values})",
        "startswith": f"code LIKE 'A{one // 100:010d}%'",
        "number": "price > 1005",
        "joined": f"account > {one} AND price < 1 AND code IS NOT NULL",
    }
    print(f"{given.blocklets:,} row groups")
    print(f"{'filter':12}{'left':>10}{'tree ms':>10}{'vector ms':>11}")
    for name, text in filters.items():
        expression = prepare_filter(parse_filter(text), SCHEMA)
        times, found = [], []
        for some in (keys, None):
            kept, best = prune(expression, index, keys=some), float("inf")
            for _ in range(given.repeat):
                began = time.perf_counter()
                prune(expression, index, keys=some)
                best = min(best, time.perf_counter() - began)
            times.append(best * 1000 if some is None or kept.searches else None)
            found.append(kept.kept.tolist())
        if found[0] != found[1]:
            raise SystemExit(f"{name}: the tree leaves other row groups than the vector test")
        shown = "".join("-".rjust(10 + at) if ms is None else f"{ms:{10 + at}.2f}" for at, ms in enumerate(times))
        print(f"{name:12}{len(found[0]):>10,}{shown}")


if __name__ == "__main__":
    main()
