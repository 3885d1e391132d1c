"""Records beside a table may be damaged or made by somebody else: nothing outside is touched, and no row is lost.

The fuzzer takes a table with a finished run, a run that was killed in the middle of a swap, owners and unrecorded runs;
damages one record; runs one command; and looks at everything that is there afterwards.
"""

import json
import os
import random
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from record_files import edit_record

from packstone.errors import CorruptionError, PackstoneError, RefusedError
from packstone.model.codec import seal
from packstone.pipeline.table import Table
from packstone.storage.fileio import MAX_WHOLE_BYTES
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.options import HiveOptions

OPTIONS = HiveOptions(min_files=3, keep_days=0)


@dataclass
class Scene:
    """A lake with records worth damaging."""

    root: Path
    seed: Path

    @property
    def table(self) -> Path:
        """The table."""
        return self.root / "lake" / "t"

    @property
    def state(self) -> Path:
        """Its records."""
        return self.root / "lake" / ".packstone" / "t"

    def reset(self) -> None:
        """Everything as it was made."""
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.seed, self.root, copy_function=shutil.copy2)

    def records(self) -> list[Path]:
        """All records, in an order that does not depend on run ids."""
        return sorted(self.state.rglob("*.json"), key=lambda path: (path.name.partition("-")[0], str(path)))

    def rows(self) -> list[str]:
        """What readers see."""
        found = (path for path in self.table.rglob("*") if path.is_file() and path.name[0] not in "._")
        return sorted(line for path in found for line in path.read_text().splitlines())

    def all_lines(self) -> set[str]:
        """Every row that is still anywhere, be it in a backup or in the staging folder."""
        found = (path for path in (self.root / "lake").rglob("*") if path.is_file())
        files = (path for path in found if path.suffix != ".json" and not path.name.startswith("done-"))
        return {line for path in files for line in path.read_text().splitlines()}

    def outside(self) -> dict[str, bytes]:
        """What is none of our business."""
        folder = self.root / "outside"
        return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}

    def open(self) -> Table:
        """The table as a command opens it; the history makes it look at unrecorded runs too."""
        return Table(str(self.table), history=f"sqlite:///{self.root}/h.db")


@pytest.fixture(scope="module")
def made(tmp_path_factory, children):
    """Make the scene once: dt=1 is merged, dt=2 was killed when two of four originals had moved."""
    base = tmp_path_factory.mktemp("records")
    scene = Scene(root=base / "work", seed=base / "seed")
    (base / "work" / "outside").mkdir(parents=True)
    (base / "work" / "outside" / "secret.txt").write_text("precious\n")
    for partition in ("dt=1", "dt=2"):
        (scene.table / partition).mkdir(parents=True)
        for at in range(4):
            (scene.table / partition / f"f{at}.csv").write_text("".join(f"{partition},{at},{n}\n" for n in range(5)))
    Table(f"{scene.table}/dt=1").compact(OPTIONS)
    path = f"{scene.table}/dt=2"
    copy = shutil.copytree(scene.root, base / "copy", copy_function=shutil.copy2)
    steps = children.run("compact", path=path, min_files=3)["steps"]
    shutil.rmtree(scene.root)
    shutil.move(copy, scene.root)
    step = [at for at, text in enumerate(steps) if text.startswith("move ")][1]
    fault = {"step": step, "action": "kill", "moment": "after"}
    assert children.run("compact", path=path, min_files=3, fault=fault)["status"] == -9
    shutil.copytree(scene.root, scene.seed, copy_function=shutil.copy2)
    return scene


@pytest.fixture
def scene(made, monkeypatch):
    """The scene as it was made."""
    monkeypatch.setenv("PACKSTONE_UNRECORDED", str(made.root / "unrecorded"))
    made.reset()
    return made


def intent_of(scene: Scene, partition: str) -> Path:
    """The journal of the run that merged a partition, which merged no other."""
    journals = scene.seed.glob("lake/.packstone/t/runs/*/wave-0001.intent.json")
    found = {json.loads(path.read_bytes())["swaps"][0]["partition"]: path for path in journals}
    return scene.root / found[partition].relative_to(scene.seed)


def edit_intent(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Change the one intent of a journal."""
    edit_record(path, lambda record: change(record["swaps"][0]))


def run_of(scene: Scene, partition: str) -> str:
    """The run that merged a partition."""
    return intent_of(scene, partition).parent.name


COMMANDS: dict[str, Callable[[Scene], Any]] = {
    "recover": lambda scene: scene.open().recover(),
    "compact": lambda scene: scene.open().compact(OPTIONS),
    "clean": lambda scene: scene.open().clean(),
    "restore": lambda scene: scene.open().restore(run_of(scene, "dt=1")),
    "verify": lambda scene: scene.open().verify(run_of(scene, "dt=1")),
    "health": lambda scene: scene.open().health(OPTIONS),
}


def call(scene: Scene, command: str) -> str:
    """Run a command; what it complains of, empty if of nothing. Anything but our own errors is a failure."""
    try:
        answer = COMMANDS[command](scene)
    except PackstoneError as error:
        return error.message
    plain = answer.to_json()
    hazards = [one["evidence"] for one in plain.get("hazards", ())]
    skipped = [one["why"] for one in plain.get("skipped", ()) if one["kind"] != "not-needed"]
    return " ".join([*plain.get("left_alone", ()), *plain.get("problems", ()), *hazards, *skipped])


# ---- single cases ----


@pytest.mark.parametrize("command", ["recover", "compact", "clean", "restore"])
def test_an_intent_of_a_newer_version_refuses_before_anything_is_changed(scene, command, tree):
    """Pending or not, a format that we do not know is not acted on, nor is anything else of the table."""
    edit_record(intent_of(scene, "dt=2"), lambda record: record.update(format_version=99))
    before = tree(scene.root / "lake")
    with pytest.raises(RefusedError, match="newer packstone"):
        COMMANDS[command](scene)
    assert tree(scene.root / "lake") == before


def hostile(record: dict[str, Any], scene: Scene) -> dict[str, Callable[[], Any]]:
    """Ways to make an intent lead elsewhere."""
    outside = str(scene.root / "outside")
    output = record["outputs"][0]
    return {
        "directory": lambda: record.update(directory=outside),
        "directory above": lambda: record.update(directory=str(scene.table / "dt=2" / ".." / ".." / ".." / "outside")),
        "backup": lambda: record.update(backup_directory=outside),
        "backup that looks like ours": lambda: record.update(
            backup_directory=f"{outside}/t/{record['run']}/{record['partition']}"
        ),
        "staged": lambda: output.update(staged_path=f"{outside}/secret.txt"),
        "staged above": lambda: output.update(staged_path=f"{Path(output['staged_path']).parent}/../../../../x"),
        "output": lambda: output.update(name="../../../outside/new"),
        "input": lambda: record["inputs"][0].update(name="../../../outside/secret.txt"),
        "summary": lambda: record.update(summaries=[f"{outside}/secret.txt"]),
        "summary by name": lambda: record.update(summaries=[f"{outside}/_metadata"]),
        "partition": lambda: record.update(partition="dt=9"),
        "partition above": lambda: record.update(partition="../../outside"),
        "run": lambda: record.update(run="../../../../outside"),
        "switch": lambda: record.update(
            backup_directory=record["directory"],
            switch={
                "table": "db.t",
                "name": "dt=2",
                "old_location": "x",
                "new_location": "y",
                "folder": outside,
                "copies": [],
            },
        ),
        "another output's input": lambda: output.update(inputs=["nobody.csv"]),
        "an input twice": lambda: output["inputs"].append(output["inputs"][0]),
        "no outputs": lambda: record.update(outputs=[], inputs=[]),
    }


WAYS = list(
    hostile({"outputs": [{"staged_path": "/x/y", "inputs": []}], "run": "r", "partition": "p"}, Scene(Path(), Path()))
)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partition", ["dt=1", "dt=2"])
@pytest.mark.sample(3)
def test_a_record_that_leads_elsewhere_is_damaged(scene, way, partition):
    """Even if its digest fits: nothing outside is touched, and every command says which record it is."""
    path = intent_of(scene, partition)
    edit_intent(path, lambda record: hostile(record, scene)[way]())
    before, rows = scene.outside(), scene.all_lines()
    pending = partition == "dt=2"
    for command in ("recover", "compact", "health", "clean") if pending else ("clean", "verify", "restore"):
        assert path.name in call(scene, command), command
        assert (scene.outside(), scene.all_lines()) == (before, rows)


def test_a_folder_of_a_swap_exchanged_for_a_link(scene):
    """A partition that is a symbolic link by now would lead recovery out of the table."""
    (scene.root / "outside" / "dt").mkdir()
    shutil.move(scene.table / "dt=2", scene.root / "outside" / "real")
    (scene.table / "dt=2").symlink_to(scene.root / "outside" / "dt")
    before = scene.outside()
    assert "is a link and not the folder" in call(scene, "recover")
    assert scene.outside() == before
    (scene.table / "dt=2").unlink()
    shutil.move(scene.root / "outside" / "real", scene.table / "dt=2")
    assert call(scene, "recover") == ""
    assert len(scene.rows()) == 40


def test_a_backup_that_is_a_link(scene):
    """Clean does not remove what a link in the backup leads to."""
    backup = scene.state / "backup" / run_of(scene, "dt=1") / "dt=1"
    shutil.copytree(backup, scene.root / "outside" / "kept", copy_function=shutil.copy2)
    shutil.rmtree(backup)
    backup.symlink_to(scene.root / "outside" / "kept")
    before = scene.outside()
    assert "is a link" in call(scene, "clean")
    assert scene.outside() == before


def make_odd(path: Path, kind: str) -> None:
    """Put something at a path that is not a record: who reads it waits, or never comes to its end."""
    path.unlink(missing_ok=True)
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "folder":
            path.mkdir()
        case "endless":
            path.symlink_to("/dev/zero")
        case _:
            with path.open("wb") as file:
                file.truncate(MAX_WHOLE_BYTES + 1)


ODD_KINDS = ("pipe", "folder", "endless", "huge")


@pytest.mark.parametrize("kind", ODD_KINDS)
@pytest.mark.parametrize("name", ["run.json", "wave-0001.intent.json"])
def test_what_is_not_a_record_is_one_sentence(scene, name, kind):
    """A pipe, a folder, a device or a huge file in the place of a record stops no command and fills no memory."""
    path = intent_of(scene, "dt=2").with_name(name)
    rows = scene.all_lines()
    make_odd(path, kind)
    for command in ("recover", "compact", "health", "clean"):
        assert path.name in call(scene, command), command
    path.rmdir() if kind == "folder" else path.unlink()
    assert scene.all_lines() == rows


@pytest.mark.parametrize("kind", ODD_KINDS)
@pytest.mark.parametrize("name", ["owners/dt=1/000009.json", "deaths/aa.json", "unrecorded/aa.json"])
def test_what_is_not_an_owner_or_a_note(scene, name, kind):
    """An owner file of another kind is a conflict; a note about a death or a run says nothing."""
    call(scene, "recover")
    for at in range(4):
        (scene.table / "dt=1" / f"g{at}.csv").write_text(f"dt=1,{at},9\n")
    (scene.state / name).parent.mkdir(parents=True, exist_ok=True)
    make_odd(scene.state / name, kind)
    said = call(scene, "compact")
    assert ("000009.json" in said) == ("owners" in name)
    assert len(scene.rows()) == 44


@pytest.mark.parametrize(
    "folder", ["staging/20200101T000000-abcdef", "backup/20200101T000000-abcdef", "staging/plan-a"]
)
def test_folders_within_folders(scene, folder):
    """More folders below each other than the interpreter has frames stop no command."""
    call(scene, "recover")
    deep = scene.state / folder
    deep.mkdir(parents=True)
    at = os.open(deep, os.O_RDONLY)
    for _ in range(1_100):
        os.mkdir("d", dir_fd=at)
        below = os.open("d", os.O_RDONLY, dir_fd=at)
        os.close(at)
        at = below
    os.close(at)
    try:
        for command in ("recover", "compact", "health", "clean"):
            assert call(scene, command) == "", command
    finally:
        subprocess.run(["rm", "-rf", deep], check=True)
    assert len(scene.rows()) == 40


@pytest.mark.parametrize("by", ["link", "folder"])
def test_a_partition_exchanged_while_it_is_merged(scene, by):
    """A folder that is another one by the time of the swap is a conflict, however alike its files are."""
    call(scene, "recover")
    folder = scene.table / "dt=3"
    folder.mkdir()
    for at in range(4):
        (folder / f"g{at}.csv").write_text(f"{at}\n")
    copy = shutil.copytree(folder, scene.root / "outside" / "copy", copy_function=shutil.copy2)
    before = scene.outside()

    class Exchanging(LocalFileIO):
        """Exchanges the folder when the merged file is synced."""

        def sync_file(self, path: str) -> None:
            super().sync_file(path)
            if folder.is_symlink() or not path.endswith(".data"):
                return
            shutil.move(folder, scene.root / "aside")
            if by == "link":
                folder.symlink_to(copy)
            else:
                shutil.copytree(copy, folder, copy_function=shutil.copy2)

    outcome = Table(str(scene.table), io=Exchanging()).compact(OPTIONS)
    assert "was exchanged for another" in outcome.skipped[-1].why
    assert outcome.units == ()
    assert scene.outside() == before
    assert len(list((scene.root / "aside").iterdir())) == 4


@pytest.mark.parametrize("lost", range(4))
def test_an_original_that_was_lost_from_the_backup(scene, lost, tree):
    """Two of four had moved: what may have been lost after its move keeps the swap as it is, and the merged file."""
    kept = scene.state / "backup" / run_of(scene, "dt=2") / "dt=2" / f"f{lost}.csv.kept"
    place = scene.table / "dt=2" / f"f{lost}.csv"
    (kept if kept.exists() else place).unlink()
    before = tree(scene.table)
    said = call(scene, "recover")
    if lost < 3:
        assert f"f{lost}.csv" in said
        assert tree(scene.table) == before
        assert len(scene.all_lines()) == 40
        place.write_text("put back\n")
        assert call(scene, "recover") == ""
        assert "put back" in scene.rows()
    else:  # the one before it has not moved, so somebody removed it from the table: its rows do not come back
        assert said == ""
        assert len(scene.rows()) == 35


@pytest.mark.parametrize("name", ["{}x", "packstone-x", "f9.csv"])
def test_a_merged_file_that_no_record_names(scene, name):
    """A record with another name for its output: the originals do not return beside the rows that are there."""
    path = intent_of(scene, "dt=1")
    edit_intent(path, lambda record: record["outputs"][0].update(name=name.format(record["outputs"][0]["name"])))
    before = scene.rows()
    assert "no record of the run names it" in call(scene, "restore")
    assert [row for row in scene.rows() if row.startswith("dt=1")] == [row for row in before if row.startswith("dt=1")]


def test_a_backup_that_no_record_explains(scene):
    """Its rows may be missing from the table: recover and health say so, compact and clean touch nothing."""
    intent_of(scene, "dt=2").unlink()
    rows = scene.all_lines()
    for command in ("recover", "compact", "clean", "health", "recover"):
        said = call(scene, command)
        assert "2 originals that no record explains" in said, command
    assert scene.all_lines() == rows


def test_no_advice_to_remove_records(scene):
    """Whoever follows a message must not lose rows."""
    for path in scene.records():
        scene.reset()
        path.write_text("{")
        for command in COMMANDS:
            said = call(scene, command)
            assert "move it away" not in said
            assert "remove" not in said


def test_a_damaged_owner_stops_its_partition_only(scene):
    """Nobody knows who owns it; a person who does says --take-over."""
    call(scene, "recover")
    owner = max((scene.state / "owners" / "dt=2").iterdir())
    owner.write_text("{")
    for partition in ("dt=2", "dt=3"):
        (scene.table / partition).mkdir(exist_ok=True)
        for at in range(4):
            (scene.table / partition / f"g{at}.csv").write_text(f"{partition},{at},9\n")
    outcome = scene.open().compact(OPTIONS)
    assert [unit.partition for unit in outcome.units] == ["dt=3"]
    assert "--take-over" in outcome.skipped[-1].why
    outcome = scene.open().compact(OPTIONS, take_over=True)
    assert [unit.partition for unit in outcome.units] == ["dt=2"]


def test_damage_is_an_error_of_its_kind(scene):
    """Callers can tell it from a conflict."""
    intent_of(scene, "dt=2").write_text("{")
    with pytest.raises(CorruptionError):
        scene.open().compact(OPTIONS)


# ---- the fuzzer ----


def _places(plain: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [at] if at else []
    if isinstance(plain, dict):
        return found + [place for key in plain for place in _places(plain[key], (*at, key))]
    if isinstance(plain, list):
        return found + [place for key, one in enumerate(plain) for place in _places(one, (*at, key))]
    return found


def _odd_value(rng: random.Random, scene: Scene, old: Any) -> Any:
    outside = str(scene.root / "outside")
    common = [
        None,
        0,
        -1,
        1,
        2**31,
        2**63,
        10**30,
        0.5,
        1e308,
        "",
        "x",
        "..",
        "../x",
        "/",
        outside,
        f"{outside}/secret.txt",
    ]
    odd = [
        [],
        {},
        [1],
        {"a": 1},
        [[[[]]]],
        True,
        False,
        "\0",
        "a" * 300,
        "\ud800",
        "f0.csv",
        "dt=1",
        "dt=2",
        "2026-01-01",
    ]
    near = [old + 1, old - 1] if type(old) is int else [old + "x", old[:-1]] if type(old) is str else [old]
    return rng.choice([*common, *odd, *near, *near])


def mutate(rng: random.Random, scene: Scene, path: Path) -> None:
    """Damage one record: bytes, or values, keys and lists with a digest that fits."""
    data = bytearray(path.read_bytes())
    kind = rng.choice(["bits", "cut", "value", "value", "value", "drop", "double", "swap"])
    if kind == "bits":
        for _ in range(rng.randint(1, 4)):
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    elif kind == "cut":
        at = rng.randrange(len(data))
        data = data[:at] if rng.random() < 0.7 else data[:at] + bytes(rng.randbytes(rng.randint(1, 50)))
    if kind in ("bits", "cut"):
        path.write_bytes(data)
        return
    plain = json.loads(data)
    plain.pop("digest", None)
    places = _places(plain)
    *above, key = rng.choice(places)
    at = plain
    for step in above:
        at = at[step]
    if kind == "drop":
        del at[key]
    elif kind == "double" and isinstance(at, list):
        at.append(at[key])
    elif kind == "swap" and isinstance(at, list):
        rng.shuffle(at)
    else:
        at[key] = _odd_value(rng, scene, at[key])
    path.write_bytes(seal(json.dumps(plain, separators=(",", ":")).encode()))


def fuzz(scene: Scene, *, seed: int, cases: int) -> None:
    """Damage, run, look; then the same again with the next command, on what the first one left."""
    scene.reset()
    rows, lines, before = 40, scene.all_lines(), scene.outside()
    for case in range(seed, seed + cases):
        rng = random.Random(case)
        scene.reset()
        records = scene.records()
        for path in rng.sample(records, rng.choice([1, 1, 1, 2])):
            mutate(rng, scene, path)
        commands = rng.sample(list(COMMANDS), 2)
        said = [call(scene, command) for command in commands]
        assert scene.outside() == before, (case, commands)
        if "clean" not in commands:
            assert scene.all_lines() >= lines, (case, commands)
        said.append(call(scene, "recover"))
        whole = len(scene.rows()) == rows and set(scene.rows()) <= lines
        assert whole or any(said), (case, commands, scene.rows())


@pytest.mark.slow
def test_mutated_records(scene):
    """Whatever a record says, nothing outside is touched, no row is lost, and no error is anything but a sentence."""
    fuzz(scene, seed=0, cases=150)


@pytest.mark.soak
def test_mutated_records_for_long(scene):
    """The same 5,000 times."""
    fuzz(scene, seed=1_000_000, cases=5_000)
