"""Tables that pypaimon makes: what they look like and the commits that fill them.

A case is data only, so that the same tables serve the interop tests, the Java tests and the fixtures of the unit tests.
"""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from paimon_interop.client import Worker

Rows = list[list[Any]]
EVERYONE = ("pypaimon", "pypaimon-rust", "java")
NOT_JAVA = ("pypaimon", "pypaimon-rust")  # Java misreads the TIMESTAMP(9) that pypaimon writes


@dataclass(frozen=True, kw_only=True)
class Case:
    """One table: ``commits`` fill it, ``later`` come after the first compaction."""

    name: str
    fields: tuple[tuple[str, Any], ...]
    keys: tuple[str, ...] = ()
    partitions: tuple[str, ...] = ()
    options: dict[str, str] = field(default_factory=dict)
    commits: tuple[Rows, ...] = ()
    later: tuple[Rows, ...] = ()
    hides_level0: bool = False  # a batch reader leaves out level 0, so rows appear only by compaction
    readers: tuple[str, ...] = EVERYONE
    rust_writes: bool = False

    def __str__(self) -> str:
        return self.name

    def create(self, worker: Worker, table: Path) -> Path:
        """Make the table and write its first commits."""
        worker.call(
            "create",
            table,
            fields=self.fields,
            primary_keys=self.keys,
            partition_keys=self.partitions,
            options=self.options,
        )
        self.write(worker, table, self.commits)
        return table

    def write(self, worker: Worker, table: Path, commits: tuple[Rows, ...]) -> None:
        """Write each of these in a commit of its own."""
        for rows in commits:
            worker.call("write", table, rows=rows, rust=self.rust_writes)


def runs(
    make: Callable[[int, int], list[Any]], *, count: int, keys: int, step: int, first: int = 0
) -> tuple[Rows, ...]:
    """Commits that overlap: number ``n`` writes the keys from ``n * step`` on, each as ``make(key, n)`` says."""
    return tuple([make(key, n) for key in range(n * step, n * step + keys)] for n in range(first, first + count))


def first_rows(commits: tuple[Rows, ...]) -> Rows:
    """The oldest row of every key, which is in the first column; what a first-row table shows once compacted."""
    oldest: dict[Any, list[Any]] = {}
    for commit in commits:
        for row in commit:
            oldest.setdefault(row[0], row)
    return sorted(oldest.values(), key=json.dumps)


def orders(key: int, n: int) -> list[Any]:
    """A row with a long key."""
    return [key, f"name {key}.{n}", None if (key + n) % 5 == 0 else n * 1000 + key]


ORDERS = (("id", "BIGINT"), ("name", "STRING"), ("v", "INT"))
ONE_BUCKET = {"bucket": "1"}


def long_key(name: str = "pk_overlapping", **options: str) -> Case:
    """Four overlapping runs of a table with a long key; options may change the format and much else."""
    return Case(
        name=name,
        fields=ORDERS,
        keys=("id",),
        options=ONE_BUCKET | {key.replace("__", "-").replace("_", "."): value for key, value in options.items()},
        commits=runs(orders, count=4, keys=12, step=4),
        later=runs(orders, count=2, keys=9, step=3, first=5),
    )


def partitioned() -> Case:
    """Partitions of two columns, two buckets, and values that a path has to escape."""

    def row(key: int, n: int) -> list[Any]:
        region = ("north", "a b", "x/y=z%", "süd")[key % 4]
        return [region, 20240101 + key % 2, key, f"{n}:{key}"]

    return Case(
        name="pk_partitions_buckets",
        fields=(("region", "STRING"), ("day", "INT"), ("id", "BIGINT"), ("note", "STRING")),
        keys=("region", "day", "id"),
        partitions=("region", "day"),
        options={"bucket": "2"},
        commits=runs(row, count=4, keys=24, step=8),
        later=runs(row, count=2, keys=16, step=6, first=3),
    )


def composite() -> Case:
    """A key of a string and a long, with strings of very different lengths."""

    def row(key: int, n: int) -> list[Any]:
        return ["" if key % 7 == 0 else "kärtchen-" * (key % 4) + chr(97 + key % 26), key // 3, n, f"{key}/{n}"]

    return Case(
        name="pk_composite",
        fields=(("code", "STRING"), ("number", "BIGINT"), ("version", "INT"), ("note", "STRING")),
        keys=("code", "number"),
        options=ONE_BUCKET,
        commits=runs(row, count=4, keys=30, step=10),
        later=runs(row, count=2, keys=20, step=15, first=1),
    )


def append_files() -> Case:
    """An append table of twelve small files, with duplicates that must stay."""
    return Case(
        name="append_unaware",
        fields=ORDERS,
        options={"bucket": "-1"},
        commits=runs(orders, count=12, keys=8, step=4),
        later=runs(orders, count=6, keys=5, step=4, first=12),
    )


def append_partitions() -> Case:
    """An append table with partitions, one of them of no value; a primary key would not allow that."""

    def row(key: int, n: int) -> list[Any]:
        return [(None, "a", "b:c*?")[key % 3], key, n]

    return Case(
        name="append_partitions",
        fields=(("region", "STRING"), ("id", "BIGINT"), ("n", "INT")),
        partitions=("region",),
        options={"bucket": "-1"},
        commits=runs(row, count=6, keys=9, step=3),
        later=runs(row, count=6, keys=9, step=3, first=6),
    )


def append_buckets() -> Case:
    """An append table of two fixed buckets."""
    return Case(
        name="append_fixed_bucket",
        fields=ORDERS,
        options={"bucket": "2", "bucket-key": "id"},
        commits=runs(orders, count=6, keys=16, step=8),
        later=runs(orders, count=6, keys=9, step=8, first=6),
    )


def partial_update() -> Case:
    """Each commit fills other columns."""

    def row(key: int, n: int) -> list[Any]:
        return [key] + [f"{column}{key}.{n}" if n % 3 == at else None for at, column in enumerate("abc")]

    return Case(
        name="partial_update",
        fields=(("id", "BIGINT"), ("a", "STRING"), ("b", "STRING"), ("c", "STRING")),
        keys=("id",),
        options=ONE_BUCKET | {"merge-engine": "partial-update"},
        commits=runs(row, count=4, keys=12, step=3),
        later=runs(row, count=3, keys=9, step=3, first=4),
    )


AGGREGATES = {
    "total": ("BIGINT", "sum"),
    "amount": ("DECIMAL(20, 2)", "sum"),
    "weight": ("DOUBLE", "sum"),
    "factor": ("INT", "product"),
    "highest": ("INT", "max"),
    "lowest": ("STRING", "min"),
    "last": ("STRING", "last_value"),
    "last_known": ("STRING", "last_non_null_value"),
    "first": ("STRING", "first_value"),
    "first_known": ("STRING", "first_non_null_value"),
    "all_true": ("BOOLEAN", "bool_and"),
    "any_true": ("BOOLEAN", "bool_or"),
    "list": ("STRING", "listagg"),
}


def aggregated_row(key: int, n: int) -> list[Any]:
    """One row of a table with a column for every aggregate."""
    text = None if (key + n) % 3 == 0 else f"t{key}.{n}"
    number = None if (key + n) % 4 == 0 else key * 10 + n
    amount = None if number is None else f"{number * 101}.{n:02d}"
    truth = None if (key + n) % 5 == 0 else (key + n) % 2 == 0
    return [key, number, amount, 0.1 * n + key, n % 3 + 1, number, text, text, text, text, text, truth, truth, text]


def aggregation() -> Case:
    """Every aggregate that Packstone knows, nulls among the values."""
    return Case(
        name="aggregation",
        fields=(("id", "BIGINT"), *((name, kind) for name, (kind, _) in AGGREGATES.items())),
        keys=("id",),
        options=ONE_BUCKET
        | {"merge-engine": "aggregation"}
        | {f"fields.{name}.aggregate-function": how for name, (_, how) in AGGREGATES.items()},
        commits=runs(aggregated_row, count=4, keys=12, step=3),
        later=runs(aggregated_row, count=2, keys=9, step=3, first=4),
    )


def exact_aggregation() -> Case:
    """The same with sums of whole numbers: a partial compaction adds up in another order, Java's too."""
    case = aggregation()
    at = [name for name, _ in case.fields].index("weight")

    def exact(commits: tuple[Rows, ...]) -> tuple[Rows, ...]:
        return tuple([[*row[:at], float(int(row[at])), *row[at + 1 :]] for row in rows] for rows in commits)

    return replace(case, name="exact_aggregation", commits=exact(case.commits), later=exact(case.later))


def deletes() -> Case:
    """Row kinds from a column: updates of both sides and deletes; some keys come back, some only ever were deleted."""

    def row(key: int, n: int) -> list[Any]:
        kind = ("+I", "-D", "+U", "-U")[0 if n == 0 else (key + n) % 4]
        return [key, kind, f"{key}.{n}"]

    return Case(
        name="deletes",
        fields=(("id", "BIGINT"), ("kind", "STRING"), ("note", "STRING")),
        keys=("id",),
        options=ONE_BUCKET | {"rowkind.field": "kind"},
        commits=runs(row, count=4, keys=12, step=4),
        later=runs(row, count=3, keys=12, step=5, first=2),
    )


def first_row() -> Case:
    """The oldest row of a key stays."""
    case = long_key()
    return Case(
        name="first_row",
        fields=case.fields,
        keys=case.keys,
        options=ONE_BUCKET | {"merge-engine": "first-row"},
        commits=case.commits,
        later=case.later,
        hides_level0=True,
    )


def sequence_field() -> Case:
    """A column decides which row is newest, against the order of the commits; ties and nulls among them."""

    def row(key: int, n: int) -> list[Any]:
        return [key, None if (key + n) % 6 == 0 else (7 - 2 * n) * (key % 3), f"{key}.{n}"]

    return Case(
        name="sequence_field",
        fields=(("id", "BIGINT"), ("at", "INT"), ("note", "STRING")),
        keys=("id",),
        options=ONE_BUCKET | {"sequence.field": "at"},
        commits=runs(row, count=4, keys=12, step=3),
        later=runs(row, count=2, keys=9, step=3, first=4),
    )


def ignored_deletes() -> Case:
    """Deletes that the table is configured to ignore."""
    case = deletes()
    return replace(case, name="ignored_deletes", options=case.options | {"ignore-delete": "true"})


def newest_by_two(order: str) -> Case:
    """Two sequence columns, in either order."""

    def row(key: int, n: int) -> list[Any]:
        return [key, (key + n) % 3, f"{(5 * n) % 7}.5", f"{key}.{n}"]

    return Case(
        name=f"two_sequence_fields_{order}",
        fields=(("id", "BIGINT"), ("major", "INT"), ("minor", "DECIMAL(5, 1)"), ("note", "STRING")),
        keys=("id",),
        options=ONE_BUCKET | {"sequence.field": "major,minor", "sequence.field.sort-order": order},
        commits=runs(row, count=4, keys=12, step=3),
        later=runs(row, count=2, keys=9, step=3, first=4),
    )


def dynamic_buckets() -> Case:
    """A primary key and no number of buckets: an index keeps which bucket a key is in."""
    return replace(long_key("dynamic_bucket"), options={"bucket": "-1", "dynamic-bucket.target-row-num": "10"})


def many_types(file_format: str) -> Case:
    """A value of every type, nulls in every column, nested ones too."""
    pools = {kind: pool for kind, pool in KEYS_OF_TYPES.items() if (kind, file_format) not in NOT_WRITTEN}
    if file_format == "orc":
        pools = {kind: [storable_in_orc(value) for value in pool] for kind, pool in pools.items()}
        # PyArrow reads ORC's times as nanoseconds, for which the year 9999 is too far.
        pools["TIMESTAMP(6)"] = pools["TIMESTAMP(6)"][:2]
    kinds = [*pools, *([ARRAY, MAP, ROW] if file_format != "avro" else [ARRAY])]
    nested = (
        [[1, 2 if file_format == "avro" else None], []],
        [[["a", 1], ["b", None]], []],
        [{"x": 1, "y": "z"}, {"x": None, "y": None}],
    )

    def row(key: int, n: int) -> list[Any]:
        pool_of = [*pools.values(), *nested][: len(kinds)]
        values = [pool[(key + n + at) % len(pool)] for at, pool in enumerate(pool_of)]
        return [key] + [None if (key + n + at) % 4 == 0 else value for at, value in enumerate(values)]

    return Case(
        name=f"many_types_{file_format}",
        fields=(("id", "BIGINT"), *((f"c{at}", kind) for at, kind in enumerate(kinds))),
        keys=("id",),
        options=ONE_BUCKET | {"file.format": file_format},
        commits=runs(row, count=4, keys=12, step=4),
        later=runs(row, count=2, keys=9, step=3, first=5),
        # The reader of ORC in pypaimon-rust stumbles over parts of seconds before 1970.
        readers=("pypaimon",) if file_format == "orc" else NOT_JAVA,
    )


def storable_in_orc(value: Any) -> Any:
    """A second earlier where ORC has no form: fractions of the last second before 1970, which are refused."""
    last_second = "1969-12-31T23:59:59."
    return value.replace(last_second, "1969-12-31T23:59:58.") if isinstance(value, str) else value


NOT_WRITTEN = {("TIMESTAMP(9)", "avro")}  # by pypaimon; nor maps, rows and nulls in arrays
ARRAY = {"type": "ARRAY", "element": "INT"}
MAP = {"type": "MAP", "key": "STRING", "value": "INT"}
ROW = {
    "type": "ROW",
    "fields": [{"id": 100, "name": "x", "type": "INT"}, {"id": 101, "name": "y", "type": "STRING"}],
}
# Keys leave out what readers disagree on: with NaN in a key rows vanish in pypaimon and in Java, and not in
# pypaimon-rust; -0.0 and 0.0 are one key for Java and two for the others; pypaimon drops nanoseconds when it merges.
KEYS_OF_TYPES: dict[str, list[Any]] = {
    "TINYINT": [0, -128, 127, 5],
    "SMALLINT": [0, -32768, 32767, 7],
    "INT": [0, -(2**31), 2**31 - 1, 9],
    "BIGINT": [0, -(2**63), 2**63 - 1, 11],
    "STRING": ["b", "", "ä", "\U0001d11e", "\uffff", "longer than seven bytes", "a", "longer than sevem"],
    "VARCHAR(20)": ["x", "yy", "zzz"],
    "CHAR(5)": ["x", "yy", "zzz"],
    "DECIMAL(9, 2)": ["0.00", "-1.00", "9999999.99"],
    "DECIMAL(18, 4)": ["0.0000", "-1.0000", "99999999999999.9999"],
    "DECIMAL(38, 10)": ["0.0000000001", "-9999999999999999999999999999.9999999999", "1.0000000000", "0.0000000000"],
    "DATE": ["2024-02-29", "1969-12-31", "0001-01-01", "9999-12-31"],
    "TIME(3)": ["12:00:00", "00:00:00", "23:59:59.999000"],
    "TIMESTAMP(0)": ["2024-01-01T00:00:00", "1969-12-31T23:59:59"],
    "TIMESTAMP(3)": ["2024-01-01T00:00:00.001", "1969-12-31T23:59:59.999"],
    "TIMESTAMP(6)": ["2024-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999", "9999-12-31T23:59:59"],
    "TIMESTAMP(9)": ["2024-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"],
    "TIMESTAMP(3) WITH LOCAL TIME ZONE": ["2024-01-01T00:00:00.001", "1969-12-31T23:59:59.999"],
    "TIMESTAMP(6) WITH LOCAL TIME ZONE": ["2024-01-01T00:00:00.000001", "1969-12-31T23:59:59.999999"],
    "BOOLEAN": [True, False],
    "FLOAT": ["1.5", "-inf", "-0.0", "0.0", "inf"],
    "DOUBLE": ["1.5", "-inf", "-0.0", "0.0", "inf", "1e-300"],
    "BYTES": ["ff00", "", "00", "0102030405060708"],
    "VARBINARY(8)": ["ff", "00", "0102030405060708"],
    "BINARY(4)": ["ff000000", "00000000"],
}


def key_of_type(kind: str) -> Case:
    """A key of one type; the same values once more as a value, sometimes null."""
    pool = [value for value in KEYS_OF_TYPES[kind] if value != "-0.0"]
    every = tuple([value, value if (at + n) % 2 else None, n] for n in range(3) for at, value in enumerate(pool))
    size = len(pool)
    return Case(
        name="key_" + re.sub(r"\W+", "_", kind).strip("_").lower(),
        fields=(("k", kind), ("v", kind), ("n", "INT")),
        keys=("k",),
        options=ONE_BUCKET,
        commits=(list(every[:size]), list(every[size : 2 * size - 1]), list(every[2 * size + 1 :])),
        later=(list(every[: size - 1]), list(every[size:])[: size - 1]),
        readers=NOT_JAVA if kind == "TIMESTAMP(9)" else EVERYONE,
    )


FIXTURES = (
    long_key(),
    partitioned(),
    composite(),
    append_files(),
    append_partitions(),
    append_buckets(),
    partial_update(),
    aggregation(),
    deletes(),
    first_row(),
    sequence_field(),
    long_key("orc", file_format="orc"),
    long_key("avro", file_format="avro"),
    replace(long_key("rust"), rust_writes=True),
)

KEY_TYPES = tuple(key_of_type(kind) for kind in KEYS_OF_TYPES)
CASES = (
    *FIXTURES,
    ignored_deletes(),
    newest_by_two("ascending"),
    newest_by_two("descending"),
    dynamic_buckets(),
    many_types("parquet"),
    many_types("orc"),
    many_types("avro"),
    *KEY_TYPES,
)
