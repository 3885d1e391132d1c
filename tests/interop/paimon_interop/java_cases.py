"""Tables that Java Paimon makes: what pypaimon cannot write (levels, delete counts, statistics, evolved files)."""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from paimon_interop.cases import (
    EVERYONE,
    KEYS_OF_TYPES,
    ORDERS,
    Rows,
    aggregated_row,
    aggregation,
    composite,
    long_key,
    orders,
    runs,
)
from paimon_interop.client import Worker

Step = tuple[str, dict[str, Any]]
WRITE_ONLY = {"bucket": "1", "write-only": "true"}
KINDS = ("+I", "-D", "+U", "-U")


@dataclass(frozen=True, kw_only=True)
class JavaCase:
    """One table: ``steps`` are requests to the worker, ``later`` those after Packstone's first compaction."""

    name: str
    fields: tuple[tuple[str, Any], ...] = ORDERS
    keys: tuple[str, ...] = ("id",)
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=lambda: dict(WRITE_ONLY))
    steps: tuple[Step, ...]
    later: tuple[Step, ...] = ()
    hides_level0: bool = False
    readers: tuple[str, ...] = EVERYONE

    def __str__(self) -> str:
        return self.name

    def create(self, java: Worker, table: Path) -> Path:
        """Make the table and take its first steps."""
        java.call(
            "create",
            table,
            fields=self.fields,
            primary_keys=self.keys,
            partition_keys=self.partitions,
            options=self.options,
        )
        self.take(java, table, self.steps)
        return table

    def take(self, java: Worker, table: Path, steps: tuple[Step, ...]) -> None:
        """Take these steps."""
        for do, arguments in steps:
            java.call(do, table, **arguments)


def writes(commits: tuple[Rows, ...]) -> tuple[Step, ...]:
    """Commits of inserts."""
    return tuple(("write", {"rows": rows}) for rows in commits)


def kind_writes(commits: tuple[Rows, ...]) -> tuple[Step, ...]:
    """Commits of all four kinds of rows; the first has inserts only."""
    return tuple(
        ("write", {"rows": rows, "kinds": [KINDS[(row[0] + n) % 4 if n else 0] for row in rows]})
        for n, rows in enumerate(commits)
    )


def compacted() -> JavaCase:
    """Fully compacted by Java, tagged, analysed, and written to again."""
    return JavaCase(
        name="java_compacted",
        steps=(
            *writes(runs(orders, count=3, keys=12, step=4)),
            ("compact", {"full": True}),
            ("create_tag", {"tag": "v1"}),
            *writes(runs(orders, count=2, keys=6, step=2, first=4)),
            ("analyze", {}),
        ),
        later=writes(runs(orders, count=2, keys=6, step=3, first=3)),
    )


def settled() -> JavaCase:
    """Fully compacted by Java and left so: there is nothing to do."""
    return JavaCase(
        name="java_settled",
        steps=(*writes(runs(orders, count=3, keys=12, step=4)), ("compact", {"full": True})),
        later=writes(runs(orders, count=5, keys=6, step=3, first=3)),
    )


def levels() -> JavaCase:
    """Files on several levels, as Java's own writers leave them; some levels hold delete markers."""
    big = tuple([[key, f"name {key} " * 5, n] for key in range(n * 50, n * 50 + 400)] for n in range(2))
    small = tuple([[key, f"later {key}", n] for key in range(n * 40, n * 40 + 20)] for n in range(2, 7))
    return JavaCase(
        name="java_levels",
        options={"bucket": "1", "num-sorted-run.compaction-trigger": "3"},
        steps=(*writes(big), ("compact", {"full": True}), *kind_writes(small)),
        later=kind_writes(runs(orders, count=4, keys=30, step=10)),
    )


def deletes() -> JavaCase:
    """Delete markers that the file metadata counts."""
    return JavaCase(
        name="java_deletes",
        steps=kind_writes(runs(orders, count=4, keys=12, step=4)),
        later=kind_writes(runs(orders, count=3, keys=12, step=5)),
    )


def dynamic_bucket() -> JavaCase:
    """Buckets from an index that compaction must carry along."""
    return JavaCase(
        name="java_dynamic_bucket",
        options={"bucket": "-1", "write-only": "true", "dynamic-bucket.target-row-num": "20"},
        steps=writes(runs(orders, count=4, keys=12, step=4)),
        later=writes(runs(orders, count=2, keys=12, step=5, first=3)),
    )


def evolved() -> JavaCase:
    """Files of four schemas: a column added, one renamed, one widened, one dropped."""
    return JavaCase(
        name="java_evolved",
        fields=(("id", "BIGINT"), ("name", "STRING"), ("v", "INT"), ("gone", "STRING")),
        steps=(
            *writes(([[key, f"n{key}", key * 2, "x"] for key in range(10)],)),
            ("alter", {"changes": [["add_column", "extra", "DECIMAL(12, 2)"]]}),
            *writes(([[key, f"n{key}", key * 3, "y", f"{key}.25"] for key in range(5, 15)],)),
            ("alter", {"changes": [["rename_column", "name", "title"], ["update_column_type", "v", "BIGINT"]]}),
            *writes(([[key, f"t{key}", 2**40 + key, "z", None] for key in range(8, 20)],)),
            ("alter", {"changes": [["drop_column", "gone"]]}),
            *writes(([[key, f"u{key}", None, "9.75"] for key in range(0, 20, 3)],)),
        ),
        later=writes(([[key, f"w{key}", key, None] for key in range(0, 25, 2)],)),
    )


def partial_update() -> JavaCase:
    """Each commit fills other columns, written by Java."""
    return JavaCase(
        name="java_partial_update",
        options=WRITE_ONLY | {"merge-engine": "partial-update"},
        steps=writes(
            tuple(
                [[key, f"n{key}.{n}" if n % 2 else None, None if n % 2 else n * 100 + key] for key in range(n, n + 9)]
                for n in range(4)
            )
        ),
        later=writes(([[key, None, -key] for key in range(6)],)),
    )


def aggregated() -> JavaCase:
    """Every aggregate, written by Java."""
    case = aggregation()
    return JavaCase(
        name="java_aggregation",
        fields=case.fields,
        options=case.options | WRITE_ONLY,
        steps=writes(runs(aggregated_row, count=4, keys=12, step=3)),
        later=writes(runs(aggregated_row, count=2, keys=9, step=3, first=4)),
    )


def first_row() -> JavaCase:
    """The oldest row of a key stays; Java's reader leaves out level 0."""
    case = long_key()
    return JavaCase(
        name="java_first_row",
        options=WRITE_ONLY | {"merge-engine": "first-row"},
        steps=writes(case.commits),
        later=writes(case.later),
        hides_level0=True,
    )


def formats_by_level() -> JavaCase:
    """Level 0 in Avro, the last level in ORC, Parquet between."""
    return JavaCase(
        name="java_formats_by_level",
        options=WRITE_ONLY | {"file.format.per.level": "0:avro,5:orc"},
        steps=writes(runs(orders, count=4, keys=12, step=4)),
        later=writes(runs(orders, count=2, keys=12, step=5, first=3)),
    )


def composite_key() -> JavaCase:
    """A key of a string and a long."""
    case = composite()
    return JavaCase(
        name="java_composite",
        fields=case.fields,
        keys=case.keys,
        steps=writes(case.commits),
        later=writes(case.later),
    )


def appended() -> JavaCase:
    """An append table of Java's; it has value statistics."""
    return JavaCase(
        name="java_append",
        keys=(),
        options={"bucket": "-1", "write-only": "true"},
        steps=writes(runs(orders, count=7, keys=8, step=4)),
        later=writes(runs(orders, count=6, keys=5, step=4, first=12)),
    )


def key_of_type(kind: str, *more: str) -> JavaCase:
    """A key of one type, with values of its own if there are such that pypaimon does not write rightly."""
    name, pool = (
        "java_key_" + re.sub(r"\W+", "_", kind).strip("_").lower(),
        list(more) or [key for key in KEYS_OF_TYPES[kind] if key != "-0.0"],
    )
    commits = [[[key, key if (at + n) % 2 else None, n] for at, key in enumerate(pool)] for n in range(4)]
    return JavaCase(
        name=name,
        fields=(("k", kind), ("v", kind), ("n", "INT")),
        keys=("k",),
        steps=writes((commits[0], commits[1][1:], commits[2][:-1])),
        later=writes((commits[3][2:],)),
        readers=("pypaimon-rust", "java") if kind == "TIMESTAMP(9)" else EVERYONE,  # pypaimon drops nanoseconds
    )


NANOSECONDS = ("2024-01-01T00:00:00.000001001", "2024-01-01T00:00:00.000001002", "2024-01-01T00:00:00")
JAVA_FIXTURES = (
    compacted(),
    settled(),
    levels(),
    deletes(),
    dynamic_bucket(),
    evolved(),
    appended(),
    formats_by_level(),
)
JAVA_CASES = (
    *JAVA_FIXTURES,
    partial_update(),
    aggregated(),
    first_row(),
    composite_key(),
    key_of_type("DOUBLE"),
    key_of_type("FLOAT"),
    key_of_type("TIMESTAMP(9)", *NANOSECONDS),
    key_of_type("DECIMAL(38, 10)"),
    key_of_type("STRING"),
    key_of_type("BYTES"),
)
