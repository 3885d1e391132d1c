"""Where work runs if the caller does not say: in this process while it is small, on Spark from there on."""

import pytest

from packstone.errors import InvalidInputError
from packstone.model.outcome import EngineUse
from packstone.pipeline.open import choose_engine, engine_settings, read_engine_name
from packstone.runs.engine import INLINE_MAX_BYTES, INLINE_MAX_FILES, AutoEngine, InlineEngine

MERGE, LOOK = "merge", "look"  # any two jobs


class Spark(InlineEngine):
    """Stands for Spark: counts how often it is started and closed."""

    used = EngineUse("spark")
    parallelism = 8
    tasks_may_outlive_job = True
    started = closed = 0

    def __init__(self) -> None:
        super().__init__()
        Spark.started += 1

    def close(self) -> None:
        """Count."""
        Spark.closed += 1


@pytest.fixture
def auto():
    """Make an engine that chooses; without Spark if a reason is given."""
    Spark.started = Spark.closed = 0
    return lambda why_not=None: AutoEngine(Spark, why_no_spark=lambda: why_not)


def run(engine, job=MERGE, *, files=1, size_bytes=1):
    """Announce work, and run no task of it."""
    engine.expect(job, files=files, size_bytes=size_bytes)
    list(engine.run(job, (), staging="/nowhere", what="", on_progress=lambda *_: None))
    return str(engine.used)


@pytest.mark.parametrize(
    ("files", "size_bytes", "said"),
    [
        (371, 4_700_000, "inline: 4.5 MB in 371 files"),
        (INLINE_MAX_FILES, INLINE_MAX_BYTES, "inline: 1.0 GB in 5,000 files"),
        (INLINE_MAX_FILES + 1, 1, "spark: 1 B in 5,001 files"),
        (1, INLINE_MAX_BYTES + 1, "spark: 1.0 GB in 1 file"),
    ],
)
def test_the_size_of_the_work_decides(auto, files, size_bytes, said):
    """Up to both limits one core does it; above one of them Spark does. The answer has the numbers."""
    assert run(auto(), files=files, size_bytes=size_bytes) == said


def test_nothing_ran(auto):
    """What is announced and not run, as where somebody else owns the partition, is no use of an engine."""
    engine = auto()
    assert engine.used is None
    engine.expect(MERGE, files=1, size_bytes=1)
    assert engine.used is None


def test_many_small_waves_are_much_work(auto):
    """Waves add up; Spark is started once, before the wave that crosses the limit, and closed at the end."""
    engine = auto()
    for _ in range(3):
        assert run(engine, size_bytes=INLINE_MAX_BYTES // 3).startswith("inline")
        assert not engine.tasks_may_outlive_job
    engine.expect(MERGE, files=1, size_bytes=INLINE_MAX_BYTES // 3)
    assert engine.parallelism == Spark.parallelism
    assert run(engine).startswith("spark")
    assert engine.tasks_may_outlive_job
    engine.close()
    assert (Spark.started, Spark.closed) == (1, 1)


def test_looking_and_merging_are_counted_apart(auto):
    """Files whose footers were read count once more when they are merged, not twice; the bytes are those merged."""
    engine = auto()
    assert run(engine, LOOK, files=4_000, size_bytes=0) == "inline: 4,000 files"
    assert run(engine, MERGE, files=4_000, size_bytes=1_000) == "inline: 1000 B in 4,000 files"
    assert run(engine, LOOK, files=1_001, size_bytes=0).startswith("spark")


def test_much_work_without_spark(auto):
    """It is done in this process, and the answer says what is missing."""
    engine = auto("pyspark is not installed")
    said = "inline: 2.0 GB in 1 file, but pyspark is not installed"
    assert run(engine, size_bytes=2 << 30) == said
    assert Spark.started == 0


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
    """What is no engine is refused before anything is opened."""
    with pytest.raises(InvalidInputError, match="use auto, inline, spark, a Spark master"):
        choose_engine(name)


@pytest.mark.parametrize("variable", ["SPARK_REMOTE", "SPARK_MASTER", "PYSPARK_GATEWAY_PORT", "SPARK_ENV_LOADED"])
def test_a_spark_of_the_caller_is_taken(monkeypatch, variable):
    """Under spark-submit, and where the environment names a Spark, the size of the work does not matter."""
    from packstone.spark import session

    monkeypatch.delenv("PACKSTONE_ENGINE", raising=False)
    monkeypatch.setattr("packstone.spark.engine.SparkEngine", lambda _handle: Spark())
    monkeypatch.setattr(session, "open_spark", lambda _settings: None)
    monkeypatch.setenv(variable, "local[1]")
    assert isinstance(choose_engine(None)(), Spark)
    assert isinstance(choose_engine("inline")(), InlineEngine)
