"""Where work runs: in this process while it is small, then on all cores; on Spark if the caller has one."""

from dataclasses import dataclass

import pytest
from pool_jobs import TRICKS, Trick

from packstone.errors import InvalidInputError
from packstone.model.outcome import EngineUse
from packstone.pipeline.open import choose_engine, engine_settings, read_engine_name
from packstone.runs.engine import POOL_MIN_BYTES, POOL_MIN_FILES, InlineEngine, LazyEngine
from packstone.runs.tasks import pack_units
from packstone.storage.local import LocalFileIO
from packstone.storage.memory import MemoryFileIO

MERGE, LOOK = "merge", "look"  # any two jobs


class Spark(InlineEngine):
    """Replaces Spark."""

    used = EngineUse("spark")


@pytest.fixture
def engine(monkeypatch):
    """The engine of this machine, which is said to have eight cores."""
    monkeypatch.setattr("packstone.runs.worker_pool.count_workers", lambda: 8)
    return InlineEngine(says_size=True)


def run(engine, job=MERGE, *, files=1, size_bytes=1):
    """Announce work, and run no task of it."""
    engine.expect(job, files=files, size_bytes=size_bytes)
    list(engine.run(job, (), staging="/nowhere", what="", on_progress=lambda *_: None))
    return str(engine.used), engine.parallelism


@pytest.mark.parametrize(
    ("files", "size_bytes", "said"),
    [
        (371, 4_700_000, ("inline: 4.5 MB in 371 files", 1)),
        (POOL_MIN_FILES - 1, POOL_MIN_BYTES - 1, ("inline: 64.0 MB in 499 files", 1)),
        (POOL_MIN_FILES, 1, ("inline: 1 B in 500 files", 8)),
        (1, POOL_MIN_BYTES, ("inline: 64.0 MB in 1 file", 8)),
    ],
)
def test_the_size_of_the_work_decides(engine, files, size_bytes, said):
    """Below both limits this process does it; from one of them on all cores do."""
    assert run(engine, files=files, size_bytes=size_bytes) == said


def test_nothing_ran(engine):
    """What is announced and not run, as where somebody else owns the partition, is not a use of an engine."""
    assert engine.used is None
    engine.expect(MERGE, files=1, size_bytes=1)
    assert engine.used is None


def test_many_small_waves_are_much_work(engine):
    """Waves add up; looking at files and merging them are counted apart."""
    for _ in range(3):
        assert run(engine, size_bytes=POOL_MIN_BYTES // 4)[1] == 1
        assert run(engine, LOOK, files=POOL_MIN_FILES // 4, size_bytes=0)[1] == 1
    assert run(engine, size_bytes=POOL_MIN_BYTES // 4)[1] == 8


def test_the_caller_limits_the_workers(engine):
    """--parallel is the most; 1 is this process alone."""
    lazy = LazyEngine(lambda: engine, parallel=3)
    lazy.expect(MERGE, files=POOL_MIN_FILES, size_bytes=0)
    assert lazy.parallelism == 3
    lazy.limit(1)
    assert lazy.parallelism == 1


def test_the_store_of_a_caller_stays_here():
    """A store that was given as an object is used in this process, however much there is to do."""
    engine = InlineEngine(MemoryFileIO())
    engine.expect(MERGE, files=POOL_MIN_FILES, size_bytes=0)
    assert engine.parallelism == 1


def test_progress_counts_units_not_tasks(tmp_path):
    """With --parallel 1 all units share one task; each of them counts as soon as it is done."""
    engine, reported = InlineEngine(LocalFileIO()), []
    tasks = pack_units([Trick(number=number) for number in range(3)], context=None, parallelism=1, parallel=1)
    report = {"what": "", "on_progress": lambda *done: reported.append(done)}
    assert len(list(engine.run(TRICKS, tasks, staging=str(tmp_path), **report))) == 3
    assert (len(tasks), reported) == (1, [(1, 10), (2, 20), (3, 30)])


@dataclass(frozen=True)
class Piece:
    """A unit of this much work."""

    number: int
    input_bytes: int = 1
    input_files: tuple = ()


@pytest.mark.parametrize(
    ("sizes", "options", "tasks"),
    [
        ([4, 4, 4], {"parallelism": 2}, [[0, 2], [1]]),
        ([9, 4, 5, 6], {"parallelism": 2}, [[0, 1], [3, 2]]),
        ([1] * 3, {"parallelism": 8}, [[0], [1], [2]]),
        ([100], {"parallelism": 2}, [[0]]),
        ([60, 60, 60], {"parallelism": 2}, [[0], [1], [2]]),  # no task of more than 64 MB
        ([60, 60, 60], {"parallelism": 2, "parallel": 1}, [[0, 1, 2]]),
        ([40, 30, 20], {"parallelism": 1}, [[0], [1, 2]]),
    ],
)
def test_units_share_tasks(sizes, options, tasks):
    """Each core gets a task of about equal work; where nobody knows the number of cores, tasks are filled up."""
    units = [Piece(number, size << 20) for number, size in enumerate(sizes)]
    found = pack_units(units, context=None, **options)
    assert [[unit.number for unit in task.units] for task in found] == tasks


def test_tiny_units_share_one_task():
    """Less work than a task costs is not spread over all cores; what is tiny is counted by its files."""
    units = [Piece(number, 100, (("/f", "parquet"),) * 2) for number in range(4)]
    assert len(pack_units(units, context=None, parallelism=8)) == 1
    units = [Piece(number, 100, (("/f", "parquet"),) * 64) for number in range(4)]
    assert len(pack_units(units, context=None, parallelism=2)) == 2


@pytest.mark.parametrize(
    ("name", "master", "remote"),
    [
        ("auto", None, None),
        ("spark", None, None),
        ("local[4]", "local[4]", None),
        ("yarn", "yarn", None),
        ("spark://host:7077", "spark://host:7077", None),
        ("k8s://https://host:6443", "k8s://https://host:6443", None),
        ("sc://host:15002", None, "sc://host:15002"),
    ],
)
def test_names(monkeypatch, name, master, remote):
    """A word, a master, or the address of Spark Connect; by the option or by the variable."""
    assert (engine_settings(name).master, engine_settings(name).remote) == (master, remote)
    monkeypatch.setenv("PACKSTONE_ENGINE", name)
    assert read_engine_name() == name
    assert (engine_settings(None).master, engine_settings(None).remote) == (master, remote)
    assert read_engine_name("inline") == "inline"


@pytest.mark.parametrize("name", ["Spark", "flink", "local[", "sc://", "yarn-client", "spark://"])
def test_unknown_names(name):
    """What is not an engine is refused before anything is opened."""
    with pytest.raises(InvalidInputError, match="use auto, inline, spark, a Spark master"):
        choose_engine(name)


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_MASTER", "PYSPARK_GATEWAY_PORT", "SPARK_ENV_LOADED"])
def test_a_spark_of_the_caller_is_taken(monkeypatch, variable):
    """Under spark-submit, and where the environment names a Spark, the size of the work does not matter."""
    from packstone.spark import session

    monkeypatch.delenv("PACKSTONE_ENGINE", raising=False)
    monkeypatch.setattr("packstone.spark.engine.SparkEngine", lambda _handle: Spark())
    monkeypatch.setattr(session, "open_spark", lambda _settings: None)
    monkeypatch.setattr(session, "_find_session", lambda: None)  # other tests of this process may have left one
    monkeypatch.setenv(variable, "local[1]")
    assert isinstance(choose_engine(None)(), Spark)
    monkeypatch.delenv(variable)
    assert type(choose_engine(None)()) is InlineEngine
    assert isinstance(choose_engine("inline")(), InlineEngine)
