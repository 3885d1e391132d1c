"""Open a Spark session: the caller's if there is one, else a local one that is quiet and quick to start."""

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
from importlib import import_module
from typing import TYPE_CHECKING, Any

from packstone.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

_LOOPBACK = "127.0.0.1"
_MIN_JAVA = 17
_STOP_SECONDS = 30  # a JVM that takes longer to stop ends with this process
_CANCEL_SECONDS = 5  # the tasks of a job that cannot be cancelled write under names that are never used
_GATEWAY = "PYSPARK_GATEWAY_PORT"  # spark-submit passes the port of its JVM to PySpark in this variable
_SUBMIT_VARIABLES = ("SPARK_ENV_LOADED", _GATEWAY)  # set by spark-submit
_ADDRESS_VARIABLES = ("SPARK_REMOTE", "SPARK_MASTER")  # set by the caller
# A local JVM only schedules: the work is done in Python. Compiling its code thoroughly costs more than it saves.
_QUICK_JVM = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
_BUNDLED_JAVA = os.path.join(sys.prefix, "java")  # scripts/ensure-java puts one here
_JVM_ENDED = "JAVA_GATEWAY_EXITED"
# The last message of the JVM: an exception, or the error of spark-submit for an invalid call.
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
    """A session, and whether Packstone started it and must stop it."""

    spark: Any
    is_ours: bool
    is_connect: bool = field(default=False)

    def stop(self) -> None:
        """Stop the session if Packstone started it, with the jobs that still run.

        This runs in a thread of its own, which has its own connection to the JVM: if this thread was interrupted in the
        middle of a call, the JVM finishes that call before it handles any other on the same connection.
        """
        if not self.is_ours:
            return
        stopping = threading.Thread(target=self._stop, daemon=True, name="packstone-stop")
        stopping.start()
        stopping.join(_STOP_SECONDS)

    def cancel(self) -> None:
        """Cancel the jobs of a session that Packstone started, after an interrupt; leave the caller's session alone."""
        if not self.is_ours or self.is_connect:
            return
        cancelling = threading.Thread(target=self._cancel, daemon=True, name="packstone-cancel")  # as in `stop`
        cancelling.start()
        cancelling.join(_CANCEL_SECONDS)

    def _cancel(self) -> None:
        with contextlib.suppress(Exception):
            self.spark.sparkContext.cancelAllJobs()

    def _stop(self) -> None:
        if not self.is_connect:
            self._cancel()
        with contextlib.suppress(Exception):
            self.spark.stop()


def open_spark(settings: SparkSettings) -> SparkHandle:
    """Return the active session, or start one."""
    check_installed()
    from pyspark.sql import SparkSession

    found = _find_session()
    if found is not None:
        return SparkHandle(found, is_ours=False, is_connect=is_connect(found))
    remote = settings.remote or (None if settings.master else os.environ.get("SPARK_REMOTE"))
    settings = replace(settings, log_path=_find_log(settings.log_path) if _starts_jvm(remote) else None)
    _prepare_environment(settings, is_local=_is_local(remote or settings.master or os.environ.get("SPARK_MASTER")))
    builder = SparkSession.builder.appName("packstone")
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
        log = _read_from(settings.log_path, log_bytes) if settings.log_path else ""
        raise UnavailableError(f"Spark could not be started{where}: {start_failure(str(error), log)}") from error
    if not remote:
        _ignore_lost_connections(spark)
    return SparkHandle(spark, is_ours=True, is_connect=remote is not None)


def check_installed() -> None:
    """Raise InvalidInputError, which says what to install, if there is no PySpark."""
    try:
        import_module("pyspark.sql")  # a second of imports that planning does not need
    except ImportError:
        raise InvalidInputError(
            "PySpark is not installed; install it with `pip install 'packstone[spark]'`, or give --engine inline."
        ) from None


def is_spark_chosen() -> bool:
    """Whether the caller has chosen Spark: by spark-submit, an address in the environment, or an active session."""
    if any(name in os.environ for name in (*_SUBMIT_VARIABLES, *_ADDRESS_VARIABLES)):
        return True
    return "pyspark" in sys.modules and _find_session() is not None


def _start(builder: Any) -> Any:
    try:
        return builder.getOrCreate()
    except Exception as error:
        raise UnavailableError(str(error)) from error  # read the text now: Py4J gets it from the JVM, which we end next


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
    """Whether PySpark will start a JVM: not under spark-submit, which has started it, nor for a remote session."""
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
    """Restore the caller's handler of SIGINT: PySpark sets its own, which raises KeyboardInterrupt inside Py4J."""
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
    """Kill the JVM that PySpark starts if we are interrupted before PySpark connects: it would wait for us forever."""
    from pyspark import java_gateway

    gateway: Any = java_gateway
    started: list[Any] = []
    start = gateway.Popen

    def remember(*args: Any, **options: Any) -> Any:
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


def _ignore_lost_connections(spark: Any) -> None:
    """Suppress the traceback of PySpark's accumulator server if the JVM is killed together with this process."""
    server = getattr(spark.sparkContext, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _find_session() -> Any:
    """Find the caller's session: the active one belongs to one thread, so look for the default one too."""
    from pyspark import SparkContext
    from pyspark.errors import PySparkRuntimeError
    from pyspark.sql import SparkSession

    try:
        return SparkSession.active()
    except PySparkRuntimeError:
        context = SparkContext._active_spark_context  # noqa: SLF001 - there is no public way
        return None if context is None else SparkSession(context)


def _local_server(builder: Any, settings: SparkSettings) -> Any:
    """Make the server that PySpark starts on this machine listen on the loopback address only."""
    builder = builder.config("spark.connect.grpc.binding.address", _LOOPBACK).config("spark.driver.host", _LOOPBACK)
    options = _java_options(settings.log_path, is_local=True)
    return builder.config("spark.driver.extraJavaOptions", options) if options else builder


def _classic(builder: Any, settings: SparkSettings) -> Any:
    if _starts_jvm(None):
        _check_java()
    under_submit = any(name in os.environ for name in _SUBMIT_VARIABLES)
    if settings.master:
        builder = builder.master(settings.master)
    elif not under_submit and "SPARK_MASTER" in os.environ:
        builder = builder.master(os.environ["SPARK_MASTER"])
    elif not under_submit:
        builder = builder.master("local[*]").config("spark.driver.host", _LOOPBACK)
        builder = builder.config("spark.driver.bindAddress", _LOOPBACK)
    if under_submit:
        return builder  # the caller of spark-submit sets the web UI and the Java options
    builder = builder.config("spark.ui.enabled", "false").config("spark.ui.showConsoleProgress", "false")
    is_local = _is_local(settings.master or os.environ.get("SPARK_MASTER"))
    options = _java_options(settings.log_path, is_local=is_local)
    return builder.config("spark.driver.extraJavaOptions", options) if options else builder


def _is_local(address: str | None) -> bool:
    """Whether everything runs on this machine; also True without an address, where spark-submit sets what matters."""
    return address is None or address.startswith("local")


def _prepare_environment(settings: SparkSettings, *, is_local: bool) -> None:
    # Otherwise workers use `python3` from the PATH, which is not this environment. PySpark itself reads the setting
    # only under spark-submit.
    os.environ.setdefault("PYSPARK_PYTHON", dict(settings.conf).get("spark.pyspark.python", sys.executable))
    if is_local:  # executors on other machines must reach the driver
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if "JAVA_HOME" not in os.environ and _java_version("java") < _MIN_JAVA and os.path.isdir(_BUNDLED_JAVA):
        os.environ["JAVA_HOME"] = _BUNDLED_JAVA


def _java_options(log_path: str | None, *, is_local: bool) -> str:
    options = [os.environ.get("PACKSTONE_JVM_OPTIONS", _QUICK_JVM if is_local else "")]
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
        output = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=60, check=False).stderr  # noqa: S603 - the user's own Java
    except (OSError, subprocess.TimeoutExpired):
        return 0
    number = output.partition('version "')[2].split('"')[0].split(".")
    try:
        return int(number[1] if number[0] == "1" else number[0])
    except (ValueError, IndexError):
        return 0


@contextlib.contextmanager
def _quiet(log_path: str | None) -> Iterator[None]:
    """Let the JVM inherit a log file instead of our own output: Spark prints before its logging is set up."""
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


def is_connect(spark: Any) -> bool:
    """Whether a session is one of Spark Connect."""
    return "connect" in type(spark).__module__
