"""``packstone demo``: the commands a newcomer needs, run one after the other on a lake made for the purpose.

What is shown as typed is what runs: each step hands its words to the command line itself. The tour adds only the
sentences between them, and a picture of the table before and after.
"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from packstone.cli.draw import draw_maps
from packstone.cli.output import make_console, short_path
from packstone.history.store import open_history
from packstone.model.sizes import format_duration
from packstone.service.demo_lake import BROKEN_PARTITION, BUSY_PARTITION, TABLE, TEXT_PARTITION, DemoLake, make_lake
from packstone.service.hive_table import HiveTable
from packstone.spark.engine import SparkEngine

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from packstone.runs.engine import Engine
    from packstone.service.health import Health

_PAUSE_SECONDS = 0.8  # on a terminal, before each step: time to read the last one
_WIDTH = 100
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"  # starts sooner; the lake is too small to miss the rest
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
    """Walk through the whole tour; the lake is removed at the end unless a folder was named."""
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

    def __init__(self, console: Any, lake: DemoLake, engine_words: tuple[str, ...]) -> None:  # noqa: ANN401 - rich's
        self._console = console
        self._lake = lake
        self._engine_words = engine_words
        self._step = 0

    def walk(self, engine_factory: Callable[[], Engine]) -> None:
        """Ill, planned, merged, proved, well, undone, in segments, remembered."""
        self._welcome()
        before = self._see_it_ill()
        self._plan()
        with self._engine(engine_factory):
            run = self._merge()
            self._prove(run)
            second = self._merge_the_rest()
        self._see_it_well(before)
        self._undo(second)
        self._try_segments()
        self._remember()

    def _welcome(self) -> None:
        self._console.rule("[bold]packstone demo[/]", style="cyan")
        self._say(
            f"A small lake was made in {self._lake.folder}. It has one table, [bold]{TABLE}[/], with a folder for each "
            "day, and it is ill in the usual ways. The runs are recorded there too, not in your own history."
        )

    def _see_it_ill(self) -> Health:
        self._head("How ill is it?")
        self._type("health", TABLE)
        self._say(
            f"Hundreds of tiny files where a few would do. [bold]{TEXT_PARTITION}[/] holds CSV with header lines, a "
            f"file of [bold]{BROKEN_PARTITION}[/] is cut off, and a job is writing to [bold]{BUSY_PARTITION}[/]."
        )
        return HiveTable(str(self._lake.table)).health()

    def _plan(self) -> None:
        self._head("What would be done, and why?")
        self._type("plan", TABLE, "--header", "1")
        self._say("Nothing was written. Every partition has its reason, also those that are left alone.")

    def _merge(self) -> str:
        self._head("Merge it")
        code = self._type("compact", TABLE, "--header", "1", *self._engine_words)
        if code == _EXIT_PARTIAL:
            self._say(
                "[bold]partial[/], exit code 1: all that could be merged is merged, and the broken file is named, not "
                "hidden. Every row was read twice, before and after, and the two fingerprints agree."
            )
        return self._last_run()

    def _see_it_well(self, before: Health) -> None:
        self._head("Before and after")
        draw_maps(self._console, before, HiveTable(str(self._lake.table)).health())
        self._say("The originals are not gone: they are kept beside the table for 7 days (--keep-days).")

    def _prove(self, run: str) -> None:
        self._head("Prove it again, from the files on disk")
        self._type("verify", run, TABLE, *self._engine_words)

    def _merge_the_rest(self) -> str:
        self._head("The writing job is done; merge the rest")
        self._lake.finish_the_writer()
        self._type("compact", TABLE, "--header", "1", *self._engine_words)
        self._say("Only the partition that was busy is taken. What is merged already is not merged again.")
        return self._last_run()

    def _undo(self, run: str) -> None:
        self._head("Somebody complains: undo that run")
        self._type("restore", run, TABLE, "--yes")
        self._say("That one run only. The first one stays merged.")

    def _try_segments(self) -> None:
        self._head("Another kind of table: every load is a segment")
        self._type("segments", "create", _SEGMENTS, "--schema", _SEGMENTS_SCHEMA, "--sort-by", "country")
        for day in _SEGMENTS_DAYS:
            self._type("segments", "load", _SEGMENTS, f"{TABLE}/{day}", "--engine", "inline")
        self._type("compact", _SEGMENTS, "--engine", "inline")
        self._type("segments", "show", _SEGMENTS)
        self._say(
            "Four loads were four segments; they are one now, sorted by country. Each version is a table of its own: "
            "[bold]--version[/] and [bold]--as-of[/] read an earlier one."
        )

    def _remember(self) -> None:
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
        """Show a command as one would type it, and run it."""
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
        """Start Spark once: the commands find the session and leave it running."""
        os.environ.setdefault("PACKSTONE_JVM_OPTIONS", _QUICK_JVM)
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


def _say_goodbye(console: Any, began: float, *, kept: bool, folder: Path) -> None:  # noqa: ANN401 - a rich console
    console.print()
    took = format_duration(time.perf_counter() - began)
    console.rule(f"[bold]the end[/], after {took}", style="cyan")
    console.print(f"The lake stays in {folder}." if kept else "The lake is removed again.")
    console.print("Now yours, and nothing is written:  [bold]packstone health[/] PATH/OF/A/TABLE")


@contextlib.contextmanager
def _own_history(folder: Path) -> Iterator[None]:
    """Record into the lake's own database, whatever the user has set."""
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
    """Stand in the lake, so that paths are as short as one would type them."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
