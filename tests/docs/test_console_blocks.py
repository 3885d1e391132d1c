"""The console blocks of the documentation are run, and what they show is what is really printed.

A block fenced as ``console`` holds commands (lines that begin with ``$ ``) and their output. A page's blocks run in
order in one folder, empty but for ``examples/``. Sizes, times, widths and run ids differ from machine to machine and
are not compared; a line ``[...]`` matches any lines. ``pytest --rewrite tests/docs`` writes what differs anew, and
for this it compares sizes too: they are the same in every run on one machine, and nobody notices stale ones.
"""

import os
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from patience import patient

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)
RUN_ID = re.compile(r"\b\d{8}T\d{6}-[0-9a-f]{6}\b")
SIZE = re.compile(r'\b\d+(?:\.\d+)? (?:B|KB|MB|GB)\b|"[a-z_]*bytes[a-z_]*": \d+')
VOLATILE = (
    (re.compile(r"(?<![0-9A-Za-z])\d{8}T\d{6}-[0-9a-f]{6}(-\d+)?\b"), "RUN"),  # in names of files: with the attempt
    (re.compile(r"\b\d{4}-\d\d-\d\dT[\d:.]+\+00:00"), "MOMENT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\b"), "MOMENT"),
    (re.compile(r"(?<![\w.])(\d+H)?(\d+M)?\d+(\.\d+)?S\b"), "TAKEN"),
    (re.compile(r'("(timeTakenMs|dataSize|indexSize)": )\d+'), r"\1NUMBER"),
    (re.compile(r'("(host|user)": )"[^"]*"'), r"\1SOMEBODY"),
    (re.compile(r"\b\d+(\.\d+)? (B|KB|MB|GB)\b"), "SIZE"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s|min)\b"), "TIME"),
    (re.compile(r"\b\d+\.\d+\b"), "NUMBER"),
    (re.compile(r'("[a-z_]*(bytes|seconds|_ms|bytes_before|bytes_after)[a-z_]*": )[\d.]+'), r"\1NUMBER"),
    (re.compile(r"[█▏▎▍▌▋▊▉]+"), "BAR"),
    (re.compile(r"\s+"), " "),
)


@dataclass
class Step:
    """One command of a page and the output it shows."""

    command: str
    shown: list[str]
    real: str = ""

    def find_shown(self) -> list[str] | None:
        """The lines of the page as they were really printed, with its ``[...]``; None if something else was printed."""
        real = [line for line in self.real.splitlines() if settle(line)]
        text = "".join(f"{settle(line)}\n" for line in real)
        parts = ["(?:.*\n)*" if line == "[...]" else f"({re.escape(settle(line))}\n)" for line in self._compared()]
        found = re.fullmatch("".join(parts), text)
        if found is None:
            return None
        places = (text.count("\n", 0, found.start(number)) for number in range(1, found.re.groups + 1))
        return [line if line == "[...]" else real[next(places)] for line in self._compared()]

    def _compared(self) -> list[str]:
        return [line for line in self.shown if settle(line)]

    def is_right(self, *, sizes: bool = False) -> bool:
        """Whether the page shows what was printed, with ``sizes`` also in the same sizes."""
        found = self.find_shown()
        return found is not None and (not sizes or list_sizes(found) == list_sizes(self.shown))

    def renewed(self, with_real_runs) -> str:
        """The step as the page shall show it; what is right and abridged stays abridged."""
        lines = (self.find_shown() if "[...]" in self.shown else None) or self.real.splitlines()
        return "".join(f"{with_real_runs(line).rstrip()}\n" for line in (f"$ {self.command}", *lines))


def read_steps(block: str) -> list[Step]:
    """Split a block into commands and their output."""
    steps: list[Step] = []
    for line in block.splitlines():
        if line.startswith("$ "):
            steps.append(Step(line[2:], []))
        else:
            assert steps, f"a console block begins with output: {line}"
            steps[-1].shown.append(line)
    return steps


class Terminal:
    """Runs a page's commands: ours in this process, the others in a shell."""

    def __init__(self, packstone, monkeypatch, folder: Path) -> None:
        self._packstone, self._monkeypatch = packstone, monkeypatch
        self._last_code = 0
        self._real_run: dict[str, str] = {}
        (folder / "examples").symlink_to(ROOT / "examples")  # as in a checkout, where a reader would try the commands
        monkeypatch.chdir(folder)
        monkeypatch.setenv("PACKSTONE_HISTORY", f"sqlite:///{folder}/history.db")
        monkeypatch.setenv("PACKSTONE_ENGINE", "auto")  # as a reader has it
        monkeypatch.setattr("packstone.spark.session.is_spark_chosen", lambda: False)  # a session of other tests

    def type(self, command: str) -> str:
        """Run one line, with the run ids of the page replaced by the real ones."""
        command = self.with_real_runs(command)
        words = shlex.split(command)
        if words[0] == "packstone" and "|" not in words:
            done = self._packstone(*words[1:])
            self._last_code = done.code
            if "json" in words:
                assert done.json["format_version"] == 1, f"{command} prints more than its answer"
            return done.err + done.out
        if words[0] == "cd":
            self._monkeypatch.chdir(words[1])
            return ""
        if command == "echo $?":
            return f"{self._last_code}\n"
        return self._run_in_shell(command)

    def _run_in_shell(self, command: str) -> str:
        tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        # Our own source first: the installed package may be that of another worktree.
        modules = f"{ROOT / 'src'}{os.pathsep}{ROOT / 'examples'}"
        done = subprocess.run(
            ["bash", "-c", command],
            env={**os.environ, "PATH": tools, "PYTHONPATH": modules},
            capture_output=True,
            text=True,
            check=False,
            timeout=patient(60),
        )
        self._last_code = done.returncode
        return done.stderr + done.stdout

    def with_real_runs(self, line: str) -> str:
        """Put the real run ids in the place of the page's."""
        return RUN_ID.sub(lambda match: self._real_run.get(match[0], match[0]), line)

    def learn_runs(self, shown: str, real: str) -> None:
        """Remember which real run replaces which run of the page."""
        for ours, theirs in zip(RUN_ID.findall(shown), RUN_ID.findall(real), strict=False):
            self._real_run.setdefault(ours, theirs)


def settle(line: str) -> str:
    """Take out of a line what differs from machine to machine."""
    for pattern, replacement in VOLATILE:
        line = pattern.sub(replacement, line)
    return line.strip()


def list_sizes(lines: list[str]) -> list[str]:
    """All sizes in these lines, in their order."""
    return [size for line in lines for size in SIZE.findall(line)]


@pytest.mark.parametrize("page", [p for p in PAGES if "```console" in p.read_text()], ids=lambda p: p.name)
def test_what_a_page_shows_is_what_is_printed(page, packstone, monkeypatch, tmp_path, request):
    """Every command of a page prints what the page says it prints."""
    rewrites = request.config.getoption("--rewrite")
    terminal = Terminal(packstone, monkeypatch, tmp_path)
    text = page.read_text()
    blocks = []
    for block in BLOCK.findall(text):
        steps = read_steps(block)
        for step in steps:
            step.real = terminal.type(step.command).replace(str(tmp_path), "/data")
            terminal.learn_runs("\n".join(step.shown), step.real)
            if not step.is_right() and not rewrites:
                pytest.fail(f"{page.name}: `{step.command}` prints now:\n{step.real}", pytrace=False)
        blocks.append((block, steps))
    if rewrites and not all(step.is_right(sizes=True) for _, steps in blocks for step in steps):
        for block, steps in blocks:
            new = "".join(step.renewed(terminal.with_real_runs) for step in steps)
            text = text.replace(block, new, 1)
        page.write_text(text)
