"""A Spark session: the caller's if there is one, else a local one that is quiet and quick to start."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from packstone.errors import UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK = "127.0.0.1"
_MIN_JAVA = 17
_STOP_SECONDS = 30  # a JVM that does not stop until then ends with this process
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # how spark-submit tells PySpark where its JVM listens
_JVM_ENDED = "JAVA_GATEWAY_EXITED"
# What the JVM says at its end: an exception, or how spark-submit refuses a call.
_IN_LOG = re.compile(r'(?:Exception in thread "main" |(?=Error: ))(.+)')
_LOG_BYTES = 10 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkSettings:
    """How to reach Spark: a master for classic, a remote for Spark Connect, or neither (environment, else local)."""

    master: str | None = None
    remote: str | None = None
    conf: tuple[tuple[str, str], ...] = ()
    log_path: str | None = None


@dataclass(slots=True)
class SparkHandle:
    """A session, and whether it is ours to stop."""

    spark: Any
    is_ours: bool
    is_connect: bool = field(default=False)

    def stop(self) -> None:
        """Stop the session if we made it, with the jobs that still run.

        In a thread of its own, which has a connection of its own to the JVM: if this one was interrupted in the middle
        of a call, the JVM still answers that call, and would do nothing else before.
        """
        if not self.is_ours:
            return
        stopping = threading.Thread(target=self._stop, daemon=True, name="packstone-stop")
        stopping.start()
        stopping.join(_STOP_SECONDS)

    def _stop(self) -> None:
        with contextlib.suppress(Exception):
            if not self.is_connect:
                self.spark.sparkContext.cancelAllJobs()
        with contextlib.suppress(Exception):
            self.spark.stop()


def open_spark(settings: SparkSettings, *, app_name: str = "packstone") -> SparkHandle:
    """Take the active session, or make one; UnavailableError says what to install if Spark cannot start."""
    try:
        from pyspark.sql import SparkSession  # noqa: PLC0415 - a second of imports that planning does not need
    except ImportError:
        raise UnavailableError(
            "PySpark is not installed; install it with `pip install pyspark pandas`, or give --engine inline."
        ) from None
    found = _find_session()
    if found is not None:
        return SparkHandle(found, is_ours=False, is_connect=is_connect(found))
    remote = settings.remote or (None if settings.master else os.environ.get("SPARK_REMOTE"))
    settings = replace(settings, log_path=_find_log(settings.log_path) if _starts_jvm(remote) else None)
    _prepare_environment(settings, is_local=_is_local(remote or settings.master or os.environ.get("SPARK_MASTER")))
    builder = SparkSession.builder.appName(app_name)
    builder = builder.remote(remote) if remote else _classic(builder, settings)
    for key, value in settings.conf:
        builder = builder.config(key, value)
    if remote and remote.startswith("local"):
        builder = _local_server(builder, settings)
    log_bytes = os.path.getsize(settings.log_path) if settings.log_path else 0
    try:
        with _own_interrupts(), _no_orphans(), _quiet(settings.log_path):
            spark = _start(builder)
    except Exception as error:
        where = f" (its log is {settings.log_path})" if settings.log_path else ""
        said = _read_from(settings.log_path, log_bytes) if settings.log_path else ""
        raise UnavailableError(f"Spark could not be started{where}: {start_failure(str(error), said)}") from error
    if not remote:
        _ignore_lost_connections(spark)
    return SparkHandle(spark, is_ours=True, is_connect=remote is not None)


def _start(builder: Any) -> Any:  # noqa: ANN401 - pyspark's builder, and a session
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise UnavailableError(str(error)) from error  # now: Py4J asks the JVM for the text, which we are about to end


def start_failure(error: str, log: str) -> str:
    """Return the line that names why Spark did not start, from PySpark's error and what the JVM wrote to its log.

    PySpark's first line names only the call that failed. The Java exception is on the second line, and if the JVM ended
    before PySpark could reach it, only in the log.
    """
    lines = error.splitlines() or ["no reason given"]
    if _JVM_ENDED in lines[0]:
        in_log = [found.group(1) for found in map(_IN_LOG.match, log.splitlines()) if found]
        return in_log[-1] if in_log else lines[0]
    causes = [line.strip().removeprefix(": ") for line in lines[1:] if line.startswith((": ", "Caused by: "))]
    return "; ".join(dict.fromkeys((causes[0], causes[-1]))) if causes else lines[0]


def _starts_jvm(remote: str | None) -> bool:
    """Whether PySpark is going to start a JVM: spark-submit has started it already, a remote session needs none."""
    return remote.startswith("local") if remote else _GATEWAY not in os.environ


def _find_log(path: str | None) -> str | None:
    """Return a file that the JVM can write its log to: the given one, or a temporary one if HOME is not writable."""
    if path is None:
        return None
    try:
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "ab"):
            return path
    except OSError:
        path = os.path.join(tempfile.mkdtemp(prefix="packstone-logs-"), os.path.basename(path))
        with open(path, "ab"):
            return path


def _read_from(path: str, start: int) -> str:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        file.seek(start)
        return file.read(_LOG_BYTES).decode(errors="replace")
    return ""


@contextlib.contextmanager
def _own_interrupts() -> Iterator[None]:
    """Keep the caller's handler of SIGINT: PySpark sets one of its own, which raises KeyboardInterrupt inside Py4J."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


@contextlib.contextmanager
def _no_orphans() -> Iterator[None]:
    """End the JVM that PySpark starts if we are interrupted before it is reached: it would wait for us for ever."""
    from pyspark import java_gateway  # noqa: PLC0415 - see open_spark

    gateway: Any = java_gateway
    started: list[Any] = []
    start = gateway.Popen

    def remember(*args: Any, **options: Any) -> Any:  # noqa: ANN401 - what subprocess takes and gives
        started.append(start(*args, **options))
        return started[-1]

    gateway.Popen = remember
    try:
        yield
    except BaseException:
        for process in started:
            process.kill()
        raise
    finally:
        gateway.Popen = start


def _ignore_lost_connections(spark: Any) -> None:  # noqa: ANN401 - a classic session
    """Let the server of PySpark's accumulators end without a traceback if the JVM is killed together with us."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _find_session() -> Any:  # noqa: ANN401 - a session of either kind, or None
    """Find the caller's session: the active one is of this thread only, so ask for the default one too."""
    from pyspark import SparkContext  # noqa: PLC0415 - see open_spark
    from pyspark.errors import PySparkRuntimeError  # noqa: PLC0415 - see open_spark
    from pyspark.sql import SparkSession  # noqa: PLC0415 - see open_spark

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public question
        return None if context is None else SparkSession(context)


def _local_server(builder: Any, settings: SparkSettings) -> Any:  # noqa: ANN401 - pyspark's builder
    """Let the server that PySpark starts on this machine listen to this machine only."""
    builder = builder.config("spark.connect.grpc.binding.address", _LOOPBACK).config("spark.driver.host", _LOOPBACK)
    options = _java_options(settings.log_path)
    return builder.config("spark.driver.extraJavaOptions", options) if options else builder


def _classic(builder: Any, settings: SparkSettings) -> Any:  # noqa: ANN401 - pyspark's builder
    if _starts_jvm(None):
        _check_java()
    under_submit = "SPARK_ENV_LOADED" in os.environ or _GATEWAY in os.environ
    if settings.master:
        builder = builder.master(settings.master)
    elif not under_submit and "SPARK_MASTER" in os.environ:
        builder = builder.master(os.environ["SPARK_MASTER"])
    elif not under_submit:
        builder = builder.master("local[*]").config("spark.driver.host", _LOOPBACK)
        builder = builder.config("spark.driver.bindAddress", _LOOPBACK)
    if under_submit:
        return builder  # whoever submits sets the pages and the Java options
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    options = _java_options(settings.log_path)
    return builder.config("spark.driver.extraJavaOptions", options) if options else builder


def _is_local(address: str | None) -> bool:
    """Whether everything runs on this machine; without an address it does, or spark-submit has set what matters."""
    return address is None or address.startswith("local")


def _prepare_environment(settings: SparkSettings, *, is_local: bool) -> None:
    # Workers take `python3` from the PATH otherwise, which is not the environment we run in. PySpark itself reads the
    # setting only under spark-submit.
    os.environ.setdefault("PYSPARK_PYTHON", dict(settings.conf).get("spark.pyspark.python", sys.executable))
    if is_local:  # executors on other machines must reach the driver
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    bundled = os.path.join(sys.prefix, "java")
    if "JAVA_HOME" not in os.environ and _java_version("java") < _MIN_JAVA and os.path.isdir(bundled):
        os.environ["JAVA_HOME"] = bundled


def _java_options(log_path: str | None) -> str:
    options = [os.environ.get("PACKSTONE_JVM_OPTIONS", "")]
    if log_path:
        settings = os.path.join(os.path.dirname(__file__), "log4j2.properties")
        options += [f"-Dlog4j2.configurationFile=file:{settings}", f"-Dpackstone.log={log_path}"]
    return " ".join(option for option in options if option)


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    java = os.path.join(home, "bin", "java") if home else "java"
    if _java_version(java) < _MIN_JAVA:
        raise UnavailableError(
            f"Spark needs Java {_MIN_JAVA} or newer; install it (Debian: apt-get install openjdk-17-jre-headless), "
            "or give --engine inline to work without Spark."
        )


def _java_version(java: str) -> int:
    found = shutil.which(java)
    if found is None:
        return 0
    try:
        said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = said.partition('version "')[2].split('"')[0].split(".")
    try:
        return int(number[1] if number[0] == "1" else number[0])
    except (ValueError, IndexError):
        return 0


@contextlib.contextmanager
def _quiet(log_path: str | None) -> Iterator[None]:
    """Let the JVM inherit a log file in place of our own output: Spark talks before its logging is set up."""
    if log_path is None:
        yield
        return
    sys.stdout.flush()
    sys.stderr.flush()
    kept = os.dup(1), os.dup(2)
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        yield
    finally:
        os.dup2(kept[0], 1)
        os.dup2(kept[1], 2)
        for handle in (*kept, log):
            os.close(handle)


def is_connect(spark: Any) -> bool:  # noqa: ANN401 - a session of either kind
    """Whether it is a session of Spark Connect."""
    return "connect" in type(spark).__module__
