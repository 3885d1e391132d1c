"""Draw the picture of the Grafana dashboard in the documentation, from the dashboard's own queries.

Run as: .venv/bin/python scripts/make_dashboard_picture.py [COPY.png]     (writes docs/img/dashboard.svg; a minute)

A MariaDB is started as for the tests, real runs on small tables are recorded in it, and their times are moved so that
they are a day apart. Then every panel's query is run as Grafana runs it and drawn at its place in the dashboard.
Matplotlib draws it; it is not a screenshot of Grafana.
"""

import os
import random
import shutil
import subprocess
import sys
import tempfile
from datetime import UTC, datetime, timedelta
from pathlib import Path

import matplotlib as mpl
import pyarrow as pa
import pyarrow.parquet as pq
from matplotlib import pyplot as plt
from matplotlib.ticker import MaxNLocator
from sqlalchemy import create_engine, text

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
PACKSTONE = Path(sys.executable).with_name("packstone")
DAYS = 14
ROWS_A_FILE = 1_000
ROWS = 35  # of the dashboard's grid
TODAY = datetime(2026, 3, 15, tzinfo=UTC)
GROUND, PANEL, TEXT, QUIET = "#10161e", "#1a222d", "#d6dee6", "#8b98a5"
COLOURS = ("#ecc469", "#7dd091", "#6eaaf0", "#f07178", "#c896e6")
mpl.rcParams |= {"svg.hashsalt": "packstone", "font.family": "DejaVu Sans", "svg.fonttype": "none"}


def main() -> int:
    """Record runs, query, draw."""
    from database_servers import start_mariadb
    from grafana_queries import expand, read_dashboard, run_query

    folder = Path(tempfile.mkdtemp(prefix="packstone-picture-"))
    server = start_mariadb(folder)
    try:
        url = server.fresh()
        record_runs(folder / "lake", url)
        spread_over_days(url)
        engine = create_engine(url)
        figure = plt.figure(figsize=(14, 13.8), facecolor=GROUND)
        with engine.connect() as connection:
            connection.execute(text("SET time_zone = '+00:00'"))
            for panel in read_dashboard()["panels"]:
                sql = panel["targets"][0]["rawSql"]
                sql = expand(sql, "mariadb", since=TODAY - timedelta(days=DAYS), until=TODAY + timedelta(days=1))
                draw(figure, panel, run_query(connection, sql))
        engine.dispose()
        figure.savefig(ROOT / "docs/img/dashboard.svg", facecolor=GROUND, metadata={"Date": None})
        for copy in sys.argv[1:]:
            figure.savefig(copy, facecolor=GROUND, dpi=80)
        print("docs/img/dashboard.svg")
    finally:
        server.stop()
        shutil.rmtree(folder, ignore_errors=True)
    return 0


def record_runs(lake: Path, url: str) -> None:
    """Merge new files in three tables, day by day; some are broken, being written, or over the budget."""
    draw_size = random.Random(8)  # noqa: S311 - the size of a lake need not be secret
    environment = os.environ | {
        "PACKSTONE_HISTORY": url,
        "PACKSTONE_UNRECORDED": str(lake / "unrecorded"),
        "PACKSTONE_ENGINE": "inline",
    }
    for day in range(DAYS):
        for name, most in (("orders", 60), ("clicks", 90), ("returns", 25)):
            partition = lake / name / f"dt=2026-03-{day + 1:02d}"
            write_files(partition, draw_size.randint(most // 2, most))
            if (name, day) in {("clicks", 5), ("returns", 13)}:
                (partition / "part-9999.parquet").write_bytes(b"PAR1 cut off")
            if (name, day) == ("orders", DAYS - 1):
                (partition / "_temporary").mkdir()
            words = []
            if (name, day) == ("clicks", DAYS - 1):  # two days' files, and a budget for one
                write_files(lake / name / "dt=2026-03-15", 80)
                words = ["--max-bytes", str(sum(path.stat().st_size for path in partition.iterdir()))]
            subprocess.run(
                [PACKSTONE, "compact", lake / name, *words], env=environment, check=False, capture_output=True
            )


def write_files(folder: Path, count: int) -> None:
    """Write small Parquet files."""
    folder.mkdir(parents=True)
    for number in range(count):
        first = number * ROWS_A_FILE
        columns = {f"c{column}": [f"{column} {n % 917}" for n in range(ROWS_A_FILE)] for column in range(12)}
        rows = pa.table({"id": range(first, first + ROWS_A_FILE), **columns})
        pq.write_table(rows, folder / f"part-{number:04d}.parquet")


def spread_over_days(url: str) -> None:
    """Move the runs of each table a day apart, and show the path of a typical lake."""
    engine = create_engine(url)
    with engine.begin() as connection:
        runs = connection.execute(text("SELECT run_id, table_path FROM packstone_run ORDER BY started_at")).all()
        seen: dict[str, int] = {}
        for run_id, path in runs:
            seen[path] = seen.get(path, 0) + 1
            moment = TODAY - timedelta(days=DAYS - seen[path]) + timedelta(hours=1, minutes=5 * len(seen))
            moved = {"run": run_id, "path": f"/lake/{Path(path).name}", "at": moment.replace(tzinfo=None)}
            update = "UPDATE packstone_run SET started_at = :at, table_path = :path, "
            update += "message = REPLACE(message, :old, '/lake') WHERE run_id = :run"
            connection.execute(text(update), moved | {"old": str(Path(path).parent)})
            skips = "UPDATE packstone_skip SET why = REPLACE(why, :old, '/lake') WHERE run_id = :run"
            connection.execute(text(skips), {"old": str(Path(path).parent), "run": run_id})
    engine.dispose()


def draw(figure: plt.Figure, panel: dict, rows: list[dict]) -> None:
    """Draw one panel at its place in the grid of 24 columns."""
    at = panel["gridPos"]
    left, bottom = at["x"] / 24, 1 - (at["y"] + at["h"]) / ROWS
    figure.patches.append(
        plt.Rectangle(
            (left + 0.003, bottom + 0.003),
            at["w"] / 24 - 0.006,
            at["h"] / ROWS - 0.006,
            facecolor=PANEL,
            transform=figure.transFigure,
            zorder=-1,
        )
    )
    figure.text(left + 0.01, bottom + at["h"] / ROWS - 0.02, panel["title"], color=TEXT, fontsize=10, weight="bold")
    inside = (left + 0.045, bottom + 0.028, at["w"] / 24 - 0.06, at["h"] / ROWS - 0.062)
    unit = panel["fieldConfig"]["defaults"]["unit"]
    if panel["type"] == "stat":
        draw_stat(figure, (left, bottom, at["w"] / 24), rows[0], unit=unit)
    elif panel["type"] == "timeseries":
        draw_days(figure.add_axes(inside), rows, unit)
    else:
        draw_table(figure, (left + 0.01, bottom, at["w"] / 24 - 0.02, at["h"] / ROWS), rows)


def draw_stat(figure: plt.Figure, place: tuple[float, float, float], row: dict, *, unit: str) -> None:
    """Draw large numbers side by side."""
    left, bottom, width = place
    for number, (name, value) in enumerate(row.items()):
        middle = left + width * (number + 0.5) / len(row)
        colour = COLOURS[number if len(row) > 1 else 1]
        figure.text(middle, bottom + 0.042, shown(value, unit), color=colour, fontsize=19, ha="center")
        figure.text(middle, bottom + 0.02, name.replace("_", " "), color=QUIET, fontsize=8, ha="center")


def draw_days(axes: plt.Axes, rows: list[dict], unit: str) -> None:
    """Draw a bar for each day: side by side, or stacked if a column names the series."""
    days = sorted({row["time"] for row in rows})
    if rows and "metric" in rows[0]:
        names = sorted({row["metric"] for row in rows})
        found = {(row["time"], row["metric"]): row["runs"] for row in rows}
        series = {name: [found.get((day, name), 0) for day in days] for name in names}
    else:
        series = {name: [row[name] for row in rows] for name in rows[0] if name != "time"}
    below = [0.0] * len(days)
    for number, (name, values) in enumerate(series.items()):
        is_stacked = "metric" in rows[0]
        width = 0.8 if is_stacked else 0.8 / len(series)
        places = [day + (0 if is_stacked else number * width - 0.4 + width / 2) for day in range(len(days))]
        colour = COLOURS[1:][number] if is_stacked else COLOURS[number]
        axes.bar(places, values, width, bottom=below, color=colour, label=name.replace("_", " "))
        below = [low + value for low, value in zip(below, values, strict=True)] if is_stacked else below
    axes.set_facecolor(PANEL)
    axes.set_ylim(0, axes.get_ylim()[1] * 1.2)  # space for the names
    axes.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=unit == "short"))
    axes.set_xticks(range(0, len(days), 3), [f"{day:%m-%d}" for day in days[::3]])
    axes.yaxis.set_major_formatter(lambda value, _: shown(value, unit))
    axes.tick_params(colors=QUIET, labelsize=7, length=0)
    axes.grid(axis="y", color="#2a3542", linewidth=0.6)
    axes.set_axisbelow(b=True)
    axes.spines[:].set_visible(False)
    axes.legend(loc="upper left", fontsize=7, frameon=False, labelcolor=TEXT, ncols=4)


def draw_table(figure: plt.Figure, place: tuple[float, float, float, float], rows: list[dict]) -> None:
    """Draw the first rows as text."""
    left, bottom, width, height = place
    top = bottom + height - 0.036
    most = int((height - 0.05) / 0.0165)
    names = list(rows[0]) if rows else []
    lengths = [max(len(name), *(len(cell(row[name])) for row in rows[:most])) for name in names]
    room = int(width * 196)
    lengths[-1] = max(8, min(lengths[-1], room - sum(lengths[:-1]) - 2 * len(names)))
    at = left
    for name, length in zip(names, lengths, strict=True):
        figure.text(at, top, name.replace("_", " "), color=QUIET, fontsize=7.5)
        for number, row in enumerate(rows[:most]):
            said = cell(row[name])
            said = said if len(said) <= length else f"{said[: length - 1]}…"
            figure.text(at, top - 0.0165 * (number + 1), said, color=TEXT, fontsize=7.5)
        at += (length + 2) / 196


def cell(value: object) -> str:
    """A value in a table."""
    if isinstance(value, datetime):
        return f"{value:%m-%d %H:%M}"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def shown(value: float, unit: str) -> str:
    """A number with its unit, as Grafana shows it."""
    if unit == "bytes":
        return f"{value / 2**20:.1f} MiB" if value >= 2**20 else f"{value / 1024:.0f} KiB"
    return f"{value:.2f} s" if unit == "s" else f"{value:,.0f}"


if __name__ == "__main__":
    sys.exit(main())
