"""The strategies by example: text files that define a table, ask for a pick and show the table after.

``pytest --rewrite`` writes the answers anew; read the diff before you commit it. The folder of a scenario file names
the strategy. A directive is a line, its body the lines below it, its answer what follows ``----``; ``#`` says why the
answer is right. What the directives of each family mean is described at its class.
"""

from dataclasses import dataclass, field, fields, replace
from itertools import count, groupby
from pathlib import Path

import pytest
from section_model import apply_section_plan

from packstone.errors import PackstoneError
from packstone.model.segment import Segment, SegmentId
from packstone.model.sizes import ExactSize, parse_bytes
from packstone.model.sorted_run import SortedRun, TreeFile
from packstone.strategy import (
    append_bins,
    bucketed_append,
    custom,
    force_up_level0,
    full,
    major,
    minor,
    universal,
)
from packstone.strategy import (
    segment_view as days,
)
from packstone.strategy.append_bins import AppendFile, AppendView
from packstone.strategy.pick import Decision, Pick, Skip, run_round, to_fixpoint
from packstone.strategy.sections import SectionOptions, plan_sections, split_sections
from packstone.strategy.segment_view import SegmentView, begin_command
from packstone.strategy.small_files import Candidate, SmallFilesOptions, pick_small_files
from packstone.strategy.tree_view import (
    TreeView,
    apply_tree_decision,
    check_runs,
    highest_level,
    note_odd_runs,
    sort_runs,
)
from packstone.strategy.universal import Generation, OffPeakHours, UniversalOptions

TESTDATA = Path(__file__).parents[1] / "testdata"
LETTERS = "abcdefghijklmnopqrstuvwxyz"


def cast(text: str):
    """Read an option's value: yes, 5, 0.7, 10MB, 4,3."""
    if text in {"yes", "no"}:
        return text == "yes"
    if text.endswith("B"):
        return ExactSize.parse(text)
    if text.lstrip("-").isdecimal():
        return int(text)
    return float(text)


def read_pairs(words: list[str]) -> dict[str, str]:
    """Read ``key=value`` words; a bare word is a yes."""
    return {key: value if equals else "yes" for key, equals, value in (word.partition("=") for word in words)}


def build(kind, pairs: dict[str, str], **special):
    """Make an options class of the words that are its fields, and take them out."""
    names = [one.name for one in fields(kind) if one.name in pairs and one.name not in special]
    return kind(**{name: cast(pairs.pop(name)) for name in names}, **special)


@dataclass
class Tree:
    """universal, force_up_level0, full.

    ``define`` takes runs (``L0 f7 10MB``) or files (``L5 A [1-3] 1MB dv``) line by line, or in one line as
    ``LEVEL:SIZE``, named a, b, c, … ``pick`` and ``apply`` as ever, ``steps`` shows the last decision's comparisons,
    ``rule NAME`` asks one rule alone, ``output n=N`` asks for the output level of the first N runs, ``grow SIZE times=N
    rule=NAME`` prepends a run, asks the rule, applies it, N times; ``relevel`` puts run i on level i before.
    """

    strategy: str
    view: TreeView = field(default_factory=lambda: TreeView(runs=()))
    decision: Decision | None = None
    bound: object = None

    def run(self, verb: str, words: list[str], body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        match verb:
            case "define":
                self.view = TreeView(runs=read_runs(words, body))
                check_runs(self.view.runs)
                return list(note_odd_runs(self.view.runs, level_count=99)) or ["ok"]
            case "pick":
                self.bound, self.view = self.bind(read_pairs(words))
                self.decision = self.bound.pick(self.view)
                return [self.show(answer) for answer in self.decision.picks] or [f"skip: {self.decision.why_not}"]
            case "steps":
                return list(self.decision.steps)
            case "apply":
                self.view = self.bound.apply(self.view, self.decision)
                return [str(run) for run in self.view.runs]
            case "rule":
                return [self.show(self.ask_rule(words[0], read_pairs(words[1:])))]
            case "output":
                taken, level = universal.choose_output(
                    self.view.runs, int(read_pairs(words)["n"]), top=int(read_pairs(words)["top"])
                )
                return [f"{taken} runs -> L{level}"]
            case "grow":
                return list(self.grow(int(words[0]), read_pairs(words[1:])))
            case "offpeak":
                hours = build(OffPeakHours, read_pairs(words))
                return [" ".join(f"{hour}:{hours.ratio_pct_at(hour)}" for hour in range(24))]
        raise AssertionError(f"{verb} is not a directive")

    def bind(self, pairs: dict[str, str]):
        """The strategy with its options, and the view with what the caller knows."""
        known = {name: cast(pairs.pop(name)) for name in ("ms_since_full", "offpeak_ratio_pct") if name in pairs}
        if "calls_since_force" in pairs:
            known["calls_since_force"] = cast(pairs.pop("calls_since_force"))
        special = {"rules": Generation(pairs.pop("rules"))} if "rules" in pairs else {}
        plain = build(UniversalOptions, pairs, **special)
        match self.strategy:
            case "universal":
                bound = universal.universal_strategy(plain)
            case "force_up_level0":
                options = build(force_up_level0.ForceUpLevel0Options, pairs, universal=plain)
                bound = force_up_level0.force_up_level0_strategy(options)
            case _:
                self.full_options = build(full.FullOptions, pairs, universal=plain)
                bound = full.full_strategy(self.full_options)
        assert not pairs, f"no such options: {pairs}"
        return bound, replace(self.view, **known)

    def ask_rule(self, name: str, pairs: dict[str, str]) -> Pick | Skip:
        """One rule of universal alone."""
        rules = {
            "early-full": universal.pick_early_full,
            "size-amp": universal.pick_for_size_amp,
            "size-ratio": universal.pick_for_size_ratio,
            "run-count": universal.pick_for_run_count,
        }
        return rules[name](self.view, build(UniversalOptions, pairs))

    def grow(self, size: int, pairs: dict[str, str]):
        """Prepend runs one by one, and show the sizes after each answer of the rule."""
        times, rule, relevel = int(pairs.pop("times")), pairs.pop("rule"), pairs.pop("relevel", "no") == "yes"
        for _ in range(times):
            runs = (SortedRun(level=0, size_bytes=size), *self.view.runs)
            if relevel:
                runs = tuple(replace(run, level=at) for at, run in enumerate(runs))
            self.view = replace(self.view, runs=runs)
            answer = self.ask_rule(rule, dict(pairs))
            self.view = apply_tree_decision(self.view, Decision(answers=(answer,), steps=()))
            yield str([run.size_bytes for run in self.view.runs]).replace(" ", "")

    def show(self, answer: Pick | Skip) -> str:
        """Print a pick with names in place of positions."""
        if isinstance(answer, Skip):
            return str(answer)
        names = [self.view.runs[at].name for at in answer.inputs]
        if answer.reason == "file-rewrite":
            names = [file.name for file in full.files_to_rewrite(self.view.runs[0], self.full_options)]
        return f"{' '.join(names)} -> {answer.output}  reason={answer.reason}"


def read_runs(words: list[str], body: list[str]) -> tuple[SortedRun, ...]:
    """Read runs from one line or from many, or from the files they are made of."""
    if any("[" in line for line in body):
        return sort_runs(TreeFile.parse(line) for line in body)
    if body:
        return tuple(SortedRun.parse(line) for line in body)
    pairs = (word.split(":") for word in words)
    return tuple(
        SortedRun(level=int(level), size_bytes=int(size), name=LETTERS[at]) for at, (level, size) in enumerate(pairs)
    )


@dataclass
class Files:
    """sections, levels: ``define`` takes files as ``L0 f [1-3] 3B``.

    ``sections`` shows the sections, their runs with a bar between; ``plan output_level=N top_level=N`` what becomes of
    each file (``unit=a,b`` if not of all), ``apply`` the bucket after it. ``runs`` shows the sorted runs, ``highest``
    the highest level.
    """

    strategy: str
    files: tuple[TreeFile, ...] = ()
    plan: object = None

    def run(self, verb: str, words: list[str], body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        pairs = read_pairs(words)
        match verb:
            case "define":
                self.files = tuple(TreeFile.parse(line) for line in body)
                assert [str(file) for file in self.files] == body
                return ["ok"]
            case "sections":
                return [
                    " | ".join(" ".join(file.name for file in run) for run in section)
                    for section in split_sections(self.files)
                ]
            case "plan":
                return self.ask(pairs)
            case "apply":
                self.files = apply_section_plan(self.files, self.plan)
                return [str(file) for file in self.files]
            case "runs":
                return [str(run) for run in sort_runs(self.files)] or ["none"]
            case "highest":
                return [str(highest_level(self.files))]
        raise AssertionError(f"{verb} is not a directive")

    def ask(self, pairs: dict[str, str]) -> list[str]:
        """Plan the whole bucket or a unit of it."""
        unit = pairs.pop("unit", ",".join(file.name for file in self.files)).split(",")
        levels = {name: int(pairs.pop(name)) for name in ("output_level", "top_level")}
        options = build(SectionOptions, pairs)
        chosen = [file for file in self.files if file.name in unit]
        self.plan = plan_sections(chosen, options, **levels, highest_level=highest_level(self.files))
        said = [str(work) for work in self.plan.work] + [f"keep {file.name}" for file in self.plan.untouched]
        nothing = " (nothing to do)" if self.plan.is_no_op else ""
        return [*said, f"drop_deletes={'yes' if self.plan.drop_deletes else 'no'}{nothing}"]


@dataclass
class Segments:
    """minor, major, custom: ``define`` begins a command on segments in the item grammar (``0.1:300@5``).

    ``load`` adds segments after the command began, ``begin`` begins another. ``pick`` and ``apply`` one round,
    ``fixpoint`` all rounds, ``steps`` the last decision's comparisons; ``auto loads=N`` loads N segments and runs a
    command after each.
    """

    strategy: str
    view: SegmentView = field(default_factory=lambda: SegmentView(segments=()))
    decision: Decision | None = None
    bound: object = None

    def run(self, verb: str, words: list[str], body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        match verb:
            case "define":
                self.view = begin_command(SegmentView(segments=tuple(Segment.parse(word) for word in words)))
                return ["ok"]
            case "load":
                more = tuple(Segment.parse(word) for word in words)
                self.view = replace(self.view, segments=(*self.view.segments, *more))
                return ["ok"]
            case "begin":
                self.view = begin_command(self.view)
                return ["ok"]
            case "pick":
                self.bind(read_pairs(words))
                self.decision = self.bound.pick(self.view)
                return [self.show(pick) for pick in self.decision.picks] or [f"skip: {self.decision.why_not}"]
            case "steps":
                return list(self.decision.steps)
            case "apply":
                self.view = self.bound.apply(self.view, self.decision)
                return [self.table()]
            case "fixpoint":
                self.bind(read_pairs(words))
                return [*self.repeat(), self.table()]
            case "auto":
                return list(self.load_and_merge(read_pairs(words)))
        raise AssertionError(f"{verb} is not a directive")

    def bind(self, pairs: dict[str, str]) -> None:
        """The strategy with its options."""
        if "today" in pairs:
            self.view = replace(self.view, today=int(pairs.pop("today")))
        as_coded = pairs.pop("as_coded", "no") == "yes"
        rule = {"days_rule": days.DaysRule(pairs.pop("days_rule"))} if "days_rule" in pairs else {}
        numbers = {name: int(pairs.pop(name)) for name in ("preserve", "days") if name in pairs}
        selection = (days.as_coded_selection if as_coded else days.SelectionOptions)(**numbers, **rule)
        match self.strategy:
            case "minor":
                self.bound = minor.minor_strategy(read_minor(pairs, selection))
            case "major":
                self.bound = major.major_strategy(build(major.MajorOptions, pairs, selection=selection))
            case _:
                ids = tuple(SegmentId.parse(text) for text in pairs.pop("ids").split(","))
                options = build(custom.CustomOptions, pairs, ids=ids, as_coded=as_coded)
                self.bound = custom.custom_strategy(options)
                custom.check_ids(self.view, options)
        assert not pairs, f"no such options: {pairs}"

    def repeat(self) -> list[str]:
        """All rounds of one command, each in one line."""
        said = []
        for done in to_fixpoint(self.bound, self.view):
            self.view = done.before
            said += [self.show(pick) for pick in done.decision.picks]
            self.view = done.after
        return said

    def load_and_merge(self, pairs: dict[str, str]):
        """Load one by one, with a command after each."""
        loads = int(pairs.pop("loads"))
        for number in range(loads):
            one = Segment(id=SegmentId(number))
            self.view = begin_command(replace(self.view, segments=(*self.view.segments, one)))
            self.bind(dict(pairs))
            yield from (f"load {number}: {line}" for line in self.repeat())
        yield self.table()

    def show(self, pick: Pick) -> str:
        """Print a pick with ids in place of positions."""
        ids = " ".join(str(self.view.segments[at].id) for at in pick.inputs)
        return f"{ids} -> {pick.output}  reason={pick.reason}"

    def table(self) -> str:
        """All segments in one line."""
        return " ".join(map(str, self.view.segments)) or "empty"


def read_minor(pairs: dict[str, str], selection) -> minor.MinorOptions:
    """Minor's own options; as coded, what is wrong is repaired."""
    text = pairs.pop("level_threshold", "4,3")
    cap = int(pairs.pop("minor_size_mb")) if "minor_size_mb" in pairs else None
    if selection.as_coded:
        return minor.as_coded_minor(text, minor_size_mb=cap, selection=selection)
    threshold = minor.parse_level_threshold(text)
    return minor.MinorOptions(level_threshold=threshold, minor_size_mb=cap, selection=selection)


@dataclass
class Append:
    """append_bins, bucketed_append: ``define`` takes files as ``10MB rows=9 deleted=3 dv=x``, ``… xN`` for N of them.

    ``pick``, ``steps`` and ``apply`` as ever, files by position; ``fixpoint`` all rounds; ``wait N`` counts rounds in
    which nothing was packed.
    """

    strategy: str
    view: AppendView = field(default_factory=lambda: AppendView(files=()))
    decision: Decision | None = None
    bound: object = None

    def run(self, verb: str, words: list[str], body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        match verb:
            case "define":
                self.view = AppendView(files=tuple(file for line in body for file in read_files(line)))
                return ["ok"]
            case "pick":
                self.bind(read_pairs(words))
                self.decision = self.bound.pick(self.view)
                return [show_append(pick) for pick in self.decision.picks] or [f"skip: {self.decision.why_not}"]
            case "steps":
                return list(self.decision.steps)
            case "apply":
                self.view = self.bound.apply(self.view, self.decision)
                return self.table()
            case "fixpoint":
                self.bind(read_pairs(words))
                rounds = to_fixpoint(self.bound, self.view)
                self.view = rounds[-1].after
                return [*(show_append(pick) for done in rounds for pick in done.decision.picks), *self.table()]
            case "wait":
                said = []
                for number in range(1, int(words[0]) + 1):
                    done = run_round(self.bound, self.view)
                    said += [f"round {number}: {', '.join(map(show_append, done.decision.picks)) or 'nothing'}"]
                    self.view = done.after
                return said
        raise AssertionError(f"{verb} is not a directive")

    def bind(self, pairs: dict[str, str]) -> None:
        """The strategy with its options."""
        if self.strategy == "append_bins":
            self.bound = append_bins.append_strategy(build(append_bins.AppendOptions, pairs))
        else:
            options = build(bucketed_append.BucketedAppendOptions, pairs)
            self.bound = bucketed_append.bucketed_append_strategy(options)
        assert not pairs, f"no such options: {pairs}"

    def table(self) -> list[str]:
        """The files, equal neighbours counted."""
        counted = [(line, len(list(same))) for line, same in groupby(map(str, self.view.files))]
        return [f"{line} x{number}" if number > 1 else line for line, number in counted] or ["empty"]


def read_files(line: str) -> list[AppendFile]:
    """Read ``10MB x20``; ``dv=*`` gives each file an index file of its own."""
    text, _, number = line.rpartition(" x") if " x" in line else (line, "", "1")
    return [AppendFile.parse(text.replace("dv=*", f"dv=own{at}")) for at in range(int(number))]


def show_append(pick: Pick) -> str:
    """Print positions as ranges: ``0-5 8 -> 60MB``."""
    parts = []
    for _, same in groupby(enumerate(pick.inputs), key=lambda pair: pair[1] - pair[0]):
        members = [at for _, at in same]
        parts.append(str(members[0]) if len(members) == 1 else f"{members[0]}-{members[-1]}")
    return f"{' '.join(parts)} -> {pick.output}  reason={pick.reason}"


@dataclass
class Folder:
    """small_files: ``define`` lists the files in name order as ``NAME SIZE [group=N] [merged]``.

    ``merged`` is an output of an earlier run. ``pick OPTION=VALUE`` asks the strategy, ``steps`` shows its comparisons,
    ``apply`` the folder after its last answer; merged files are called p1, p2 and so on.
    """

    strategy: str = "small_files"
    files: list[tuple[str, Candidate]] = field(default_factory=list)
    answers: tuple[Pick | Skip, ...] = ()
    numbers: count = field(default_factory=lambda: count(1))

    def run(self, verb: str, words: list[str], body: list[str]) -> list[str]:
        """Obey one directive; return what it says."""
        match verb:
            case "define":
                self.files = [read_file(line) for line in body]
                self.numbers = count(1)
                return ["ok"]
            case "pick":
                decision = pick_small_files([file for _, file in self.files], read_options(read_pairs(words)))
                self.answers, self.steps = decision.answers, decision.steps
                return [self.show(answer) for answer in self.answers] or ["nothing"]
            case "steps":
                return list(self.steps)
            case "apply":
                self.apply()
                return [show_file(name, file) for name, file in self.files]
        raise AssertionError(f"{verb} is not a directive")

    def show(self, answer: Pick | Skip) -> str:
        """Print a pick with names in place of positions."""
        if isinstance(answer, Skip):
            return str(answer)
        names = " ".join(self.files[at][0] for at in answer.inputs)
        assert answer.output == sum(self.files[at][1].size_bytes for at in answer.inputs)
        return f"{names} -> {show_size(answer.output)}  reason={answer.reason}"

    def apply(self) -> None:
        """Replace the inputs of all picks by their outputs, in name order."""
        picks = [answer for answer in self.answers if isinstance(answer, Pick)]
        gone = {at for pick in picks for at in pick.inputs}
        made = [
            (
                f"p{next(self.numbers)}",
                Candidate(size_bytes=pick.output, group=self.files[pick.inputs[0]][1].group, is_known_output=True),
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
    return str(int(size_bytes))


def read_options(options: dict[str, str]) -> SmallFilesOptions:
    """Read ``threshold=120MB target=120MB min_files=5``, all of which have defaults."""
    target = parse_bytes(options.get("target", "120MB"))
    return SmallFilesOptions(
        threshold_bytes=parse_bytes(options["threshold"]) if "threshold" in options else target,
        target_bytes=target,
        min_files=int(options.get("min_files", "5")),
    )


STAGES = {
    "small_files": Folder,
    "universal": Tree,
    "force_up_level0": Tree,
    "full": Tree,
    "sections": Files,
    "levels": Files,
    "append_bins": Append,
    "bucketed_append": Append,
    "minor": Segments,
    "major": Segments,
    "custom": Segments,
}
SCENARIOS = sorted(path for strategy in STAGES for path in (TESTDATA / strategy).glob("*.txt"))


def replay(text: str, strategy: str) -> str:
    """Run a whole scenario and return it with the answers of today; an error is an answer too."""
    stage = STAGES[strategy](strategy)
    lines: list[str] = []
    waiting: list[str] = []
    in_answer = False
    for line in text.splitlines():
        if in_answer:
            in_answer = line != ""
            lines += [] if in_answer else [line]
        elif line == "----":
            command, *body = waiting
            verb, *words = command.split()
            try:
                said = stage.run(verb, words, body)
            except PackstoneError as error:
                said = [f"error: {error}"]
            lines += [line, *said]
            waiting, in_answer = [], True
        else:
            waiting += [] if line.startswith("#") or not line else [line]
            lines.append(line)
    assert not waiting, f"no ---- after {waiting[0]}"
    return "\n".join(lines).rstrip("\n") + "\n"


@pytest.mark.parametrize("path", SCENARIOS, ids=[f"{path.parent.name}/{path.stem}" for path in SCENARIOS])
def test_scenario(path, request):
    """Every answer in the file is the strategy's answer."""
    text = path.read_text()
    today = replay(text, path.parent.name)
    if request.config.getoption("--rewrite"):
        path.write_text(today)
    else:
        assert today == text


def test_the_scenarios_are_found():
    """A folder that was moved would pass by having no tests, and one without a stage by not being read."""
    others = {"metastore", "outcomes", "paimon", "sql"}  # dumps, answers, tables, statements (tests/cli/test_sql.py)
    folders = {path.name for path in TESTDATA.iterdir()} - others
    assert {path.parent.name for path in SCENARIOS} == set(STAGES) == folders
