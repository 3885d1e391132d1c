"""One table with every kind of value and filters of every kind, for all surfaces of a scan."""

import datetime as dt
import math
from decimal import Decimal

import pyarrow as pa

import packstone

SCHEMA = (
    "id long not null, small short, name string, price decimal(9,2), ratio double, single float, day date, "
    "moment timestamp, wall timestamp_ntz, ok boolean, raw binary, tags array<string>"
)
ARROW = pa.schema([
    pa.field("id", pa.int64(), nullable=False), ("small", pa.int16()), ("name", pa.string()),
    ("price", pa.decimal128(9, 2)), ("ratio", pa.float64()), ("single", pa.float32()), ("day", pa.date32()),
    ("moment", pa.timestamp("us", "UTC")), ("wall", pa.timestamp("us")), ("ok", pa.bool_()), ("raw", pa.binary()),
    ("tags", pa.list_(pa.field("element", pa.string()))),
])  # fmt: skip
ROWS = 3000
START = dt.datetime(2024, 3, 30, tzinfo=dt.UTC)  # the clocks of Berlin go forward a day later

# As Spark writes it, and as DuckDB does where that differs.
FILTERS = {
    "id = 1234": None,
    "1234 = id": None,
    "id <> 7 AND id < 12": None,
    "id BETWEEN 995 AND 1004": None,
    "id NOT BETWEEN 3 AND 2997": None,
    "id IN (0, 17, 1999, 5000)": None,
    "id NOT IN (1, 2) AND id <= 3": None,
    "id = 3.5": None,
    "id < 3.5": None,
    "small = 300": None,
    "small IS NULL": None,
    "small IS NOT NULL AND id < 40": None,
    "small <=> NULL AND id < 40": "small IS NOT DISTINCT FROM NULL AND id < 40",
    "NOT (small > 3)": None,
    "name = 'n3'": None,
    "name LIKE 'n1%' AND id < 500": None,
    "startswith(name, 'n20')": "starts_with(name, 'n20')",
    "name >= 'n8' OR name IS NULL": None,
    "price > 12.345": None,
    "price = 10.50": None,
    "ratio = 'NaN'": "ratio = 'NaN'::double",
    "ratio > 740": None,
    "ratio <= 0": None,
    "single = 0.5": None,
    "day = DATE '2024-03-31'": None,
    "day < DATE '2024-03-31' AND small = 1": None,
    "moment >= TIMESTAMP '2024-04-01 00:00:00Z' AND moment < TIMESTAMP '2024-04-01 00:30:00Z'": (
        "moment >= TIMESTAMPTZ '2024-04-01 00:00:00Z' AND moment < TIMESTAMPTZ '2024-04-01 00:30:00Z'"
    ),
    "wall = TIMESTAMP_NTZ '2024-03-31 02:30:00'": "wall = TIMESTAMP '2024-03-31 02:30:00'",
    "ok AND id < 20": None,
    "NOT ok OR id = 1": None,
    "raw = X'0007'": "raw = '\\x00\\x07'::blob",
    "TRUE": None,
    "FALSE": None,
    "id = NULL": None,
    "id < 1 AND id > 2": None,
    "id < 5 OR (name = 'n5' AND price < 1)": None,
}


def rows(first, count):
    """Rows by number; every seventh has nulls, every eleventh NaN."""
    numbers = range(first, first + count)
    minutes = [dt.timedelta(minutes=number) for number in numbers]
    columns = {
        "id": list(numbers),
        "small": [None if n % 7 == 0 else n % 5 for n in numbers],
        "name": [None if n % 7 == 1 else f"n{n // 10}" for n in numbers],
        "price": [None if n % 7 == 2 else Decimal(n) / 100 for n in numbers],
        "ratio": [None if n % 7 == 3 else math.nan if n % 11 == 0 else (n - 20) / 4 for n in numbers],
        "single": [None if n % 7 == 4 else (n % 9) / 8 for n in numbers],
        "day": [(START + minute).date() for minute in minutes],
        "moment": [START + minute for minute in minutes],
        "wall": [(START + minute).replace(tzinfo=None) for minute in minutes],
        "ok": [None if n % 7 == 5 else n % 2 == 0 for n in numbers],
        "raw": [bytes([n >> 8, n & 255]) for n in numbers],
        "tags": [None if n % 7 == 6 else [f"t{n}", None][: n % 3] for n in numbers],
    }
    return pa.table(columns, schema=ARROW)


def make_table(path):
    """Three loads of small row groups, the middle one out of order."""
    properties = {"TABLE_BLOCKLET_ROWS": "1000"}
    table = packstone.create(str(path), SCHEMA, sort_by=["id"], properties=properties)
    third = ROWS // 3
    table.segments.load(rows(0, third))
    table.segments.load(rows(third, third).take(pa.array(range(third - 1, -1, -1))), sort_scope="none")
    table.segments.load(rows(2 * third, ROWS - 2 * third))
    return table


def plain(found):
    """Rows of any reader in one form that can be compared: by id, NaN as text, moments in UTC."""
    return sorted((tuple(map(_plain, row)) for row in found), key=repr)


def _plain(value):
    match value:
        case float() if math.isnan(value):
            return "NaN"
        case dt.datetime():
            return (value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)).isoformat()
        case bytearray() | bytes() | memoryview():
            return bytes(value).hex()
        case list():
            return tuple(map(_plain, value))
        case _:
            return value


def arrow_rows(table):
    """Rows of an Arrow table as tuples."""
    return list(zip(*(column.to_pylist() for column in table.columns), strict=True)) if table.num_columns else []


def load_duck(connection, paths):
    """Take Parquet files into DuckDB's own table: its reader of Parquet leaves out row groups in which NaN matches."""
    connection.execute("SET TimeZone = 'UTC'")
    connection.execute("CREATE OR REPLACE TABLE t AS SELECT * FROM read_parquet(?)", [list(paths)])
    return connection


def duck_rows(connection, where, columns="*"):
    """Rows by DuckDB."""
    return connection.execute(f"SELECT {columns} FROM t WHERE {where}").fetchall()
