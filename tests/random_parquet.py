"""Random directories of Parquet files by six writers, and what four readers find in them, with and without filters.

A directory is a pure function of its seed. Its columns have values of many distributions (constant, few, many, an own
set in each file, nulls only), so that a merge copies pages, merges dictionaries and encodes again. Most directories
have one writer, some have several.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import decimal
import math
import random
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pyarrow.parquet as pq

CANNOT = (
    duckdb.Error,
    pl.exceptions.PolarsError,
    pl.exceptions.PanicException,
    pa.ArrowException,
    OSError,  # PyArrow, of some of DuckDB's delta pages: "InitBlock EOF"
    NotImplementedError,
)
LONG_BITS = 63
EPOCH = dt.datetime(1970, 1, 1)  # noqa: DTZ001 - columns without a time zone
WORDS = ["", "a", "ab", "NULL", "-0.0", "é", "日本", "😀", "x" * 200, "\0", "zz"]
UTC = dt.UTC

# ---- columns ----


def _decimals(precision: int, scale: int) -> Callable[[random.Random], decimal.Decimal]:
    limit = 10**precision - 1
    return lambda rng: decimal.Decimal(rng.choice([rng.randint(-limit, limit), limit, -limit, 0])).scaleb(
        -scale, decimal.Context(prec=40)
    )


def _integers(kind: pa.DataType) -> Callable[[random.Random], int]:
    signed = not pa.types.is_unsigned_integer(kind)
    low = -(2 ** (kind.bit_width - 1)) if signed else 0
    high = 2 ** (kind.bit_width - signed) - 1
    return lambda rng: rng.choice([rng.randint(low, high), rng.randint(max(low, -99), 99), low, high])


def _text(rng: random.Random) -> str:
    return rng.choice([rng.choice(WORDS), f"{rng.getrandbits(40):x}", f"customer-{rng.randrange(500):04d}"])


def _float(rng: random.Random) -> float:
    value = rng.choice([rng.uniform(-1e6, 1e6), rng.gauss(0, 1), 0.0, -0.0, math.inf, -math.inf])
    return pa.scalar(value, pa.float32()).as_py()  # exact in both widths


def _float_or_nan(rng: random.Random) -> float:
    return math.nan if rng.random() < 0.2 else _float(rng)


def _moment(rng: random.Random) -> dt.datetime:
    """A moment that 64 bits of nanoseconds can hold: PyArrow reads INT96 so."""
    return EPOCH + dt.timedelta(microseconds=rng.choice([rng.randint(-(10**15), 9 * 10**15), rng.randrange(10**6), 0]))


def _struct(rng: random.Random) -> dict[str, Any]:
    return {"a": rng.choice([None, _text(rng)]), "b": rng.choice([None, rng.randrange(50)])}


COMMON: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "int8": (pa.int8(), _integers(pa.int8())),
    "int16": (pa.int16(), _integers(pa.int16())),
    "int32": (pa.int32(), _integers(pa.int32())),
    "int64": (pa.int64(), _integers(pa.int64())),
    "float32": (pa.float32(), _float),
    "float64": (pa.float64(), _float),
    "nan": (pa.float64(), _float_or_nan),
    "bool": (pa.bool_(), lambda rng: rng.random() < 0.5),
    "string": (pa.string(), _text),
    "binary": (pa.binary(), lambda rng: rng.randbytes(rng.randrange(6))),
    "moment": (pa.timestamp("us"), _moment),
    "instant": (pa.timestamp("us", "UTC"), lambda rng: _moment(rng).replace(tzinfo=UTC)),
}
NESTED: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "date": (pa.date32(), lambda rng: _moment(rng).date()),
    "decimal9": (pa.decimal128(9, 2), _decimals(9, 2)),
    "decimal18": (pa.decimal128(18, 3), _decimals(18, 3)),
    "decimal30": (pa.decimal128(30, 5), _decimals(30, 5)),
    "list": (
        pa.list_(pa.int32()),
        lambda rng: [rng.choice([None, rng.randrange(80)]) for _ in range(rng.randrange(4))],
    ),
    "texts": (pa.list_(pa.string()), lambda rng: [rng.choice(WORDS) for _ in range(rng.randrange(3))]),
    "struct": (pa.struct([("a", pa.string()), ("b", pa.int32())]), _struct),
}
UNSIGNED: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "uint8": (pa.uint8(), _integers(pa.uint8())),
    "uint32": (pa.uint32(), _integers(pa.uint32())),
    "uint64": (pa.uint64(), _integers(pa.uint64())),
    "time": (pa.time64("us"), lambda rng: _moment(rng).time()),
}
MORE: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]] = {
    "fixed": (pa.binary(3), lambda rng: rng.randbytes(3)),
    "large": (pa.large_string(), _text),
    "map": (pa.map_(pa.string(), pa.int32()), lambda rng: [(word, rng.randrange(9)) for word in rng.sample(WORDS, 2)]),
}


@dataclass(frozen=True, slots=True)
class Column:
    """How the values of one column are drawn."""

    name: str
    kind: pa.DataType
    draw: Callable[[random.Random], Any]
    shape: str  # constant, few, some, many, rising, own
    null_share: float
    required: bool
    seed: int

    def values(self, rng: random.Random, rows: int, file: int) -> list[Any]:
        """The values of one file; now and then a file has nothing but nulls."""
        null_share = 1.0 if self.null_share and rng.random() < 0.15 else self.null_share
        pool = self._pool(file)
        chosen = pool[:rows] if len(pool) >= rows and self.shape in {"many", "rising"} else rng.choices(pool, k=rows)
        return [None if rng.random() < null_share else value for value in chosen]

    def _pool(self, file: int) -> list[Any]:
        size = {"constant": 1, "few": 4, "some": 150, "many": 2000, "rising": 2000, "own": 60}[self.shape]
        own = random.Random(f"{self.seed} {file if self.shape in {'own', 'many', 'rising'} else ''}")
        pool = [self.draw(own) for _ in range(size)]
        return sorted(pool, key=repr) if self.shape == "rising" else pool


# ---- writers ----


class Style(random.Random):
    """The options that one writer is called with; short pages and row groups are rare where a test wants long ones."""

    def __init__(self, seed: int, *, long_pages: bool) -> None:
        super().__init__(seed)
        self._short_share = 0.1 if long_pages else 0.5

    def limit(self, short: int, usual: int | None) -> int | None:
        """The limit of a page, a dictionary or a row group."""
        return short if self.random() < self._short_share else usual


def _write_pyarrow(path: Path, table: pa.Table, style: Style) -> None:
    has_dictionary = style.random() < 0.7
    encodings = None
    if not has_dictionary and style.random() < 0.5:
        encodings = {field.name: _delta(field.type) for field in table.schema if _delta(field.type)}
    pq.write_table(
        table,
        path,
        compression=style.choice(["none", "snappy", "snappy", "zstd", "gzip", "lz4"]),
        use_dictionary=has_dictionary,
        column_encoding=encodings,
        dictionary_pagesize_limit=style.limit(200, 1 << 20),
        data_page_size=style.limit(300, 1 << 20),
        write_batch_size=style.limit(20, 1024),
        data_page_version=style.choice(["1.0", "2.0"]),
        write_page_index=style.random() < 0.5,
        write_page_checksum=style.random() < 0.3,
        write_statistics=style.random() < 0.9,
        row_group_size=style.limit(100, 1 << 20),
        use_deprecated_int96_timestamps=style.random() < 0.3,
        store_decimal_as_integer=style.random() < 0.5,
        store_schema=style.random() < 0.8,
    )


def _delta(kind: pa.DataType) -> str | None:
    if kind in {pa.int32(), pa.int64()}:
        return "DELTA_BINARY_PACKED"
    return "DELTA_BYTE_ARRAY" if kind in {pa.string(), pa.binary()} else None


def _write_duckdb(path: Path, table: pa.Table, style: Style) -> None:
    codec = style.choice(["uncompressed", "snappy", "snappy", "zstd", "gzip", "lz4_raw"])
    version, limit = style.choice(["V1", "V2"]), style.limit(20, 1_000_000)
    with duck() as db:
        db.register("random_rows", table)
        options = f"format parquet, compression {codec}, parquet_version {version}, dictionary_size_limit {limit}"
        db.execute(f"copy (from random_rows) to '{path}' ({options}, row_group_size {style.limit(2048, 122880)})")
        db.unregister("random_rows")


def _write_polars(path: Path, table: pa.Table, style: Style) -> None:
    pl.from_arrow(table).write_parquet(
        path,
        compression=style.choice(["uncompressed", "snappy", "snappy", "zstd", "gzip", "lz4"]),
        statistics=style.choice([True, True, False, "full"]),
        row_group_size=style.limit(100, None),
        data_page_size=style.limit(300, None),
    )


def _write_parquet_rs(path: Path, table: pa.Table, style: Style) -> None:
    from deltalake import ColumnProperties, WriterProperties, write_deltalake

    columns = ColumnProperties(
        dictionary_enabled=style.random() < 0.7, statistics_enabled=style.choice(["CHUNK", "PAGE"])
    )
    properties = WriterProperties(
        data_page_size_limit=style.limit(300, 1 << 20),
        dictionary_page_size_limit=style.limit(200, 1 << 20),
        data_page_row_count_limit=style.limit(50, 20_000),
        write_batch_size=style.limit(20, 1024),
        max_row_group_size=style.limit(100, 1 << 20),
        compression=style.choice(["UNCOMPRESSED", "SNAPPY", "SNAPPY", "ZSTD", "GZIP", "LZ4_RAW"]),
        default_column_properties=columns,
    )
    with tempfile.TemporaryDirectory() as folder:
        write_deltalake(folder, table, writer_properties=properties)
        written = list(Path(folder).glob("*.parquet"))
        if len(written) == 1:
            shutil.copyfile(written[0], path)
            return
    _write_pyarrow(path, table, style)  # no rows: parquet-rs wrote no file


def _write_fastparquet(path: Path, table: pa.Table, style: Style) -> None:
    import fastparquet
    import pandas as pd

    nullable = {pa.int8(): "Int8", pa.int16(): "Int16", pa.int32(): "Int32", pa.int64(): "Int64", pa.bool_(): "boolean"}
    columns = {
        name: pd.array(column.to_pylist(), dtype=nullable[column.type])
        if column.type in nullable
        else column.to_pandas()
        for name, column in zip(table.column_names, table.columns, strict=True)
    }
    fastparquet.write(
        str(path),
        pd.DataFrame(columns),
        compression=style.choice([None, "SNAPPY", "SNAPPY", "GZIP", "ZSTD"]),
        object_encoding={name: "bytes" if column.type == pa.binary() else "utf8" for name, column in _objects(table)},
        row_group_offsets=style.limit(100, 50_000_000),
        times="int64",  # readers do not agree on its INT96
        stats=True,
        write_index=False,
    )


def _objects(table: pa.Table) -> list[tuple[str, pa.ChunkedArray]]:
    pairs = zip(table.column_names, table.columns, strict=True)
    return [(name, column) for name, column in pairs if column.type in {pa.string(), pa.binary()}]


@dataclass(frozen=True, slots=True)
class Writer:
    """A library that writes Parquet, and the columns that it can write."""

    write: Callable[[Path, pa.Table, Style], None]
    columns: dict[str, tuple[pa.DataType, Callable[[random.Random], Any]]]


WRITERS = {
    "pyarrow": Writer(_write_pyarrow, {**COMMON, **NESTED, **UNSIGNED, **MORE}),
    "duckdb": Writer(_write_duckdb, {**COMMON, **NESTED, **UNSIGNED}),
    "polars": Writer(_write_polars, {**COMMON, **NESTED, **UNSIGNED}),
    "parquet-rs": Writer(_write_parquet_rs, {**COMMON, **NESTED}),
    "fastparquet": Writer(_write_fastparquet, COMMON),
}


def spark_writer(spark: Any) -> Writer:
    """Write as Spark does (parquet-mr), pages of both versions, INT96 and microseconds."""

    def write(path: Path, table: pa.Table, style: Style) -> None:
        options = {
            "compression": style.choice(["none", "snappy", "snappy", "zstd", "gzip"]),
            "parquet.writer.version": style.choice(["v1", "v1", "v2"]),
            "parquet.page.row.count.limit": style.limit(50, 20_000),
            "parquet.page.size.row.check.min": 10,
            "parquet.dictionary.page.size": style.limit(200, 1 << 20),
            "parquet.enable.dictionary": str(style.random() < 0.9).lower(),
            "parquet.bloom.filter.enabled": str(style.random() < 0.2).lower(),
        }
        spark.conf.set("spark.sql.session.timeZone", "UTC")
        spark.conf.set("spark.sql.parquet.outputTimestampType", style.choice(["INT96", "INT96", "TIMESTAMP_MICROS"]))
        with tempfile.TemporaryDirectory() as folder:
            spark.createDataFrame(table).coalesce(1).write.options(**options).parquet(f"{folder}/out")
            (written,) = Path(folder, "out").glob("*.parquet")
            shutil.copyfile(written, path)

    return Writer(write, {**COMMON, **NESTED})


# ---- directories ----


@dataclass(frozen=True, slots=True)
class Filter:
    """A condition on one column: ``=``, ``<``, ``>=``, ``in``, ``null`` or ``not null``."""

    column: str
    op: str
    literals: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Directory:
    """A directory that was written, its rows, and filters for it."""

    writers: tuple[str, ...]
    tables: tuple[pa.Table, ...]
    filters: tuple[Filter, ...]


def write_directory(folder: Path, seed: int, writers: dict[str, Writer]) -> Directory:
    """Write the files of a seed; the same seed and writers give the same files."""
    rng = random.Random(seed)
    names = list(writers)
    main = names[seed % len(names)]  # in turn, so that every writer occurs
    mixed = rng.random() < 0.2
    count = rng.randint(3, 5)
    chosen = [rng.choice(names) if mixed else main for _ in range(count)]
    columns = _choose_columns(rng, [writers[name] for name in chosen])
    style = rng.getrandbits(32)
    is_long = rng.random() < 0.5
    sizes = [0, 1100, 1500, 3000] if is_long else [0, 1, 7, 60, 60, 300, 300, 900]
    tables = []
    for file, name in enumerate(chosen):
        rows = rng.choice(sizes)
        table = _table_of(columns, rng, rows=rows, file=file)
        one_style = style if rng.random() < 0.9 else rng.getrandbits(32)  # as a rule one writer has one set of options
        writers[name].write(folder / f"part-{file:05d}.parquet", table, Style(one_style, long_pages=is_long))
        tables.append(table)
    return Directory(tuple(chosen), tuple(tables), tuple(_choose_filters(rng, columns, tables)))


def _choose_columns(rng: random.Random, writers: list[Writer]) -> list[Column]:
    """Columns that all of the writers can write."""
    known = [name for name in writers[0].columns if all(name in writer.columns for writer in writers)]
    columns = []
    for at, kind in enumerate(rng.choices(known, k=rng.randint(2, 6))):
        null_share = rng.choice([0, 0, 0.1, 0.5, 0.95])
        columns.append(
            Column(
                f"{kind}_{at}",
                *writers[0].columns[kind],
                shape=rng.choice(["constant", "few", "few", "some", "some", "many", "rising", "own"]),
                null_share=null_share,
                required=not null_share and rng.random() < 0.4,
                seed=rng.getrandbits(32),
            )
        )
    return columns


def _table_of(columns: list[Column], rng: random.Random, *, rows: int, file: int) -> pa.Table:
    schema = pa.schema([pa.field(c.name, c.kind, nullable=not c.required) for c in columns])
    arrays = [pa.array(c.values(rng, rows, file), c.kind) for c in columns]
    return pa.table(arrays, schema=schema)


def _choose_filters(rng: random.Random, columns: list[Column], tables: list[pa.Table]) -> list[Filter]:
    """Conditions on every plain column, with values that occur, values beside them, and values beyond the bounds."""
    found = []
    for column in columns:
        found += [Filter(column.name, "null", ()), Filter(column.name, "not null", ())]
        # Bounds leave NaN out, so whether a filter finds it depends on how an engine uses them, not on the rows.
        if pa.types.is_nested(column.kind) or column.name.startswith("nan"):
            continue
        present = [value for table in tables for value in table[column.name].to_pylist() if value is not None]
        if not present:
            continue
        ordered = sorted(present)
        beside = [w for v in (ordered[0], ordered[-1], rng.choice(present)) for w in _beside(v, column.kind)]
        candidates = [ordered[0], ordered[-1], rng.choice(present), *beside]
        for op in ("=", "=", "<", ">="):
            found.append(Filter(column.name, op, (rng.choice(candidates),)))
        found.append(Filter(column.name, "in", (rng.choice(candidates), rng.choice(candidates))))
    return found


def _beside(value: Any, kind: pa.DataType) -> list[Any]:
    """The next values above and below, as far as the type has them."""
    near: list[Any] = []
    match value:
        case bool():
            near = [not value]
        case int():
            near = [value - 1, value + 1]
        case float():
            near = [pa.scalar(value + step, kind).as_py() for step in (-1.0, 1.0)]
        case decimal.Decimal():
            step = decimal.Decimal(1).scaleb(-kind.scale)
            near = [decimal.Context(prec=40).add(value, step), decimal.Context(prec=40).subtract(value, step)]
        case str():
            near = [value + "!", value[:-1]]
        case bytes():
            near = [value + b"\0", value[:-1]] if kind == pa.binary() else []
        case dt.datetime():
            near = [value + dt.timedelta(microseconds=step) for step in (-1, 1)]
        case dt.date():
            near = [value + dt.timedelta(days=step) for step in (-1, 1)]
    return [one for one in near if _fits(one, kind)]


def _fits(value: Any, kind: pa.DataType) -> bool:
    try:
        pa.scalar(value, kind)
    except (pa.ArrowException, OverflowError, ValueError):
        return False
    return True


# ---- readers ----

_connections: list[duckdb.DuckDBPyConnection] = []


@contextlib.contextmanager
def duck():
    """A connection to DuckDB, kept for the next; after an internal error of its own DuckDB wants a new one."""
    db = _connections.pop() if _connections else duckdb.connect()
    try:
        yield db
    except (duckdb.FatalException, duckdb.InternalException):
        db.close()
        raise
    except BaseException:
        _connections.append(db)
        raise
    _connections.append(db)


def read_with_duckdb(path: Path) -> Counter[tuple[Any, ...]]:
    """All rows as text, with the names and types of their columns; text because it has all digits and all years."""
    with duck() as db:
        rows = db.sql(f"select * from read_parquet('{path}')")
        as_text = rows.project(", ".join(f'"{name}"::varchar' for name in quoted(rows.columns)))
        return Counter((*rows.columns, *map(str, rows.types), *row) for row in as_text.fetchall())


def quoted(names: list[str]) -> list[str]:
    """Double the quotes in names."""
    return [name.replace('"', '""') for name in names]


def read_with_polars(path: Path) -> Counter[tuple[Any, ...]]:
    """All rows in their physical form, because Python's dates have no nanoseconds; but codes of categories are none."""
    frame = pl.read_parquet(path, glob=False, hive_partitioning=False)
    heads = (*frame.columns, *map(str, frame.dtypes))
    has_codes = any("Categorical" in str(kind) for kind in frame.dtypes)
    rows = frame if has_codes else frame.with_columns(pl.all().to_physical())
    return Counter((*heads, *map(repr, row)) for row in rows.rows())


def read_with_pyarrow(path: Path) -> Counter[tuple[Any, ...]]:
    """All rows with the names and types of their columns."""
    table = pq.ParquetFile(path).read()
    heads = (*table.column_names, *map(str, table.schema.types))
    plain = [
        column.cast(pa.int64()) if pa.types.is_timestamp(column.type) or pa.types.is_time64(column.type) else column
        for column in table.columns
    ]
    return Counter((*heads, *map(repr, row)) for row in zip(*(column.to_pylist() for column in plain), strict=True))


def read_all(folder: Path, read: Callable[[Path], Counter[tuple[Any, ...]]]) -> Counter[tuple[Any, ...]] | str:
    """The rows of all visible files, or why an engine cannot read them."""
    found: Counter[tuple[Any, ...]] = Counter()
    for path in sorted(folder.iterdir()):
        try:
            found += read(path)
        except CANNOT as error:
            return f"{read.__name__}: {type(error).__name__}"
    return found


def count_with_pyarrow(folder: Path, one: Filter) -> int:
    """Count file by file, with row groups skipped by their statistics."""
    total = 0
    for path in sorted(folder.iterdir()):
        data = ds.dataset(path, format="parquet")
        kind, field = data.schema.field(one.column).type, pc.field(one.column)
        scalars = [pa.scalar(value, kind) for value in one.literals]
        match one.op:
            case "null":
                condition = field.is_null()
            case "not null":
                condition = ~field.is_null()
            case "=":
                condition = field == scalars[0]
            case "<":
                condition = field < scalars[0]
            case ">=":
                condition = field >= scalars[0]
            case _:
                condition = field.isin(pa.array(list(one.literals), kind))
        total += data.count_rows(filter=condition)
    return total


def count_with_duckdb(folder: Path, one: Filter) -> int:
    """Count all files in one query, with row groups skipped by statistics and bloom filters.

    DuckDB 2.0 finds every row by IS NULL in a plain column of bytes that has nulls and equal bounds, also in files of
    PyArrow; there, what is not null is counted instead.
    """
    name = f'"{one.column}"'
    if one.op == "null" and one.column.startswith(("string", "large", "binary", "fixed")):
        return count_with_duckdb(folder, Filter(one.column, "in all", ())) - count_with_duckdb(
            folder, Filter(one.column, "not null", ())
        )
    where = {
        "null": f"{name} is null",
        "not null": f"{name} is not null",
        "in": f"{name} in (?, ?)",
        "in all": "true",
    }.get(one.op, f"{name} {one.op} ?")
    with duck() as db:
        query = f"select count(*) from read_parquet({list(map(str, sorted(folder.iterdir())))}) where {where}"
        ((count,),) = db.execute(query, list(one.literals)).fetchall()
    return count


def count_with_polars(folder: Path, one: Filter) -> int:
    """Count all files in one lazy scan, with row groups and pages skipped."""
    frame = pl.scan_parquet(sorted(folder.iterdir()), glob=False, hive_partitioning=False)
    column = pl.col(one.column)
    match one.op:
        case "null":
            condition = column.is_null()
        case "not null":
            condition = column.is_not_null()
        case "=":
            condition = column == one.literals[0]
        case "<":
            condition = column < one.literals[0]
        case ">=":
            condition = column >= one.literals[0]
        case _:
            condition = (column == one.literals[0]) | (column == one.literals[1])
    return frame.filter(condition).select(pl.len()).collect().item()


def spark_reader(spark: Any) -> tuple[Callable[[Path], Any], Callable[[Path, Filter], int]]:
    """Spark's vectorized reader: all rows as text, and counts by filters that it pushes down."""
    from pyspark.sql import functions as fn

    def read(folder: Path) -> Counter[tuple[Any, ...]]:
        frame = spark.read.parquet(*map(str, sorted(folder.iterdir())))
        text = [fn.hex(frame[name]) if kind == "binary" else frame[name].cast("string") for name, kind in frame.dtypes]
        return Counter((*map(str, frame.dtypes), *row) for row in frame.select(*text).collect())

    def count(folder: Path, one: Filter) -> int:
        column = fn.col(one.column)
        # Spark reads uint64 as decimal(20, 0), and takes no greater number than a long.
        literals = [
            fn.lit(decimal.Decimal(value) if isinstance(value, int) and value.bit_length() > LONG_BITS else value)
            for value in one.literals
        ]
        conditions = {
            "null": column.isNull,
            "not null": column.isNotNull,
            "=": lambda: column == literals[0],
            "<": lambda: column < literals[0],
            ">=": lambda: column >= literals[0],
            "in": lambda: column.isin(literals),
        }
        return spark.read.parquet(*map(str, sorted(folder.iterdir()))).where(conditions[one.op]()).count()

    return read, count


ROWS = {"pyarrow": read_with_pyarrow, "duckdb": read_with_duckdb, "polars": read_with_polars}
COUNTS = {"pyarrow": count_with_pyarrow, "duckdb": count_with_duckdb, "polars": count_with_polars}


@dataclass(frozen=True, slots=True)
class Seen:
    """What readers find in a directory: all rows, and for each filter how many; a text where one cannot tell."""

    rows: dict[str, Counter[tuple[Any, ...]] | str]
    counts: dict[tuple[str, Filter], int | str]

    def check_agreement(self, directory: Directory) -> None:
        """All readers find all rows, and the same number by every filter.

        Not by filters on floats: whether -0.0 is in a list of 0.0 is up to an engine.
        """
        wanted = sum(table.num_rows for table in directory.tables)
        totals = {name: rows.total() for name, rows in self.rows.items() if not isinstance(rows, str)}
        assert set(totals.values()) == {wanted}, (totals, wanted)
        for one in directory.filters:
            if one.column.startswith("float"):
                continue
            found = {name: n for (name, asked), n in self.counts.items() if asked == one and not isinstance(n, str)}
            assert len(set(found.values())) <= 1, (one, found)

    def check_same(self, before: Seen) -> None:
        """Every reader finds what it found before; one that could not read the originals may do as it likes."""
        for name, rows in before.rows.items():
            assert isinstance(rows, str) or self.rows[name] == rows, name
        for (name, one), count in before.counts.items():
            assert isinstance(count, str) or self.counts[name, one] == count, (name, one)


def look(folder: Path, directory: Directory) -> Seen:
    """Read a directory with PyArrow, DuckDB and Polars, each file by itself, and count by every filter."""
    rows = {name: read_all(folder, read) for name, read in ROWS.items()}
    return Seen(
        rows,
        {
            (name, one): count_or_why_not(count, folder, one)
            for name, count in COUNTS.items()
            if not isinstance(rows[name], str)
            for one in directory.filters
        },
    )


def count_or_why_not(count: Callable[[Path, Filter], int], folder: Path, one: Filter) -> int | str:
    """How many rows match, or why an engine cannot tell."""
    try:
        return count(folder, one)
    except CANNOT as error:
        return f"{type(error).__name__}"
