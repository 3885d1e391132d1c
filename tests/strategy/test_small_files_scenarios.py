"""The small-files strategy by example: text files that define a folder, ask for a pick and show the folder after.

``pytest --rewrite`` writes the answers anew; read the diff before you commit it. In a scenario, ``define`` lists the
files in name order as ``NAME SIZE [group=N] [merged]`` (``merged``: an output of an earlier run), ``pick OPTION=VALUE``
asks the strategy, and ``apply`` shows the folder after its last answer; merged files are called p1, p2, …
"""

from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest

from packstone.model.sizes import parse_bytes
from packstone.strategy.pick import Pick, Skip
from packstone.strategy.small_files import Candidate, SmallFilesOptions, pick_small_files

SCENARIOS = sorted((Path(__file__).parents[1] / "testdata" / "small_files").glob("*.txt"))


@dataclass
class Folder:
    """The state of a scenario."""

    files: list[tuple[str, Candidate]] = field(default_factory=list)
    answers: tuple[Pick | Skip, ...] = ()
    numbers: count = field(default_factory=lambda: count(1))

    def run(self, command: str, body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        verb, *arguments = command.split()
        options = dict(argument.split("=") for argument in arguments)
        match verb:
            case "define":
                self.files = [read_file(line) for line in body]
                self.numbers = count(1)
                return ["ok"]
            case "pick":
                self.answers = pick_small_files([file for _, file in self.files], read_options(options))
                return [self.show(answer) for answer in self.answers] or ["nothing"]
            case "apply":
                self.apply()
                return [show_file(name, file) for name, file in self.files]
        raise AssertionError(f"{verb} is no directive")

    def show(self, answer: Pick | Skip) -> str:
        """Print a pick with names in place of positions."""
        if isinstance(answer, Skip):
            return str(answer)
        names = " ".join(self.files[at][0] for at in answer.inputs)
        return f"{names} -> {show_size(self.merged_bytes(answer))}  reason={answer.reason}"

    def merged_bytes(self, pick: Pick) -> int:
        """How big the output of a pick is."""
        return sum(self.files[at][1].size_bytes for at in pick.inputs)

    def apply(self) -> None:
        """Replace the inputs of all picks by their outputs, in name order."""
        picks = [answer for answer in self.answers if isinstance(answer, Pick)]
        gone = {at for pick in picks for at in pick.inputs}
        made = [
            (
                f"p{next(self.numbers)}",
                Candidate(
                    size_bytes=self.merged_bytes(pick), group=self.files[pick.inputs[0]][1].group, is_known_output=True
                ),
            )
            for pick in picks
        ]
        self.files = sorted([file for at, file in enumerate(self.files) if at not in gone] + made)
        self.answers = ()


def read_file(line: str) -> tuple[str, Candidate]:
    """Read ``a 10MB group=1 merged``."""
    name, size, *rest = line.split()
    groups = [int(word.removeprefix("group=")) for word in rest if word.startswith("group=")]
    return name, Candidate(
        size_bytes=parse_bytes(size) if size != "0" else 0,
        group=groups[0] if groups else 0,
        is_known_output="merged" in rest,
    )


def show_file(name: str, file: Candidate) -> str:
    """Print a file so that it parses back."""
    group = f" group={file.group}" if file.group else ""
    return f"{name} {show_size(file.size_bytes)}{group}{' merged' if file.is_known_output else ''}"


def show_size(size_bytes: int) -> str:
    """Print a size without spaces, exactly."""
    for unit, factor in (("GB", 1 << 30), ("MB", 1 << 20), ("KB", 1 << 10)):
        if size_bytes and size_bytes % factor == 0:
            return f"{size_bytes // factor}{unit}"
    return str(size_bytes)


def read_options(options: dict[str, str]) -> SmallFilesOptions:
    """Read ``threshold=120MB target=120MB min_files=5``, all of which have defaults."""
    target = parse_bytes(options.get("target", "120MB"))
    return SmallFilesOptions(
        threshold_bytes=parse_bytes(options["threshold"]) if "threshold" in options else target,
        target_bytes=target,
        min_files=int(options.get("min_files", "5")),
    )


def replay(text: str) -> str:
    """Run a whole scenario and return it with the answers of today."""
    folder = Folder()
    lines: list[str] = []
    waiting: list[str] = []
    in_answer = False
    for line in text.splitlines():
        if in_answer:
            in_answer = line != ""
            lines += [] if in_answer else [line]
        elif line == "----":
            command, *body = waiting
            lines += [line, *folder.run(command, body)]
            waiting, in_answer = [], True
        else:
            waiting += [] if line.startswith("#") or not line else [line]
            lines.append(line)
    assert not waiting, f"no ---- after {waiting[0]}"
    return "\n".join(lines).rstrip("\n") + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=[path.stem for path in SCENARIOS])
def test_scenario(path, request):
    """Every answer in the file is the strategy's answer."""
    text = path.read_text()
    today = replay(text)
    if request.config.getoption("--rewrite"):
        path.write_text(today)
    else:
        assert today == text


def test_the_scenarios_are_found():
    """A folder that was moved would pass by having no tests."""
    assert len(SCENARIOS) >= 4
