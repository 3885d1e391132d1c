"""Whatever is done to a segment table, in whatever order, and wherever it is cut: it holds the rows of a plain list.

See ``segment_model.py`` for what is compared and what must hold after every step.
"""

import pytest
from hypothesis import HealthCheck, note, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test
from segment_model import HOWS, SegmentModel, any_options, make_rows, quick_folder

SCOPES = st.sampled_from([None, "NO_SORT", "LOCAL_SORT", "GLOBAL_SORT"])
COUNTS = st.sampled_from([0, 1, 2, 7, 7, 20, 20, 1500])
CRASHES = st.none() | st.none() | st.tuples(st.integers(0, 45), st.sampled_from(HOWS))
SORTED_BY = ("id", "name,id", "price", "at,day", "cost,ok", "raw,name", "ok,price,id")
ALTERS = st.sampled_from(
    [
        *({"SORT_COLUMNS": columns} for columns in SORTED_BY),
        {"SORT_COLUMNS": None, "SORT_SCOPE": None},
        *({"COMPACTION_LEVEL_THRESHOLD": levels} for levels in ("2,2", "3,2", "2,0", "2,2,2", "4,3")),
        {"COMPACTION_PRESERVE_SEGMENTS": "1"},
        {"COMPACTION_PRESERVE_SEGMENTS": None},
        {"AUTO_LOAD_MERGE": "true", "COMPACTION_LEVEL_THRESHOLD": "2,2"},
        {"AUTO_LOAD_MERGE": None},
        {"SEGMENT_RETENTION_DAYS": "0", "MAX_QUERY_MINUTES": "1"},
        {"SEGMENT_RETENTION_DAYS": "1", "TRASH_RETENTION_DAYS": "0"},
        {"SEGMENT_RETENTION_DAYS": None, "MAX_QUERY_MINUTES": None, "TRASH_RETENTION_DAYS": None},
        {"TABLE_BLOCKSIZE": "1", "COMPRESSION": "snappy"},
    ]
)
SECONDS = st.sampled_from([0, 60, 2 * 3600, 2 * 86_400, 10 * 86_400])
MEDDLES = st.sampled_from(
    [None, None, "load", "overwrite", "delete", "delete rows", "minor", "major", "clean", "clean later", "alter"]
)


class SegmentMachine(RuleBasedStateMachine):
    """One table, from its creation to the last clean."""

    def __init__(self):
        super().__init__()
        self._folder = quick_folder()
        self.model = SegmentModel(self._folder.__enter__())

    def teardown(self):
        """At last, everything that is not needed goes."""
        try:
            for line in self.model.log:
                note(line)
            self.model.check_end()
        finally:
            self.model.close()
            self._folder.__exit__(None, None, None)

    @rule(
        seed=st.integers(0, 10**6),
        count=COUNTS,
        scope=SCOPES,
        overwrite=st.sampled_from([False] * 5 + [True]),
        as_files=st.booleans(),
        crash=CRASHES,
        verify=st.sampled_from(["count", "content"]),
    )
    def load(self, seed, count, scope, overwrite, as_files, crash, verify):
        """Load, by all scopes, in one task or several."""
        if scope != "NO_SORT" and not self._is_sorted():
            scope = None
        self.model.load(
            make_rows(seed, count),
            crash=crash,
            as_files=as_files,
            overwrite=overwrite,
            sort_scope=scope,
            task_bytes=1000,
            verify=verify,
        )

    @rule(
        seed=st.integers(0, 10**6),
        spoil=st.integers(1, 2),
        action=st.sampled_from(["IGNORE", "REDIRECT"]),
        crash=CRASHES,
    )
    def load_with_bad_rows(self, seed, spoil, action, crash):
        """Load rows of which some are left out."""
        self.model.load(make_rows(seed, 5), spoil=spoil, bad_records=action, crash=crash)

    @rule(seed=st.integers(0, 10**6), meddle=MEDDLES, overwrite=st.booleans(), as_files=st.booleans())
    def load_while(self, seed, meddle, overwrite, as_files):
        """Somebody else does something while rows stream in."""
        self.model.load(
            make_rows(seed, 9),
            meddle=self._meddle(meddle, seed),
            overwrite=overwrite,
            as_files=as_files,
            task_bytes=1000,
        )

    @rule(strategy=st.sampled_from(["minor", "major"]), task_bytes=st.sampled_from([600, 1 << 28]), crash=CRASHES)
    def compact(self, strategy, task_bytes, crash):
        """Merge by number or by size, in one task or several."""
        self.model.compact(any_options(strategy, task_bytes=task_bytes), crash=crash)

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), crash=CRASHES)
    def compact_some(self, data, crash):
        """Merge what is named; one alone is sorted anew or left."""
        ids = data.draw(st.lists(st.sampled_from(sorted(self.model.held)), min_size=1, max_size=4, unique=True))
        self.model.compact(any_options("custom", ids), crash=crash)

    @rule(strategy=st.sampled_from(["minor", "major"]), meddle=MEDDLES, seed=st.integers(0, 10**6))
    def compact_while(self, strategy, meddle, seed):
        """Somebody else does something between the merge and its commit."""
        self.model.compact(any_options(strategy), meddle=self._meddle(meddle, seed))

    @precondition(lambda self: self.model.held)
    @rule(data=st.data(), crash=CRASHES)
    def delete(self, data, crash):
        """Delete by id."""
        ids = data.draw(st.lists(st.sampled_from(sorted(self.model.held)), min_size=1, max_size=2, unique=True))
        self.model.delete(ids, crash=crash)

    @precondition(lambda self: self.model.cuts)
    @rule(data=st.data(), crash=CRASHES)
    def delete_before(self, data, crash):
        """Delete what was loaded before one of the last operations."""
        self.model.delete_before(data.draw(st.sampled_from(self.model.cuts[-6:])), crash=crash)

    @precondition(lambda self: self.model.runs)
    @rule(data=st.data(), crash=CRASHES)
    def restore(self, data, crash):
        """Undo one of the last compactions, if that is still possible."""
        self.model.restore(data.draw(st.sampled_from(self.model.runs[-3:])), crash=crash)

    @rule(which=st.integers(0, 10**6))
    def look_back(self, which):
        """Read a kept version as it was, and check it."""
        kept = self.model.kept()
        self.model.look_back(kept[which % len(kept)])

    @rule(which=st.integers(0, 7) | st.integers(0, 6), crash=CRASHES)
    def delete_rows(self, which, crash):
        """Delete rows by a filter."""
        self.model.delete_rows(which, crash=crash)

    @rule(changes=ALTERS, crash=CRASHES)
    def alter(self, changes, crash):
        """Change properties."""
        self.model.alter(changes, crash=crash)

    @rule(seconds=SECONDS, crash=CRASHES)
    def clean(self, seconds, crash):
        """Time goes by, and what nobody needs any more goes."""
        self.model.clock.move(seconds)
        self.model.clean(crash=crash)

    @rule(seconds=st.sampled_from([120, 5 * 3600, 3 * 86_400]))
    def turn_back_the_clock(self, seconds):
        """The next writer is on a machine whose clock is behind."""
        self.model.clock.move(-seconds)

    @invariant()
    def rows_are_those_of_the_list(self):
        """The one claim."""
        self.model.check()

    def _is_sorted(self):
        return bool(self.model.lake.status()["properties"].get("SORT_COLUMNS"))

    def _meddle(self, what, seed):
        """Something to do in the middle of something else."""
        model, held = self.model, sorted(self.model.held)
        if what == "clean later":
            model.clock.move(3 * 86_400)
        return {
            None: None,
            "load": lambda: model.load(make_rows(seed + 1, 3)),
            "overwrite": lambda: model.load(make_rows(seed + 1, 3), overwrite=True),
            "delete": (lambda: model.delete([held[seed % len(held)]])) if held else None,
            "delete rows": lambda: model.delete_rows(seed),
            "minor": lambda: model.compact(any_options("minor")),
            "major": lambda: model.compact(any_options("major")),
            "clean": model.clean,
            "clean later": model.clean,
            "alter": lambda: model.alter({"SORT_COLUMNS": SORTED_BY[seed % len(SORTED_BY)]}),
        }[what]


def test_a_delete_by_a_clock_that_is_behind():
    """It says that it was long ago, but versions that still count show the segment: its files stay as long as they."""
    with quick_folder() as folder:
        model = SegmentModel(folder)
        try:
            model.alter({"SEGMENT_RETENTION_DAYS": "0", "MAX_QUERY_MINUTES": "1"})
            model.load(make_rows(1, 5))
            model.clock.move(-3 * 86_400)
            model.delete(["0"])
            model.clock.move(3600)
            model.clean()
            model.check()
            assert model.lake.data_on_disk()
            model.check_end()
            assert not model.lake.data_on_disk()
        finally:
            model.close()


RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.slow
def test_random_histories():
    """A few dozen tables of up to twenty operations."""
    run_state_machine_as_test(SegmentMachine, settings=settings(RELAXED, max_examples=20, stateful_step_count=18))


@pytest.mark.soak
@pytest.mark.timeout(7200)
def test_many_random_histories():
    """Many long ones."""
    run_state_machine_as_test(SegmentMachine, settings=settings(RELAXED, max_examples=600, stateful_step_count=50))
