"""Commits and versions: found with and without the hint, races, sleepers, time travel, lists, broken stores."""

import itertools
from dataclasses import replace

import pytest
from segment_calls import commit_delete, segment_create, segment_load, segment_merge, segment_prune

from packstone.errors import (
    CommitUnknownError,
    ConflictError,
    CorruptionError,
    InvalidInputError,
    RefusedError,
    UnavailableError,
)
from packstone.model.segment import SegmentId
from packstone.runs.clock import Clock
from packstone.storage.memory import MemoryFileIO
from packstone.tables.segments.clean import plan_clean
from packstone.tables.segments.format.commit import commit_edit
from packstone.tables.segments.format.edits import alter_properties, begin_load, cleaned
from packstone.tables.segments.format.layout import hint_path, history_folder, retired_folder, status_path
from packstone.tables.segments.format.status_files import (
    find_as_of,
    find_latest,
    list_versions,
    publish,
    raise_floor,
    read_floor,
    read_head,
    read_history,
    read_kept_version,
    read_latest,
    read_retired,
    read_version,
)

T = "/t"
ID = SegmentId.parse


class Tools:
    """A clock that goes by one at each look, ids in order, sleep that is remembered."""

    def __init__(self):
        self.clock, self.ids, self.slept = itertools.count(1000), itertools.count(), []

    def make(self):
        """What a commit gets."""
        return Clock(
            now_ms=lambda: next(self.clock),
            new_id=lambda: f"id{next(self.ids)}",
            random=lambda: 0.5,
            sleep=self.slept.append,
        )


@pytest.fixture
def clock():
    """One for the test."""
    return Tools().make()


@pytest.fixture
def io(clock):
    """A store with an empty table."""
    io = MemoryFileIO()
    segment_create(io, T, clock=clock)
    return io


def alter(io, clock, **changes):
    """A commit that always changes something: sizes from 1 up."""
    changes = changes or {"MAJOR_COMPACTION_SIZE": str(read_latest(io, T).version)}
    return commit_edit(io, T, lambda status: alter_properties(status, changes), clock=clock, operation="alter")


def names(io, folder):
    """What a folder contains."""
    return sorted(entry.name for entry in io.list_dir(folder))


def test_create_once(io, clock):
    """A second create says so and changes nothing."""
    before = read_latest(io, T)
    with pytest.raises(InvalidInputError, match="/t is a segment table already"):
        segment_create(io, T, clock=clock)
    assert read_latest(io, T) == before
    assert (before.version, before.next_load, before.entries, before.ancestors) == (1, 0, (), ())
    for _ in range(3):
        alter(io, clock)
    segment_prune(io, T, keep=2)
    with pytest.raises(InvalidInputError, match="/t is a segment table already"):  # though its first number is free
        segment_create(io, T, clock=clock)
    assert list_versions(io, T) == range(3, 5)
    assert io.stat(status_path(T, 1)) is None


def test_no_table():
    """A path without versions is reported in one sentence, whatever is asked."""
    for call in (read_latest, list_versions, lambda io, table: find_as_of(io, table, 5)):
        with pytest.raises(InvalidInputError, match="/t is not a segment table"):
            call(MemoryFileIO(), T)


def test_versions_form_a_chain(io, clock):
    """Each names its parent; times never decrease, even if a writer's clock goes back."""
    segment_load(io, T, clock=clock)
    back = replace(clock, now_ms=lambda: 3)
    alter(io, back)
    found = [read_version(io, T, version) for version in list_versions(io, T)]
    assert [one.version for one in found] == [1, 2, 3, 4]
    assert all(later.ancestors[-1] == one.commit for one, later in itertools.pairwise(found))
    assert found[3].written_ms == found[2].written_ms
    assert [one.operation for one in found] == ["create", "load", "load", "alter"]


def test_an_edit_that_changes_nothing_publishes_nothing(io, clock):
    """The newest version is returned."""
    alter(io, clock, COMPRESSION="none")
    assert alter(io, clock, COMPRESSION="none").version == 2
    assert list_versions(io, T)[-1] == 2


@pytest.mark.parametrize("hint", [None, b"", b"x y", b"1", b"3\n", b"-4", b"9" * 99, "²".encode(), b"\xff"])
def test_the_hint_may_lag_or_be_lost(io, clock, hint):
    """Lost, stale, of an older packstone or garbage: the newest version is found anyway."""
    for _ in range(5):
        alter(io, clock)
    if hint is None:
        io.remove(hint_path(T))
    else:
        io.replace(hint_path(T), hint)
    assert find_latest(io, T) == 6
    assert alter(io, clock).version == 7


@pytest.mark.parametrize("lost", [1, 3, 5])
def test_lost_versions_are_not_passed_over(io, clock, lost):
    """If the newest status files are gone, the hint tells; nothing is read, committed or cleaned on an older one."""
    for _ in range(5):
        alter(io, clock)
    kept = {version: io.read_bytes(status_path(T, version)) for version in range(1, 7)}
    for version in range(7 - lost, 7):
        io.remove(status_path(T, version))
    for call in (
        read_latest,
        find_latest,
        list_versions,
        lambda *_: alter(io, clock),
        lambda *_: plan_clean(io, T, now_ms=1),
    ):
        with pytest.raises(
            CorruptionError, match=r"00006\.json is missing: /t had version 6, but its newest status file is"
        ):
            call(io, T)
    for version in range(7 - lost, 7):
        io.replace(status_path(T, version), kept[version])
    assert read_latest(io, T).version == 6


def test_versions_below_the_floor_that_are_left_alone_do_not_pass_for_the_table(io, clock):
    """A floor above all versions means the same as a hint: the newest ones are lost."""
    for _ in range(5):
        alter(io, clock)
    raise_floor(io, T, 5)
    io.remove(hint_path(T))
    for version in (5, 6):
        io.remove(status_path(T, version))
    with pytest.raises(CorruptionError, match="is missing"):
        read_latest(io, T)


def test_a_hint_of_a_newer_packstone_is_refused(io, clock):
    """Before anything is changed."""
    io.replace(hint_path(T), io.read_bytes(hint_path(T)).replace(b'"format_version":2', b'"format_version":9'))
    with pytest.raises(RefusedError, match="newer packstone"):
        alter(io, clock)


def test_a_hint_far_behind(io, clock):
    """Beyond some steps the folder is listed; when the hinted version is cleaned too."""
    old = io.read_bytes(hint_path(T))
    for _ in range(80):
        alter(io, clock)
    io.replace(hint_path(T), old)
    assert find_latest(io, T) == 81
    for version in range(1, 70):
        io.remove(status_path(T, version))
    assert find_latest(io, T) == 81
    assert list_versions(io, T) == range(70, 82)


class Race(MemoryFileIO):
    """A store on which somebody does something just before or after a version is published."""

    def __init__(self, before=(), after=()):
        super().__init__()
        self.before, self.after = list(before), list(after)

    def write_new(self, path, data, **options):
        """Let the others go first, or next."""
        is_status = "/status/" in path
        if is_status and self.before:
            self.before.pop(0)()
        super().write_new(path, data, **options)
        if is_status and self.after:
            self.after.pop(0)()


def test_somebody_is_quicker(clock):
    """The edit is reduced again on what the others made; every id is given out once, also when they race each other."""
    io = Race()
    segment_create(io, T, clock=clock)
    counter = itertools.count()
    other = replace(Tools().make(), new_id=lambda: f"other{next(counter)}")
    io.before = [lambda: segment_load(io, T, clock=other)] * 3
    assert segment_load(io, T, clock=clock) == "3"
    assert [str(entry.id) for entry in read_latest(io, T).live] == ["0", "1", "2", "3"]
    assert list_versions(io, T) == range(1, 10)


def test_a_lost_try_leaves_no_chunk_behind(clock):
    """The chunk of a try whose number was taken goes; the one that is published stays."""
    io = Race()
    segment_create(io, T, clock=clock)
    for _ in range(20):
        segment_load(io, T, clock=clock)
    io.before = [lambda: alter(io, clock)]
    commit_delete(io, T, [ID(str(number)) for number in range(18)], clock=clock)
    head = read_head(io, T, read_latest(io, T).version)
    assert names(io, retired_folder(T)) == [one.name for one in head.retired.chunks] != []
    assert [entry.id.load for entry in read_retired(io, T, read_latest(io, T))] == list(range(18))
    assert [entry.id.load for entry in read_latest(io, T).entries] == [18, 19]


def test_races_that_are_always_lost_end(clock):
    """After very many tries it is a conflict; waits are short and bounded."""
    slept = []
    io = Race()
    segment_create(io, T, clock=clock)
    rival = Tools()
    rival.ids = itertools.count(10_000)
    io.before = []

    def interfere():
        alter(io, rival.make())
        io.before = [interfere]

    io.before = [interfere]
    with pytest.raises(ConflictError, match="500 tries to commit lost the race"):
        alter(io, replace(clock, sleep=slept.append), COMPRESSION="none")
    assert len(slept) == 499
    assert 0 < max(slept) <= 0.1


def test_an_edit_that_does_not_fit_any_more(io, clock):
    """What it raises is passed on; nothing is committed."""
    segment_load(io, T, clock=clock)
    with pytest.raises(InvalidInputError, match="Segment 4 does not exist"):
        commit_delete(io, T, [ID("0"), ID("4")], clock=clock)
    assert read_latest(io, T).version == 3
    commit_delete(io, T, [ID("0")], clock=clock)
    with pytest.raises(InvalidInputError, match="Segment 0 is marked for delete, so it cannot be deleted"):
        commit_delete(io, T, [ID("0")], clock=clock)


def test_retired_segments(io, clock):
    """A retiring commit adds to the list, which older versions do not see; loads leave it alone."""
    for _ in range(4):
        segment_load(io, T, clock=clock)
    assert read_retired(io, T, read_latest(io, T)) == ()
    segment_merge(io, T, ["2", "3"], "2.1", clock=clock)
    first = read_latest(io, T).retired
    segment_load(io, T, clock=clock)
    assert read_latest(io, T).retired == first
    commit_delete(io, T, [ID("0")], clock=clock)
    status = read_latest(io, T)
    assert status.retired != first
    assert [str(entry.id) for entry in read_retired(io, T, status)] == ["0", "2", "3"]
    assert [str(entry.id) for entry in read_retired(io, T, read_version(io, T, status.version - 1))] == ["2", "3"]


def clean(io, clock, *ids):
    """What clean commits."""

    def edit(status):
        known = (*read_retired(io, T, status), *read_history(io, T, status), *status.entries)
        return cleaned(status, [entry.key for entry in known if str(entry.id) in ids])

    return commit_edit(io, T, edit, clock=clock, operation="clean")


def test_cleaned_segments_go_to_the_history(io, clock):
    """From the retired list to a file of the history; a second time, or of a live one, nothing happens."""
    for _ in range(3):
        segment_load(io, T, clock=clock)
    commit_delete(io, T, [ID("0"), ID("1")], clock=clock)
    status = clean(io, clock, "0", "2", "7")
    assert [str(entry.id) for entry in read_retired(io, T, status)] == ["1"]
    assert [str(entry) for entry in read_history(io, T, status)] == ["0 marked-for-delete 10 rows 1 files 100 B"]
    assert clean(io, clock, "0") == status
    status = clean(io, clock, "1")
    assert len(status.history_files) == 2
    assert read_retired(io, T, status) == ()


def test_history_files_do_not_pile_up(io, clock):
    """At sixteen they are joined into one, in the order of the cleans; nothing is lost."""
    for at in range(40):
        segment_load(io, T, clock=clock)
        commit_delete(io, T, [ID(str(at))], clock=clock)
        status = clean(io, clock, str(at))
        assert len(status.history_files) <= 16
    assert [entry.id.load for entry in read_history(io, T, status)] == list(range(40))


def test_a_copy_without_empty_folders(io, clock):
    """Folders that a copy has lost are made again when they are needed."""
    segment_load(io, T, clock=clock)
    for folder in (retired_folder(T), history_folder(T)):
        io.remove_tree(folder)
    commit_delete(io, T, [ID("0")], clock=clock)
    assert clean(io, clock, "0").history_files


def test_time_travel(io, clock):
    """The newest version written at or before a moment; before all kept ones, the error tells the range."""
    for _ in range(9):
        alter(io, clock)
    times = {version: read_version(io, T, version).written_ms for version in list_versions(io, T)}
    for version, moment in times.items():
        assert find_as_of(io, T, moment).version == version
    assert find_as_of(io, T, 10**15).version == 10
    for version in (1, 2, 3):
        io.remove(status_path(T, version))
    with pytest.raises(
        InvalidInputError, match=r"keeps versions 4 to 10, the oldest of 1970-01-01 00:00:01\.\d\d\d UTC"
    ):
        find_as_of(io, T, times[3])
    assert find_as_of(io, T, times[4]).version == 4
    assert read_kept_version(io, T, 5).version == 5
    with pytest.raises(InvalidInputError, match="has no version 3; it keeps 4 to 10"):
        read_kept_version(io, T, 3)


def test_a_time_that_two_versions_share(io, clock):
    """The later of them is the table at that time."""
    still = replace(clock, now_ms=lambda: 5000)
    for _ in range(3):
        alter(io, still)
    alter(io, replace(clock, now_ms=lambda: 6000))
    assert find_as_of(io, T, 5000).version == 4
    assert find_as_of(io, T, 5999).version == 4


@pytest.mark.parametrize("later", [1, 2, 5])
def test_a_writer_that_slept_too_long_takes_its_version_back(clock, later):
    """Its number was taken and cleaned away by others: it must not believe that it has committed."""
    io = Race()
    segment_create(io, T, clock=clock)
    alter(io, clock)
    rival = Tools()
    rival.ids = itertools.count(10_000)

    def sleep_long():
        for _ in range(later + 1):
            alter(io, rival.make())
        segment_prune(io, T, keep=later)

    io.before = [sleep_long]
    assert segment_load(io, T, clock=clock) == "0"
    status = read_latest(io, T)
    assert status.version == 2 + later + 1 + 2
    assert [str(entry.id) for entry in status.live] == ["0"]
    assert list_versions(io, T) == range(4, status.version + 1)
    assert io.stat(status_path(T, 3)) is None


def test_a_writer_that_slept_before_it_published_does_not_even_try(io, clock):
    """However long: what it built on is below the floor, so it builds anew."""
    tries = []

    def edit(status):
        tries.append(status.version)
        if len(tries) == 1:
            for _ in range(90):
                alter(io, clock)
            segment_prune(io, T, keep=3)
        return alter_properties(status, {"COMPRESSION": "none"})

    assert commit_edit(io, T, edit, clock=clock, operation="alter").version == 92
    assert tries == [1, 91]
    assert list_versions(io, T) == range(89, 93)


def test_a_writer_that_slept_for_ages_cannot_tell(clock):
    """Many versions later that the newest does not tell its ancestors so far back: look before you retry."""
    io = Race()
    segment_create(io, T, clock=clock)
    rival = Tools()
    rival.ids = itertools.count(10_000)

    def sleep_long():
        for _ in range(90):
            alter(io, rival.make())
        segment_prune(io, T, keep=3)

    io.before = [sleep_long]
    with pytest.raises(CommitUnknownError, match="look for the commit"):
        alter(io, clock, COMPRESSION="none")
    assert read_latest(io, T).version == 91


def test_a_writer_whose_number_is_taken_and_cleaned_before_it_looks_goes_on_at_once(clock):
    """It does not wait for a version that never comes back: 64 commits later nobody could tell it the truth."""

    class Vanishing(Race):
        """The number is taken; when one looks who has it, it is cleaned away."""

        def read_bytes(self, path):
            if path == status_path(T, 2) and rivals:
                rivals.pop()()
            return super().read_bytes(path)

    def clean():
        for _ in range(5):
            alter(io, rival.make())
        segment_prune(io, T, keep=1)

    io, rival, own, rivals = Vanishing(), Tools(), Tools(), []
    rival.ids = itertools.count(10_000)
    segment_create(io, T, clock=clock)
    io.before = [lambda: (alter(io, rival.make()), rivals.append(clean))]
    assert alter(io, own.make(), COMPRESSION="none").version == 8
    assert len(own.slept) == 1, "as after any lost race"
    assert list_versions(io, T) == range(7, 9)
    assert io.stat(status_path(T, 2)) is None


def test_a_writer_that_is_cleaned_past_before_it_looks_has_committed(clock):
    """Published, built on, and cleaned: its commit is among the ancestors."""
    io = Race()
    segment_create(io, T, clock=clock)
    rival = Tools()
    rival.ids = itertools.count(10_000)

    def go_on():
        for _ in range(5):
            alter(io, rival.make())
        segment_prune(io, T, keep=1)

    io.after = [go_on]
    assert alter(io, clock, COMPRESSION="none").version == 2
    assert ("COMPRESSION", "none") in read_latest(io, T).properties


@pytest.mark.parametrize("later", [1, 5])
def test_a_version_that_a_sleeper_left_when_it_died_is_not_one(io, clock, later):
    """It stands below the floor: no reader takes it for a version, wherever the hint points."""
    stale = read_latest(io, T)
    for _ in range(later + 2):
        alter(io, clock)
    segment_prune(io, T, keep=later + 1)
    left = replace(stale, version=2, commit="zombie", ancestors=(stale.commit,), written_ms=10**9)
    publish(io, T, left)
    for hint in (b"2", b"1", b"x"):
        io.replace(hint_path(T), hint)
        assert find_latest(io, T) == later + 3
        assert read_latest(io, T).version == later + 3
    assert list_versions(io, T) == range(3, later + 4)
    assert find_as_of(io, T, 10**9).version == later + 3
    with pytest.raises(InvalidInputError, match="has no version 2"):
        read_kept_version(io, T, 2)


def test_the_floor_only_rises(io, clock):
    """A clean that comes late cannot lower it; old floor files do not pile up."""
    for at in range(100):
        alter(io, clock)
        raise_floor(io, T, at + 2)
        assert read_floor(io, T) == at + 2
    raise_floor(io, T, 7)
    assert read_floor(io, T) == 101
    assert len(names(io, f"{T}/Metadata/floor")) <= 33


class Broken(MemoryFileIO):
    """A store whose exclusive write answers with an error, before or after doing it."""

    def __init__(self):
        super().__init__()
        self.errors, self.does_it, self.blind = [], False, False

    def write_new(self, path, data, **options):
        """Fail as told."""
        if "/status/" in path and self.errors:
            error = self.errors.pop(0)
            if self.does_it and path not in self._files:
                super().write_new(path, data, **options)
            raise error
        super().write_new(path, data, **options)

    def read_bytes(self, path):
        """Fail on versions that are requested after a failure, if configured so."""
        if self.blind and not self.errors and path == self.blind:
            raise OSError("no answer")
        return super().read_bytes(path)


@pytest.fixture
def broken(clock):
    """A table on it."""
    io = Broken()
    segment_create(io, T, clock=clock)
    return io


@pytest.mark.parametrize("does_it", [False, True])
def test_an_answer_that_was_lost(broken, clock, does_it):
    """Done or not done: we look, and the commit happens once."""
    broken.errors, broken.does_it = [OSError("lost"), OSError("lost again")], does_it
    assert alter(broken, clock).version == 2
    assert list_versions(broken, T)[-1] == 2


def test_an_answer_that_is_never_given(broken, clock):
    """It cannot be told: the error names the version and the commit to look for; chunks stay."""
    for _ in range(20):
        segment_load(broken, T, clock=clock)
    broken.errors = [OSError("lost")] * 9
    unknown = "did not say whether version 42 was published; look for the commit id"
    with pytest.raises(CommitUnknownError, match=unknown):
        commit_delete(broken, T, [ID(str(number)) for number in range(18)], clock=clock)
    assert len(names(broken, retired_folder(T))) == 1


def test_a_full_disk_is_not_an_unknown_outcome(broken, clock):
    """The system says that nothing was written, so nothing was committed, and no chunk stays."""
    for _ in range(20):
        segment_load(broken, T, clock=clock)
    broken.errors = [OSError(28, "No space left on device")] * 9
    with pytest.raises(UnavailableError, match=r"No space left on device\. Nothing was committed\."):
        commit_delete(broken, T, [ID(str(number)) for number in range(18)], clock=clock)
    assert names(broken, retired_folder(T)) == []


def test_a_store_without_exclusive_create_is_refused(io, clock):
    """By its name, before anything is read or written."""

    class Plain(MemoryFileIO):
        capabilities = replace(MemoryFileIO.capabilities, create_if_absent=False)

    for call in (segment_create, segment_load):
        with pytest.raises(RefusedError, match="Plain cannot create a file only if it is absent"):
            call(Plain(), T, clock=clock)


def test_damage_stops_everything(io, clock):
    """A torn newest version is corruption, named by its path; no commit goes around it."""
    alter(io, clock)
    path = status_path(T, 2)
    data = io.read_bytes(path)
    for torn in (b"", data[: len(data) // 2], data.replace(b'"version":2', b'"version":3')):
        io.replace(path, torn)
        for call in (read_latest, alter):
            with pytest.raises(CorruptionError, match=path):
                call(io, T) if call is read_latest else call(io, clock, COMPRESSION="none")
    io.replace(path, data.replace(b'"format_version":4', b'"format_version":9'))
    with pytest.raises(RefusedError, match="newer packstone"):
        alter(io, clock, COMPRESSION="none")


def test_foreign_names_among_the_versions(io, clock):
    """Half-written files and notes of people are no versions."""
    for name in (".new-abc", "00000000000000000009.json.torn", "9.json", "readme"):
        io.replace(f"{T}/Metadata/status/{name}", b"x")
    io.remove(hint_path(T))
    assert find_latest(io, T) == 1


def test_one_attempt_begins_once_even_if_its_answer_is_lost(broken, clock):
    """A lost answer to begin_load does not give the attempt a second id."""
    broken.errors, broken.does_it = [OSError("lost")], True
    status = commit_edit(
        broken,
        T,
        lambda status: begin_load(status, attempt="a", overwrite=False, now_ms=1),
        clock=clock,
        operation="load",
    )
    assert [entry.attempt for entry in status.loading] == ["a"]
    assert status.next_load == 1
