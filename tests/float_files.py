"""Random Parquet files of floating-point columns, by several writers; and what readers find in them by filters.

A reader may be wrong before a merge: PyArrow and Polars write bounds that leave NaN out. So the claim that tests hold
is about each row and each filter: who judged a row rightly before the merge does so after it.
"""

import math
import random
from dataclasses import dataclass
from pathlib import Path

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from packstone.rewrite.formats.parquet_footer import read_footer_facts
from packstone.rewrite.small_files.parquet_kernel import rewrite_parquet
from packstone.rewrite.small_files.parquet_splice import plan_splice, splice_parquet
from packstone.rewrite.small_files.spliced_file import CannotSpliceError
from packstone.storage.local import LocalFileIO

DUCKDB = duckdb.connect(config={"threads": 1})
NAN, INF = math.nan, math.inf
SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64()),
        pa.field("x", pa.float64()),
        pa.field("f", pa.float32()),
        pa.field("s", pa.struct([pa.field("a", pa.float64()), pa.field("b", pa.float32())])),
        pa.field("l", pa.list_(pa.float64())),
        pa.field("h", pa.float16()),
    ]
)
COLUMNS = ("x", "f", "s.a", "s.b")  # that filters ask for
OPERATORS = ("=", "<>", "<", "<=", ">", ">=")
CONSTANTS = (NAN, 0.0, -0.0, INF, -INF, 5.0, 0.5, -3.0, 100.0)
# What the values of a column in one file are drawn from.
STYLES = (
    (0.0, 0.25, 0.5, 1.0),
    (6.0, 7.5, 10.0),
    (0.5, 1.0, NAN),
    (7.0, 9.0, NAN, None),
    (NAN,),
    (None,),
    (0.0,),
    (-0.0,),
    (0.0, -0.0, NAN),
    (INF, 1.0),
    (-INF, -3.0, NAN),
    (-5.0, None),
)
WRITERS = ("pyarrow", "pyarrow-bare", "pyarrow-some", "duckdb", "polars")


@dataclass(frozen=True)
class Filter:
    """A comparison with a constant."""

    column: str
    operator: str
    constant: float

    def to_sql(self):
        """As DuckDB and Spark both take it."""
        kind = "float" if self.column in ("f", "s.b") else "double"
        return f"{self.column} {self.operator} cast('{self.constant}' as {kind})"

    def to_polars(self):
        """As Polars takes it."""
        field, _, child = self.column.partition(".")
        column = pl.col(field).struct.field(child) if child else pl.col(field)
        return _apply(column, self.operator, self.constant)

    def to_arrow(self):
        """As PyArrow takes it."""
        field, _, child = self.column.partition(".")
        column = ds.field(field, child) if child else ds.field(field)
        kind = pa.float32() if self.column in ("f", "s.b") else pa.float64()
        return _apply(column, self.operator, pc.scalar(pa.scalar(self.constant, kind)))


def _apply(column, operator, constant):
    match operator:
        case "=":
            return column == constant
        case "<>":
            return column != constant
        case "<":
            return column < constant
        case "<=":
            return column <= constant
        case ">":
            return column > constant
        case _:
            return column >= constant


FILTERS = tuple(Filter(c, o, v) for c in COLUMNS for o in OPERATORS for v in CONSTANTS)


def draw_table(dice, first, *, rows, schema=SCHEMA):
    """Rows with ids of their own; each column in one style."""
    styles = {name: dice.choice(STYLES) for name in ("x", "f", "a", "b", "l", "h")}

    def value(name):
        return dice.choice(styles[name])

    def items():
        return dice.choice([None, [], [value("l") for _ in range(dice.randint(1, 3))]])

    columns = {
        "id": list(range(first, first + rows)),
        "x": [value("x") for _ in range(rows)],
        "f": [value("f") for _ in range(rows)],
        "s": [dice.choice([None, *[{"a": value("a"), "b": value("b")}] * 5]) for _ in range(rows)],
        "l": [items() for _ in range(rows)],
        "h": [value("h") for _ in range(rows)],
    }
    return pa.table({field.name: pa.array(columns[field.name], field.type) for field in schema}, schema=schema)


def write_file(dice, table, path, *, writer, page_index, plain):
    """Write a file as the writer does; ``plain``: in pages that can be copied."""
    if writer == "duckdb":
        DUCKDB.from_arrow(table).write_parquet(str(path))
    elif writer == "polars":
        pl.from_arrow(table).write_parquet(path, row_group_size=max(1, dice.choice([3, table.num_rows])))
    else:
        some = dice.choice([["id", "x"], ["f", "s.a", "l.list.element"], ["id"]])
        pq.write_table(
            table,
            path,
            write_statistics={"pyarrow": True, "pyarrow-bare": False, "pyarrow-some": some}[writer],
            write_page_index=page_index and not plain,
            use_dictionary=not plain and dice.random() < 0.3,
            row_group_size=5000 if plain else dice.choice([3, 7, 5000]),
        )


def draw_files(seed, folder, *, half=True):
    """Write the files of one case: one writer, or several whose files differ in nothing but statistics.

    ``half``: with half floats, which neither DuckDB nor Spark reads.
    """
    dice = random.Random(seed)
    folder.mkdir(parents=True)
    families = (("duckdb",), ("polars",), ("pyarrow", "pyarrow-bare", "pyarrow-some"), ("pyarrow",))
    writers, page_index = dice.choice(families), dice.random() < 0.3
    plain = dice.random() < 0.1
    rows = 1200 if plain else dice.randint(1, 12)  # pages of a thousand values and more are copied as they are
    schema = SCHEMA if half and writers != ("duckdb",) else SCHEMA.remove(SCHEMA.get_field_index("h"))
    for number in range(dice.randint(2, 4)):
        table = draw_table(dice, number * rows, rows=rows, schema=schema)
        path = folder / f"{number}.parquet"
        write_file(dice, table, path, writer=dice.choice(writers), page_index=page_index, plain=plain)
    return dice


def merge_files(before, after):
    """Merge the files that agree, as a unit does; return in which ways they were merged."""
    after.mkdir()
    io, groups, ways = LocalFileIO(), {}, set()
    for path in sorted(before.iterdir()):
        groups.setdefault(read_footer_facts(io, str(path)).agreement, []).append(str(path))
    for number, paths in enumerate(groups.values()):
        ways.add(_merge(io, paths, f"{after}/{number}.parquet"))
    return ways


def _merge(io, paths, output):
    try:
        splice_parquet(io, paths, output, plan=plan_splice(io, paths))
    except CannotSpliceError:
        rewrite_parquet(io, paths, output, codec="keep")
        return "rewrite"
    return "splice"


def found_by_duckdb(folder, one):
    """The ids that DuckDB finds."""
    return _ids(DUCKDB.sql(f"select id from read_parquet('{folder}/*.parquet') where {one.to_sql()}").fetchall())


def right_for_duckdb(table, one):
    """The ids that DuckDB finds where it has no statistics."""
    DUCKDB.register("all_rows", table)
    return _ids(DUCKDB.sql(f"select id from all_rows where {one.to_sql()}").fetchall())


def found_by_polars(folder, one):
    """The ids that Polars finds, reading lazily."""
    return set(pl.scan_parquet(f"{folder}/*.parquet").filter(one.to_polars()).collect()["id"])


def right_for_polars(table, one):
    """The ids that Polars finds in memory."""
    return set(pl.from_arrow(table).filter(one.to_polars())["id"])


def found_by_pyarrow(folder, one):
    """The ids that PyArrow's datasets find."""
    return set(
        ds.dataset(str(folder), format="parquet").to_table(columns=["id"], filter=one.to_arrow())["id"].to_pylist()
    )


def right_for_pyarrow(table, one):
    """The ids that PyArrow finds in memory."""
    return set(table.filter(one.to_arrow())["id"].to_pylist())


READERS = {
    "DuckDB": (found_by_duckdb, right_for_duckdb),
    "Polars": (found_by_polars, right_for_polars),
    "PyArrow": (found_by_pyarrow, right_for_pyarrow),
}


def all_rows(folder: Path):
    """Every row, decoded file by file."""
    return pa.concat_tables(pq.read_table(path).select(["id", "x", "f", "s"]) for path in sorted(folder.iterdir()))


def new_mistakes(before, after, right):
    """The rows that were judged rightly and are not any more."""
    return (after ^ right) - (before ^ right)


def _ids(rows):
    return {row[0] for row in rows}
