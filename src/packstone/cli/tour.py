"""The guided tour, and the lake it works on."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv
import pyarrow.parquet as pq

from packstone.cli.draw import draw_maps
from packstone.cli.output import make_console, short_path
from packstone.errors import InvalidInputError
from packstone.history.store import open_history
from packstone.model.sizes import format_duration
from packstone.pipeline.table import Table
from packstone.spark.engine import SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.runs.engine import Engine
    from packstone.tables.hive.health import HiveHealth
    from packstone.tables.hive.table import HiveTable


_PAUSE_SECONDS = 0.8  # before each step on a terminal: time to read the previous one
_WIDTH = 100
_EXIT_PARTIAL = 1
_SEGMENTS = "sales"
_SEGMENTS_SCHEMA = (
    "order_id long, placed_at timestamp, country string, state string, amount decimal(10,2), items array<int>"
)
_SEGMENTS_DAYS = tuple(f"dt=2024-05-0{day}" for day in (2, 3, 4, 5))


def run_tour(
    folder: str | None,
    engine_factory: Callable[[], Engine],
    *,
    engine_words: tuple[str, ...] = (),
    lake_only: bool = False,
) -> int:
    """Run the whole tour; remove the lake at the end unless a folder is given."""
    began = time.perf_counter()
    made = Path(tempfile.mkdtemp(prefix="packstone-demo-")) if folder is None else Path(folder).absolute()
    console = make_console()
    console.width = min(console.width, _WIDTH)
    try:
        lake = make_lake(made)
        if lake_only:
            console.print(f"made {short_path(str(lake.table))}", markup=False, soft_wrap=True)
            return 0
        with _own_history(made), _working_in(made):
            Tour(console, lake, engine_words).walk(engine_factory)
        _say_goodbye(console, began, kept=folder is not None, folder=made)
    finally:
        if folder is None:
            shutil.rmtree(made, ignore_errors=True)
    return 0


class Tour:
    """The steps, in order; ``walk`` is the table of contents."""

    def __init__(self, console: Any, lake: DemoLake, engine_words: tuple[str, ...]) -> None:
        self._console = console
        self._lake = lake
        self._engine_words = engine_words
        self._step = 0

    def walk(self, engine_factory: Callable[[], Engine]) -> None:
        """Inspect, plan, merge, verify, compare, undo, try a segment table, show the history."""
        self._welcome()
        before = self._inspect()
        self._plan()
        with self._engine(engine_factory):
            run = self._merge()
            self._verify(run)
            second = self._merge_the_rest()
        self._compare(before)
        self._undo(second)
        self._try_segments()
        self._show_history()

    def _welcome(self) -> None:
        self._console.rule("[bold]packstone demo[/]", style="cyan")
        self._say(
            f"A small lake was created in {self._lake.folder}. It has one table, [bold]{TABLE}[/], with a folder for "
            "each day, and it has the usual problems. The runs are recorded there too, not in your own history."
        )

    def _inspect(self) -> HiveHealth:
        self._head("What is wrong with it?")
        self._type("health", TABLE)
        self._say(
            f"Hundreds of tiny files where a few would do. [bold]{TEXT_PARTITION}[/] holds CSV with header lines, a "
            f"file of [bold]{BROKEN_PARTITION}[/] is truncated, and a job is writing to [bold]{BUSY_PARTITION}[/]."
        )
        return self._health()

    def _plan(self) -> None:
        self._head("What would be done, and why?")
        self._type("plan", TABLE, "--header", "1")
        self._say("Nothing was written. Every partition has its reason, including those that are skipped.")

    def _merge(self) -> str:
        self._head("Merge it")
        code = self._type("compact", TABLE, "--header", "1", *self._engine_words)
        if code == _EXIT_PARTIAL:
            self._say(
                "[bold]partial[/], exit code 1: all that could be merged is merged, and the broken file is named, not "
                "hidden. Every row was read twice, before and after, and the two fingerprints agree."
            )
        return self._last_run()

    def _compare(self, before: HiveHealth) -> None:
        self._head("Before and after")
        draw_maps(self._console, before, self._health())
        self._say("The originals still exist: they are kept beside the table for 7 days (--keep-days).")

    def _health(self) -> HiveHealth:
        table: HiveTable = Table(str(self._lake.table)).open()  # type: ignore[assignment] # the lake's family is known
        return table.health()

    def _verify(self, run: str) -> None:
        self._head("Verify it again, from the files on disk")
        self._type("verify", run, TABLE, *self._engine_words)

    def _merge_the_rest(self) -> str:
        self._head("The writing job is done; merge the rest")
        self._lake.finish_the_writer()
        self._type("compact", TABLE, "--header", "1", *self._engine_words)
        self._say("Only the partition that was busy is merged. What is merged already is not merged again.")
        return self._last_run()

    def _undo(self, run: str) -> None:
        self._head("Somebody complains: undo that run")
        self._type("restore", run, TABLE, "--yes")
        self._say("That one run only. The first one stays merged.")

    def _try_segments(self) -> None:
        self._head("Another kind of table: every load is a segment")
        self._type("segments", "create", _SEGMENTS, "--schema", _SEGMENTS_SCHEMA, "--sort-by", "country")
        for day in _SEGMENTS_DAYS:
            self._type("segments", "load", _SEGMENTS, f"{TABLE}/{day}")
        self._type("compact", _SEGMENTS)
        self._type("segments", "show", _SEGMENTS)
        self._say(
            "Four loads were four segments; they are one now, sorted by country. Each version is a table of its own: "
            "[bold]--version[/] and [bold]--as-of[/] read an earlier one."
        )

    def _show_history(self) -> None:
        self._head("What happened here?")
        self._type("history")

    def _head(self, title: str) -> None:
        self._step += 1
        self._console.print()
        if self._console.is_terminal:
            time.sleep(_PAUSE_SECONDS)
        self._console.rule(f"[bold cyan]{self._step}[/]  [bold]{title}[/]", align="left", style="dim")

    def _say(self, sentence: str) -> None:
        self._console.print(sentence, style="italic" if self._console.is_terminal else None)

    def _type(self, *words: str) -> int:
        """Print a command as a user would type it, and run it."""
        from packstone.cli.main import cli

        self._console.print(f"[dim]$[/] [bold]packstone {shlex.join(words)}[/]")
        sys.stdout.flush()
        code = cli.main(list(words), prog_name="packstone", standalone_mode=False)
        return code if isinstance(code, int) else 0

    def _last_run(self) -> str:
        with open_history(os.environ["PACKSTONE_HISTORY"]) as history:
            return history.list_runs(limit=1)[0].run

    @contextlib.contextmanager
    def _engine(self, engine_factory: Callable[[], Engine]) -> Iterator[None]:
        """Start Spark once; the commands use the session and leave it running."""
        with self._console.status("starting Spark …"):
            began = time.perf_counter()
            engine = engine_factory()
            seconds = time.perf_counter() - began
        if isinstance(engine, SparkEngine):
            self._console.print(f"\nSpark started in {format_duration(seconds)}.", style="dim")
        try:
            yield
        finally:
            engine.close()


def _say_goodbye(console: Any, began: float, *, kept: bool, folder: Path) -> None:
    console.print()
    took = format_duration(time.perf_counter() - began)
    console.rule(f"[bold]the end[/], after {took}", style="cyan")
    console.print(f"The lake stays in {folder}." if kept else "The lake was removed.")
    console.print("Now try your own table; nothing is written:  [bold]packstone health[/] PATH/OF/A/TABLE")


@contextlib.contextmanager
def _own_history(folder: Path) -> Iterator[None]:
    """Record runs in the lake's own database, whatever PACKSTONE_HISTORY is."""
    before = os.environ.get("PACKSTONE_HISTORY")
    os.environ["PACKSTONE_HISTORY"] = f"sqlite:///{folder}/history.db"
    try:
        yield
    finally:
        if before is None:
            del os.environ["PACKSTONE_HISTORY"]
        else:
            os.environ["PACKSTONE_HISTORY"] = before


@contextlib.contextmanager
def _working_in(folder: Path) -> Iterator[None]:
    """Change the working folder to the lake, so that paths are short."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# ---- the lake ----

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
_MIN_ROWS, _MAX_ROWS = 150, 450  # about 5 to 15 KB a file: what a streaming job writes in a minute
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
        """Remove `_temporary` from the busy partition, as its job does when it finishes."""
        rmtree(self.table / BUSY_PARTITION / "_temporary")


def make_lake(folder: Path) -> DemoLake:
    """Write the lake into a new or empty folder; takes about a second."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidInputError(f"{folder} is not empty; give a new folder for the lake.")
    lake = DemoLake(folder=folder)
    rows = _Rows()
    _write_text(lake.table / TEXT_PARTITION, rows)
    for partition, files in _PARQUET_FILES:
        _write_parquet(lake.table / partition, files, rows)
    _cut_off(lake.table / BROKEN_PARTITION)
    _start_a_writer(lake.table / BUSY_PARTITION)
    return lake


class _Rows:
    """Generates orders, one file at a time, from a fixed seed."""

    def __init__(self) -> None:
        self._random = np.random.default_rng(_SEED)
        self._next_id = 1

    def generate(self, partition: str) -> pa.Table:
        """Generate the orders of one file."""
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
            self._generate_lists(count),
        )
        return pa.table([column.cast(field.type) for column, field in zip(columns, _SCHEMA, strict=True)], _SCHEMA)

    def _generate_lists(self, count: int) -> pa.Array:
        """Generate the items of each order: one to four item numbers."""
        ends = np.cumsum(self._random.integers(1, 5, count))
        offsets = pa.array(np.concatenate(([0], ends)), pa.int32())
        return pa.ListArray.from_arrays(offsets, pa.array(self._random.integers(1, 5_000, int(ends[-1])), pa.int32()))


def _write_parquet(folder: Path, files: int, rows: _Rows) -> None:
    folder.mkdir(parents=True)
    for number in range(files):
        name = f"part-{number:05d}-c000.snappy.parquet"
        pq.write_table(rows.generate(folder.name), folder / name, compression="snappy")


def _write_text(folder: Path, rows: _Rows) -> None:
    folder.mkdir(parents=True)
    options = pyarrow.csv.WriteOptions(quoting_style="none", quoting_header="none")
    for number in range(_TEXT_FILES):
        orders = rows.generate(folder.name).drop_columns(["items"])
        pyarrow.csv.write_csv(orders, folder / f"part-{number:05d}.csv", options)


def _cut_off(folder: Path) -> None:
    """Remove the second half of a file, as a full disk or a killed copy does."""
    victim = sorted(folder.iterdir())[7]
    content = victim.read_bytes()
    victim.write_bytes(content[: len(content) // 2])


def _start_a_writer(folder: Path) -> None:
    """Create the folders of a Spark job that is running."""
    attempt = folder / "_temporary" / "0" / "_temporary" / "attempt_202405091200_0007_m_000000_0"
    attempt.mkdir(parents=True)
    (attempt / "part-00030-c000.snappy.parquet").write_bytes(b"PAR1")
