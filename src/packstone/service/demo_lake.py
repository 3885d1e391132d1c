"""A small lake that is ill in the usual ways: for the guided tour, the documentation and one's own experiments.

One table, ``orders``, as a streaming job and a tired night shift leave it. The same rows every time, so that what
the documentation shows is what everybody sees::

    orders/dt=2024-05-01   40 CSV files, each with its header line
    orders/dt=2024-05-02   64 Parquet files     (and so on, five days in all)
    orders/dt=2024-05-07   24 Parquet files, one of them cut off in the middle
    orders/dt=2024-05-08    3 Parquet files: too few to bother
    orders/dt=2024-05-09   30 Parquet files and a `_temporary`: a job is writing
"""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from shutil import rmtree

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from packstone.errors import InvalidInputError

TABLE = "orders"
TEXT_PARTITION = "dt=2024-05-01"
BROKEN_PARTITION = "dt=2024-05-07"
BUSY_PARTITION = "dt=2024-05-09"
_PARQUET_FILES = (
    *((f"dt=2024-05-{day:02d}", files) for day, files in ((2, 64), (3, 58), (4, 71), (5, 49), (6, 66))),
    (BROKEN_PARTITION, 24),
    ("dt=2024-05-08", 3),
    (BUSY_PARTITION, 30),
)
_TEXT_FILES = 40
_SEED = 20240501
_MIN_ROWS, _MAX_ROWS = 150, 450  # some 5 to 15 KB a file: what a streaming job writes in a minute
_COUNTRIES = ("AT", "BR", "CN", "DE", "FR", "IN", "JP", "KE", "PL", "US")
_STATES = ("paid", "packed", "sent", "returned")
_SCHEMA = pa.schema(
    [
        pa.field("order_id", pa.int64(), nullable=False),
        pa.field("placed_at", pa.timestamp("us", tz="UTC")),
        pa.field("country", pa.string()),
        pa.field("state", pa.string()),
        pa.field("amount", pa.decimal128(10, 2)),
        pa.field("items", pa.list_(pa.int32())),
    ]
)


@dataclass(frozen=True, slots=True, kw_only=True)
class DemoLake:
    """The lake's folder and its table."""

    folder: Path

    @property
    def table(self) -> Path:
        """The folder of the only table."""
        return self.folder / TABLE

    def finish_the_writer(self) -> None:
        """What the job of the busy partition does when it is done: its `_temporary` goes."""
        rmtree(self.table / BUSY_PARTITION / "_temporary")


def make_lake(folder: Path) -> DemoLake:
    """Write the lake into a new or empty folder; takes about a second."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} is not empty; name a new folder for the lake.")
    lake = DemoLake(folder=folder)
    rows = _Rows()
    _write_text(lake.table / TEXT_PARTITION, rows)
    for partition, files in _PARQUET_FILES:
        _write_parquet(lake.table / partition, files, rows)
    _cut_off(lake.table / BROKEN_PARTITION)
    _start_a_writer(lake.table / BUSY_PARTITION)
    return lake


class _Rows:
    """Draws orders, one file's worth at a time, the same ones in every lake."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(_SEED)
        self._next_id = 1

    def draw(self, partition: str) -> pa.Table:
        """Draw the orders of one file."""
        count = int(self._random.integers(_MIN_ROWS, _MAX_ROWS))
        day = np.datetime64(partition.removeprefix("dt="), "us")
        first, self._next_id = self._next_id, self._next_id + count
        cents = pa.array(self._random.integers(99, 99_999, count)).cast(pa.decimal128(19, 0))
        columns = (
            pa.array(range(first, first + count)),
            pa.array(day + np.sort(self._random.integers(0, 86_400, count)).astype("timedelta64[s]")),
            pa.array(_COUNTRIES).take(pa.array(self._random.integers(0, len(_COUNTRIES), count))),
            pa.array(_STATES).take(pa.array(self._random.integers(0, len(_STATES), count))),
            pc.multiply(cents, Decimal("0.01")),
            self._draw_lists(count),
        )
        return pa.table([column.cast(field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)

    def _draw_lists(self, count: int) -> pa.Array:
        """Draw what was ordered: one to four item numbers each."""
        ends = np.cumsum(self._random.integers(1, 5, count))
        offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(self._random.integers(1, 5_000, int(ends[-1])), pa.int32()))


def _write_parquet(folder: Path, files: int, rows: _Rows) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        pq.write_table(rows.draw(folder.name), folder / f"part-{number:05d}-c000.snappy.parquet", compression="snappy")


def _write_text(folder: Path, rows: _Rows) -> None:
    folder.mkdir(parents=True)
    options = pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none")
    for number in range(_TEXT_FILES):
        orders = rows.draw(folder.name).drop_columns(["items"])
        pyarrow.csv.write_csv(orders, folder / f"part-{number:05d}.csv", options)


def _cut_off(folder: Path) -> None:
    """Lose the second half of a file, as a full disk or a killed copy does."""
    victim = sorted(folder.iterdir())[7]
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])


def _start_a_writer(folder: Path) -> None:
    """Leave the traces of a Spark job in the middle of its work."""
    attempt = folder / "_temporary" / "0" / "_temporary" / "attempt_202405091200_0007_m_000000_0"
    attempt.mkdir(parents=True)
    (attempt / "part-00030-c000.snappy.parquet").write_bytes(b"PAR1")
