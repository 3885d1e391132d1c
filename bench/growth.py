"""How cost and memory grow: more bytes, the same bytes in more files, more tiny files, a plan of a million files.

    python bench/growth.py [--scale 0.01] [--only bytes,files,tiny,plan] [--folder F] [--page docs/benchmarks.md#growth]

bytes  1, 3 and 10 GB of files of 1 MB: CPU per GB should be flat
files  1 GB in 1,000, 10,000 and 100,000 files: what each further file costs should be flat
tiny   10,000, 30,000 and 100,000 files of 10 KB: CPU per file should be flat
plan   the planning of a million files in memory (bench/planning.py)

The files are those of set A (bench/sets.py) with fewer or more rows, 64 different ones copied again and again, 100 in a
partition. Each case is `packstone compact` with content proof on all cores, in a fresh process, its start included; the
memory is that of the greatest process. Where the time goes is sampled in a run of its own in one process: every 5 ms
of CPU time the stack tells which phase the time since the last sample belongs to. `--scale` applies to the numbers of
files.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType

from cpu_meter import run_fresh
from pages import replace_block

HERE = Path(__file__).parent
CORES = os.cpu_count() or 1
FILES_PER_PARTITION, TEMPLATES = 100, 64
ROWS = {"1 MB": 31_000, "100 KB": 2_900, "10 KB": 100}  # of a file of about this size
MEMORY_FLOOR_MB = 512


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """A number of files of one size; a series grows in one dimension."""

    series: str
    size: str
    files: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What the compaction of one case used."""

    case: Case
    gb: float
    wall_seconds: float
    cpu_seconds: float
    peak_mb: float
    phases: dict[str, float]


CASES = (
    Case(series="bytes", size="1 MB", files=1_000),
    Case(series="bytes", size="1 MB", files=3_000),
    Case(series="bytes", size="1 MB", files=10_000),
    Case(series="files", size="1 MB", files=1_000),
    Case(series="files", size="100 KB", files=10_000),
    Case(series="files", size="10 KB", files=100_000),
    Case(series="tiny", size="10 KB", files=10_000),
    Case(series="tiny", size="10 KB", files=30_000),
    Case(series="tiny", size="10 KB", files=100_000),
)


def make_templates(folder: Path) -> None:
    """Let Spark write the different files of each size."""
    from sets import orders, start_spark

    for size, rows in ROWS.items():
        target = folder / size.replace(" ", "")
        if not target.exists():
            part = target.with_name(f"{target.name}.part")
            shutil.rmtree(part, ignore_errors=True)
            orders(start_spark(), files=TEMPLATES, rows=rows).write.parquet(str(part))
            part.rename(target)


def make_table(templates: Path, table: Path, case: Case) -> float:
    """Copy the templates as often as the case wants; return gigabytes."""
    sources = [path.read_bytes() for path in sorted((templates / case.size.replace(" ", "")).glob("*.parquet"))]
    total = 0
    for number in range(case.files):
        folder = table / f"part={number // FILES_PER_PARTITION:05d}"
        if number % FILES_PER_PARTITION == 0:
            folder.mkdir(parents=True)
        data = sources[number % len(sources)]
        (folder / f"part-{number:06d}.parquet").write_bytes(data)
        total += len(data)
    os.sync()
    return total / 1e9


def measure(templates: Path, case: Case, *, with_phases: bool) -> Result:
    with tempfile.TemporaryDirectory(dir=templates.parent) as scratch:
        table = Path(scratch) / "table"
        gb = make_table(templates, table, case)
        command = str(Path(sys.executable).with_name("packstone"))
        used = run_fresh([command, *compact_arguments(table), "--parallel", str(CORES)])
        outcome = json.loads(used.out)
        if outcome["files_before"] != case.files or outcome["skipped"] or outcome["verified"] != "content":
            raise SystemExit(f"{outcome['files_before']} files, skipped {outcome['skipped'][:3]}")
        shutil.rmtree(table)
        phases = {}
        if with_phases:
            make_table(templates, table, case)
            sampled = run_fresh([sys.executable, __file__, "--sample", str(table)])
            phases = json.loads(sampled.out.splitlines()[-1])
    return Result(
        case=case,
        gb=gb,
        wall_seconds=used.wall_seconds,
        cpu_seconds=used.cpu_seconds,
        peak_mb=used.peak_mb,
        phases=phases,
    )


def compact_arguments(table: Path) -> list[str]:
    return ["compact", str(table), "--engine", "inline", "--verify", "content", "--format", "json", "-q"]


# ---- where the time goes ----

WAITING = ("/threading.py", "/queue.py", "/selectors.py", "/concurrent/futures/", "/multiprocessing/", "/subprocess.py")
# The outermost of these decides; what a commit lists or reads belongs to publishing.
OUTER = (
    ("publish", ("tables/hive/commit.py", "tables/hive/swap.py", "tables/hive/journal.py")),
    ("list", ("tables/hive/listing.py",)),
    ("footers", ("tables/hive/file_facts.py", "tables/hive/text_facts.py")),
)
PROOF = ("rewrite/proof/", "rewrite/small_files/verify_splice.py")
PROOF_STEPS = {"_verify", "_read", "_read_back", "_check_equal", "check_same_shape", "check_readable", "fingerprint"}
PHASES = ("start", "list", "footers", "read", "merge", "write", "prove", "publish", "other")


class PhaseSampler:
    """CPU seconds of this process by phase, from the stacks at every few milliseconds of CPU time."""

    def __init__(self) -> None:
        self.seconds: Counter[str] = Counter()
        self._last = time.process_time()

    def start(self) -> None:
        signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, 0.005, 0.005)

    def stop(self) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)

    def _sample(self, _number: int, frame: FrameType | None) -> None:
        """Share the time since the last sample among the threads that do something.

        A signal during a long call in C is handled when the call returns, so the frame is still that of the call.
        """
        now = time.process_time()
        spent, self._last = now - self._last, now
        frames = sys._current_frames()  # noqa: SLF001 - the documented way to see the stacks of other threads
        others = [one for key, one in frames.items() if key != threading.main_thread().ident]
        stacks = [stack for stack in map(stack_of, [frame, *others]) if stack and not is_waiting(stack[-1][0])]
        for stack in stacks or [[]]:
            self.seconds[phase_of(stack)] += spent / max(1, len(stacks))


def stack_of(frame: FrameType | None) -> list[tuple[str, str]]:
    """File and function of every call, the outermost first."""
    calls = []
    while frame is not None:
        calls.append((frame.f_code.co_filename, frame.f_code.co_name))
        frame = frame.f_back
    return calls[::-1]


def is_waiting(file: str) -> bool:
    return any(name in file for name in WAITING)


def phase_of(stack: list[tuple[str, str]]) -> str:
    if any("importlib._bootstrap" in file for file, _ in stack):
        return "start"
    ours = [(file.partition("/packstone/")[2], name) for file, name in stack if "/packstone/" in file]
    for file, _ in ours:
        for phase, files in OUTER:
            if file in files:
                return phase
    merging = [(file, name) for file, name in ours if file.startswith("rewrite/")]
    if any(file.startswith(PROOF) or name in PROOF_STEPS for file, name in merging):
        return "prove"
    for file, name in reversed(ours if merging else []):  # the innermost that says it
        words = name.strip("_").split("_")
        if words[0] in {"read", "open", "decode"} and file.startswith(("rewrite/small_files/", "storage/")):
            return "read"
        if words[0] in {"write", "encode", "sync", "close", "finish"} and not file.endswith("merge_unit.py"):
            return "write" if (file, name) != ("rewrite/small_files/parquet_kernel.py", "write") else "merge"
    return "merge" if merging else "other"


def sample(table: str) -> None:
    """Compact a table in this process, one unit at a time; report seconds by phase on the last line."""
    sampler = PhaseSampler()
    sampler.start()
    from packstone.cli.main import run

    code = run([*compact_arguments(Path(table)), "--parallel", "1"])
    sampler.stop()
    if code:
        sys.exit(code)
    print()
    print(json.dumps(sampler.seconds))


# ---- what is printed ----


def table_of(results: list[Result]) -> str:
    heads = ["", "files", "GB", "wall s", "CPU s", "CPU s per GB", "ms CPU per file", "peak MB of a process"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for one in results:
        per_gb, per_file = one.cpu_seconds / one.gb, 1000 * one.cpu_seconds / one.case.files
        cells = [one.case.series, f"{one.case.files:,} of {one.case.size}", f"{one.gb:.2f}", f"{one.wall_seconds:.1f}"]
        cells += [f"{one.cpu_seconds:.1f}", f"{per_gb:.1f}", f"{per_file:.2f}", f"{one.peak_mb:.0f}"]
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def phases_of(results: list[Result]) -> str:
    """Shares of CPU time by phase."""
    sampled = [one for one in results if one.phases]
    if not sampled:
        return ""
    lines = ["| CPU % in one process | " + " | ".join(PHASES) + " |", "|---" * (len(PHASES) + 1) + "|"]
    for one in sampled:
        total = sum(one.phases.values())
        shares = [f"{100 * one.phases.get(phase, 0) / total:.0f}" for phase in PHASES]
        lines.append(f"| {one.case.files:,} of {one.case.size} | " + " | ".join(shares) + " |")
    return "\n".join(lines)


def verdicts(results: list[Result]) -> Iterator[str]:
    """How flat each series is, and whether memory is bounded."""
    series = {name: [one for one in results if one.case.series == name] for name in ("bytes", "files", "tiny")}
    costs = {
        "CPU per GB of 1 MB files": [one.cpu_seconds / one.gb for one in series["bytes"]],
        "CPU per further file of 1 GB": [
            (b.cpu_seconds - a.cpu_seconds) / (b.case.files - a.case.files)
            for a, b in zip(series["files"], series["files"][1:], strict=False)
        ],
        "CPU per file of 10 KB": [one.cpu_seconds / one.case.files for one in series["tiny"]],
    }
    for what, values in costs.items():
        if len(values) > 1 and min(values) > 0:
            spread = max(values) / min(values) - 1
            yield f"{what}: within {100 * spread:.0f} %, floor 10 %{' **short**' if spread > 0.1 else ''}"
    if results:
        peak = max(one.peak_mb for one in results)
        is_short = peak > MEMORY_FLOOR_MB
        yield f"memory of a process: {peak:.0f} MB, floor {MEMORY_FLOOR_MB} MB{' **short**' if is_short else ''}"


def measure_all(templates: Path, series: list[str], *, scale: float, phases_up_to_gb: float) -> list[Result]:
    done: dict[tuple[str, int], Result] = {}
    results = []
    for whole in CASES:
        if whole.series not in series:
            continue
        case = replace(whole, files=max(10, round(whole.files * scale)))
        known = done.get((case.size, case.files))  # two series may share a case
        if known is None:
            gb = case.files * {"1 MB": 1e-3, "100 KB": 1e-4, "10 KB": 1e-5}[case.size]
            known = measure(templates, case, with_phases=gb <= phases_up_to_gb)
            print(f"  {case.files} of {case.size}: {known.cpu_seconds:.1f} CPU s", file=sys.stderr, flush=True)
            results.append(known)
        else:
            results.append(replace(known, case=case, phases={}))
        done[case.size, case.files] = known
    return results


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scale", type=float, default=1, help="this part of the files; 0.01 takes about a minute")
    parser.add_argument("--only", default="bytes,files,tiny,plan")
    parser.add_argument("--phases-up-to", type=float, default=3, metavar="GB", help="sample phases of cases up to this")
    parser.add_argument("--folder", default=None, help="keep the generated files here and use them again")
    parser.add_argument("--page", default=None, help="replace the block <!-- bench:NAME --> of this page: PATH#NAME")
    parser.add_argument("--sample", default=None, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    if arguments.sample:
        sample(arguments.sample)
        return
    root = Path(arguments.folder or tempfile.mkdtemp(prefix="packstone-bench-")).resolve()
    os.environ["PACKSTONE_HISTORY"] = f"sqlite:///{root}/history.db"
    os.environ["PACKSTONE_LOGS"] = str(root / "logs")
    parts = arguments.only.split(",")
    if set(parts) != {"plan"}:
        make_templates(root / "templates")
    results = measure_all(root / "templates", parts, scale=arguments.scale, phases_up_to_gb=arguments.phases_up_to)
    lines = list(verdicts(results))
    if "plan" in parts:
        files = max(1000, round(1_000_000 * arguments.scale))
        planning = [sys.executable, str(HERE / "planning.py"), "--files", str(files), "--partitions", "100"]
        lines.append(f"{run_fresh(planning).out.strip()}; floor 5 s for a million files")
    tables = [table_of(results), phases_of(results)] if results else []
    text = "\n\n".join([*(table for table in tables if table), "\n".join(f"- {line}" for line in lines)])
    print(text)
    if arguments.page:
        replace_block(arguments.page, text)
    if arguments.folder is None:
        shutil.rmtree(root)


if __name__ == "__main__":
    main()
