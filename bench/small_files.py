"""Small files into large ones: Packstone against other tools, in one run, on the same files.

    python bench/small_files.py [--sets A,A-large,B,duckdb] [--rounds 2] [--only packstone,spark] [--scale 0.1]

bench/sets.py describes the sets. Every contender merges its own copy of a set (hard links, so the bytes are shared and
warm). Packstone inline, DuckDB and Polars run in fresh processes, their start included: Packstone is the command
`packstone compact` with all that it does (list, footers, merge, proof, journal, swap, history). Spark's JVM is warm and
its start is not counted; Packstone on Spark runs in the same session. CPU seconds are those of the whole process tree,
JVM and workers too. Wall and CPU seconds are the least of the rounds, each for itself. The rows of every output are
counted afterwards, outside of the measurement; Spark also counts before and after, as the usual job does.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import re
import shutil
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

from cpu_meter import CpuMeter, Used, run_fresh
from pages import replace_block
from sets import SETS, FileSet, fetch_avro_jar, start_spark

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
COUNT, CONTENT = "packstone inline, count", "packstone inline, content"
PLAN = "packstone plan"
ON_SPARK = "packstone on Spark, content"
_FLOOR_LINE = re.compile(r"(.*): ([\d.]+), floor at (?:least|most) ([\d.]+) \*\*short\*\*")
POLARS, DUCKDB, SPARK = "Polars", "DuckDB", "Spark repartition, two counts"


@dataclass(frozen=True, slots=True, kw_only=True)
class Source:
    """A generated set."""

    of: FileSet
    folder: Path
    files: int
    folders: int
    size_bytes: int
    rows: int

    @property
    def title(self) -> str:
        """What the set contains, in one line."""
        mb = self.size_bytes / 1e6
        return self.of.title.format(files=self.files, folders=self.folders, mb=mb, kb=1000 * mb / self.files)

    @property
    def target_bytes(self) -> int:
        """The size of an output file."""
        return -(-self.size_bytes // self.of.outputs) if self.of.outputs else 120_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Timing:
    """The least that the rounds of one contender took."""

    name: str
    wall_seconds: float
    cpu_seconds: float
    peak_mb: float


def measure_source(of: FileSet, folder: Path) -> Source:
    files = data_files(folder)
    return Source(
        of=of,
        folder=folder,
        files=len(files),
        folders=len({path.parent for path in files}),
        size_bytes=sum(path.stat().st_size for path in files),
        rows=count_rows(folder, of),
    )


def data_files(folder: Path) -> list[Path]:
    """The visible files of a folder; what Packstone keeps for recovery is hidden."""
    found = (path for path in folder.rglob("*") if path.is_file())
    return sorted(path for path in found if not any(part[0] in "._" for part in path.relative_to(folder).parts))


def count_rows(folder: Path, of: FileSet) -> int:
    """Count rows by a reader that is not ours, nor Spark's."""
    files = data_files(folder)
    if of.file_format == "parquet":
        import pyarrow.parquet as pq

        return sum(pq.read_metadata(path).num_rows for path in files)
    if of.file_format == "orc":
        from pyarrow import orc

        return sum(orc.ORCFile(path).nrows for path in files)
    if of.file_format == "avro":
        import fastavro

        return sum(block.num_records for path in files for block in fastavro.block_reader(path.open("rb")))
    import pyarrow as pa

    return sum(pa.input_stream(path, compression="detect").read().count(b"\n") for path in files)


# ---- contenders ----


def packstone(verify: str) -> Callable[[Source, Path], Used]:
    def run(source: Source, folder: Path) -> Used:
        command = ["compact", str(folder), "--engine", "inline", "--parallel", str(CORES), "--verify", verify]
        text = ["--header", "0"] if source.of.file_format == "csv" else []
        used = run_fresh(
            [packstone_command(), *command, *text, "--target-size", str(source.target_bytes), "--format", "json", "-q"]
        )
        outcome = json.loads(used.out)
        if outcome["rows"] != source.rows and source.of.file_format not in {"csv", "json"}:
            raise SystemExit(f"{outcome['rows']} rows in the outcome, expected {source.rows}")
        if outcome["skipped"] or outcome["verified"] != verify:
            raise SystemExit(f"verified by {outcome['verified']}; skipped: {outcome['skipped'][:3]}")
        return used

    return run


def packstone_plan(source: Source, folder: Path) -> Used:
    command = [packstone_command(), "plan", str(folder), "--engine", "inline", "--format", "json", "-q"]
    return run_fresh([*command, "--target-size", str(source.target_bytes)])


def packstone_command() -> str:
    return str(Path(sys.executable).with_name("packstone"))


def rival(tool: str) -> Callable[[Source, Path], Used]:
    def run(source: Source, folder: Path) -> Used:
        return run_fresh(
            [sys.executable, str(HERE / "rivals.py"), tool, str(folder), f"{folder}-out", str(source.of.outputs)]
        )

    return run


def in_session(work: Callable[[Source, Path], None]) -> Callable[[Source, Path], Used]:
    """Measure work in the warm session: its JVM and Python workers are descendants of this process."""

    def run(source: Source, folder: Path) -> Used:
        start_spark()
        with CpuMeter() as cpu:
            began = time.perf_counter()
            work(source, folder)
            wall = time.perf_counter() - began
        return Used(wall_seconds=wall, cpu_seconds=cpu.seconds)

    return run


def packstone_on_spark(source: Source, folder: Path) -> None:
    import packstone
    from packstone.model.unit import Verify

    size = source.target_bytes
    header = {"header_lines": 0} if source.of.file_format == "csv" else {}
    options = packstone.HiveOptions(threshold_bytes=size, target_bytes=size, verify=Verify.CONTENT, **header)
    outcome = packstone.open(str(folder), spark=start_spark()).compact(options)
    if outcome.engine is None or outcome.engine.name != "spark" or outcome.skipped:
        raise SystemExit(f"engine {outcome.engine}, skipped {outcome.skipped[:3]}")


def spark_repartition(source: Source, folder: Path) -> None:
    """The usual job: read, repartition, write, compare counts. Text is read and written as lines, the cheapest way."""
    spark = start_spark()
    kind = "text" if source.of.file_format in {"csv", "json"} else source.of.file_format
    frame = spark.read.format(kind).load(str(folder))
    before = frame.count()
    shaped = frame.repartition(source.of.outputs) if source.of.outputs else frame.repartition("dt")
    writer = shaped.write.format(kind)
    if source.of.codec:
        writer = writer.option("compression", source.of.codec)
    if not source.of.outputs:
        writer = writer.partitionBy("dt")
    writer.save(f"{folder}-out")
    after = spark.read.format(kind).load(f"{folder}-out").count()
    if before != source.rows or after != source.rows:
        raise SystemExit(f"Spark counted {before} and {after} rows, expected {source.rows}")


CONTENDERS: dict[str, Callable[[Source, Path], Used]] = {
    POLARS: rival("polars"),
    DUCKDB: rival("duckdb"),
    PLAN: packstone_plan,
    COUNT: packstone("count"),
    CONTENT: packstone("content"),
    ON_SPARK: in_session(packstone_on_spark),
    SPARK: in_session(spark_repartition),
}


def contenders_of(source: Source, only: str) -> list[str]:
    """The names of the contenders for a set; the other tools neither splice nor keep the bytes of other formats."""
    words = [word.lower() for word in only.split(",") if word]
    parquet = source.of.file_format == "parquet"
    return [
        name
        for name in CONTENDERS
        if (parquet or name in {COUNT, CONTENT, ON_SPARK, SPARK})
        and (name != PLAN or not source.of.outputs)
        and (not words or any(word in name.lower() for word in words))
    ]


# ---- measuring ----


def measure(name: str, source: Source) -> tuple[Used, str]:
    """Run one contender on its own copy of a set, and count the rows and files that it left."""
    with tempfile.TemporaryDirectory(dir=source.folder.parent) as scratch:
        copy = Path(scratch) / "table"
        shutil.copytree(source.folder, copy, copy_function=os.link)
        os.sync()
        used = CONTENDERS[name](source, copy)
        out = Path(f"{copy}-out")
        left = out if out.exists() else copy
        rows = count_rows(left, source.of)
        if rows != source.rows:
            raise SystemExit(f"{name}: {rows} rows, expected {source.rows}")
        files = data_files(left)
        return used, f"{len(files)} files, {sum(path.stat().st_size for path in files) / 1e6:.0f} MB"


def warm_up(source: Source, names: list[str]) -> None:
    """Run every contender on a part of the set, so that Python is compiled, the history exists, the JVM has run it."""
    with tempfile.TemporaryDirectory(dir=source.folder.parent) as scratch:
        part = Path(scratch) / "part"
        if source.of.outputs:
            part.mkdir()
            for path in itertools.islice(sorted(source.folder.iterdir()), 20):
                os.link(path, part / path.name)
        else:
            for folder in itertools.islice(sorted(source.folder.iterdir()), 8):
                shutil.copytree(folder, part / folder.name, copy_function=os.link)
        little = measure_source(source.of, part)
        for name in names:
            measure(name, little)


def measure_set(source: Source, *, rounds: int, only: str) -> dict[str, Timing]:
    names = contenders_of(source, only)
    warm_up(source, names)
    runs: dict[str, list[Used]] = {name: [] for name in names}
    for _ in range(rounds):
        for name in names:
            used, left = measure(name, source)
            runs[name].append(used)
            times = f"{used.wall_seconds:7.2f} s wall {used.cpu_seconds:7.2f} s CPU {used.peak_mb:6.0f} MB"
            print(f"  {name:32} {times}   {left}; load {os.getloadavg()[0]:.1f}", file=sys.stderr, flush=True)
    return {
        name: Timing(
            name=name,
            wall_seconds=min(used.wall_seconds for used in done),
            cpu_seconds=min(used.cpu_seconds for used in done),
            peak_mb=max(used.peak_mb for used in done),
        )
        for name, done in runs.items()
    }


# ---- what is printed ----


def table_of(source: Source, timings: dict[str, Timing]) -> str:
    """The timings as a table of Markdown."""
    per_file = not source.of.outputs
    spark, duckdb = timings.get(SPARK), timings.get(DUCKDB)
    heads = ["", "wall s", "CPU s", *(["ms CPU per file"] if per_file else []), "peak MB of a process"]
    heads += [*(["CPU, Spark's ÷ this"] if spark else []), *(["CPU, this ÷ DuckDB's"] if duckdb else [])]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for timing in timings.values():
        cells = [f"{timing.wall_seconds:.1f}", f"{timing.cpu_seconds:.1f}"]
        cells += [f"{1000 * timing.cpu_seconds / source.files:.1f}"] if per_file else []
        cells += [f"{timing.peak_mb:.0f}" if timing.peak_mb else ""]
        cells += [f"{spark.cpu_seconds / timing.cpu_seconds:.1f}×"] if spark else []
        cells += [f"{timing.cpu_seconds / duckdb.cpu_seconds:.1f}×"] if duckdb else []
        bold = "**" if timing.name.startswith("packstone") else ""
        lines.append("| " + " | ".join(f"{bold}{cell}{bold}" if cell else "" for cell in (timing.name, *cells)) + " |")
    return "\n".join(lines)


def floors_of(source: Source, timings: dict[str, Timing]) -> list[str]:
    """How the timings compare with the floors that the project set itself, one line each."""
    wall = {name: timing.wall_seconds for name, timing in timings.items()}
    cpu = {name: timing.cpu_seconds for name, timing in timings.items()}
    wanted: list[tuple[str, set[str], Callable[[], float], float, bool]] = [
        ("CPU of content on Spark ÷ inline", {ON_SPARK, CONTENT}, lambda: cpu[ON_SPARK] / cpu[CONTENT], 1.2, False),
    ]
    if source.of.name in ("A", "A-large"):
        wanted += [
            ("CPU of content ÷ DuckDB's", {CONTENT, DUCKDB}, lambda: cpu[CONTENT] / cpu[DUCKDB], 1.2, False),
            ("Spark's CPU ÷ content's", {CONTENT, SPARK}, lambda: cpu[SPARK] / cpu[CONTENT], 6, True),
            ("wall of content ÷ DuckDB's", {CONTENT, DUCKDB}, lambda: wall[CONTENT] / wall[DUCKDB], 1.3, False),
            (
                "CPU of count ÷ the better of Polars and DuckDB",
                {COUNT, POLARS, DUCKDB},
                lambda: cpu[COUNT] / min(cpu[POLARS], cpu[DUCKDB]),
                1,
                False,
            ),
        ]
    elif source.of.name == "B":
        wanted += [
            ("ms CPU per file, content", {CONTENT}, lambda: 1000 * cpu[CONTENT] / source.files, 2, False),
            ("Spark's CPU ÷ content's", {CONTENT, SPARK}, lambda: cpu[SPARK] / cpu[CONTENT], 8, True),
            ("wall of content ÷ DuckDB's", {CONTENT, DUCKDB}, lambda: wall[CONTENT] / wall[DUCKDB], 2, False),
        ]
    elif source.of.file_format != "parquet":
        wanted += [("Spark's CPU ÷ content's", {CONTENT, SPARK}, lambda: cpu[SPARK] / cpu[CONTENT], 5, True)]
    lines = []
    for what, needs, value, limit, at_least in wanted:
        if needs <= timings.keys():
            got = value()
            is_short = got < limit if at_least else got > limit
            side = "at least" if at_least else "at most"
            lines.append(f"{what}: {got:.2f}, floor {side} {limit:g}{' **short**' if is_short else ''}")
    return lines


def introduction(rounds: int) -> str:
    """What the tables of a page need to be understood."""
    return f"""\
One run on {CORES} cores, the least of {rounds} rounds; CPU is that of the whole process tree. Packstone, DuckDB and
Polars run in fresh processes, start included; Spark's JVM is warm and its start is not counted. Polars and DuckDB
neither count nor prove, Spark counts the rows before and after, Packstone proves every row (*content*) or their number
(*count*). What is below our own floor is marked **short**."""


def summary_of(measured: dict[str, tuple[Source, dict[str, Timing]]], rounds: int) -> str:
    """All sets in one table, for the README."""
    names = [name for name in CONTENDERS if name != PLAN and any(name in timings for _, timings in measured.values())]
    heads = [
        f"| {name}: wall s | CPU s" + ("" if one.of.outputs else " | ms CPU per file")
        for name, (one, _) in measured.items()
    ]
    lines = [f"| {' '.join(heads)} |", "|---" * (" ".join(heads).count("|") + 1) + "|"]
    for name in names:
        cells = [name]
        for source, timings in measured.values():
            found = timings.get(name)
            cells += [f"{found.wall_seconds:.1f}", f"{found.cpu_seconds:.1f}"] if found else ["", ""]
            if not source.of.outputs:
                cells += [f"{1000 * found.cpu_seconds / source.files:.1f}"] if found else [""]
        bold = "**" if name == CONTENT else ""
        lines.append("| " + " | ".join(f"{bold}{cell}{bold}" if cell else "" for cell in cells) + " |")
    sets = ", ".join(f"**{name}**: {one.of.short}" for name, (one, _) in measured.items())
    short = {
        name: [_FLOOR_LINE.sub(r"\1 \2 (\3)", line) for line in floors_of(*found) if line.endswith("**short**")]
        for name, found in measured.items()
    }
    sentences = (
        f"{sets}. {CORES} cores, the least of {rounds} rounds; CPU of all processes.",
        "Polars and DuckDB do not verify. [All benchmarks](docs/benchmarks.md).",
    )
    bullets = [
        line
        for name, lines in short.items()
        if lines
        for line in textwrap.wrap(f"- **Short** on {name} (target): {', '.join(lines)}", 125, subsequent_indent="  ")
    ]
    missed = ["", *bullets] if bullets else []
    return "\n".join([*textwrap.wrap(" ".join(sentences), 125), "", *lines, *missed])


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sets", default="A,A-large,B,duckdb", help=f"some of {','.join(SETS)}")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--only", default="", help="contenders whose name contains one of these words")
    parser.add_argument("--scale", type=float, default=1, help="this part of the files; 0.05 to try something out")
    parser.add_argument("--folder", default=None, help="keep the generated files here and use them again")
    parser.add_argument("--json", default=None, help="also write the timings to this file")
    parser.add_argument("--page", default=None, help="write the tables to the block <!-- bench:NAME --> of PATH#NAME")
    parser.add_argument("--readme", default=None, help="write one table of all sets to the block of PATH#NAME")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-")).resolve()
    scratch = Path(tempfile.mkdtemp(prefix="packstone-bench-state-"))
    os.environ["PACKSTONE_HISTORY"] = f"sqlite:///{scratch}/history.db"
    os.environ["PACKSTONE_LOGS"] = str(scratch / "logs")
    names = arguments.sets.split(",")
    if "avro" in names:
        jar = fetch_avro_jar()
        start_spark(avro_jar=jar)
        if jar is None:
            print("avro is left out: Maven does not have Spark's Avro jar")
            names.remove("avro")
    texts, measured = [], {}
    for name in names:
        source = measure_source(SETS[name], SETS[name].made(root, arguments.scale))
        timings = measure_set(source, rounds=arguments.rounds, only=arguments.only)
        floors = "\n".join(f"- {line}" for line in floors_of(source, timings))
        texts.append(f"**{source.title}**\n\n{table_of(source, timings)}\n\n{floors}".rstrip())
        print(f"\n{texts[-1]}\n", flush=True)
        measured[name] = source, timings
    if arguments.json:
        plain = {name: [asdict(timing) for timing in timings.values()] for name, (_, timings) in measured.items()}
        Path(arguments.json).write_text(json.dumps(plain, indent=2))
    if arguments.readme:
        shown = {name: found for name, found in measured.items() if name in ("A", "B")}  # the first look
        replace_block(arguments.readme, summary_of(shown, arguments.rounds))
    if arguments.page:
        replace_block(arguments.page, "\n\n".join([introduction(arguments.rounds), *texts]))
    shutil.rmtree(scratch)
    if arguments.folder is None:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
