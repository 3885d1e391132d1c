"""The workers' other end: pypaimon, pypaimon-rust and Java Paimon as calls, from Packstone's Python."""

import importlib.util
import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

from patience import patient

INTEROP = Path(__file__).resolve().parents[1]
VENV = Path(os.environ.get("PACKSTONE_INTEROP_VENV", INTEROP.parents[1] / ".venv-interop"))
VENV_SPARK35 = INTEROP.parents[1] / ".venv-spark35"
JARS = VENV / "jars"


class WorkerError(Exception):
    """The other side refused or failed; ``trace`` is its own traceback."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.trace = trace


def python_command() -> list[str]:
    """The command that starts pypaimon and pypaimon-rust."""
    return [str(VENV / "bin/python"), "-m", "paimon_interop.worker"]


def java_command() -> list[str]:
    """Java Paimon, on Spark's own Hadoop classes; from source, so a JDK is needed and nothing is built."""
    spark = Path(importlib.util.find_spec("pyspark").origin).parent / "jars"
    wanted = ("hadoop-client-*", "slf4j-api-*", "log4j-api-*", "log4j-core-*", "log4j-slf4j2-*", "jcl-over-slf4j-*")
    jars = [*JARS.glob("paimon-bundle-*.jar"), *(jar for name in wanted for jar in spark.glob(name))]
    fast = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"]
    return [java(), *fast, "-cp", os.pathsep.join(map(str, jars)), str(INTEROP / "java/PaimonWorker.java")]


def spark_command(warehouse: Path) -> list[str]:
    """Paimon's Spark connector, in the environment with Spark 3.5."""
    (jar,) = JARS.glob("paimon-spark-3.5-*.jar")
    return [str(VENV_SPARK35 / "bin/python"), "-m", "paimon_interop.spark_worker", str(jar), str(warehouse)]


def why_no_spark_connector() -> str | None:
    """Why Paimon's Spark connector cannot take part, or None if it can."""
    if not (VENV_SPARK35 / "bin/python").exists():
        return "no Spark 3.5, which the connector is for: `make interop` makes its environment"
    return None if any(JARS.glob("paimon-spark-3.5-*.jar")) else (why_no_java() or "no connector: not fetched")


def java() -> str:
    """The Java that Spark would take."""
    home = os.environ.get("JAVA_HOME")
    return str(Path(home) / "bin/java") if home else "java"


def why_no_java() -> str | None:
    """Why Java Paimon cannot take part, or None if it can."""
    if not any(JARS.glob("paimon-bundle-*.jar")):
        reason = JARS / "why-not.txt"
        return f"no Java Paimon: {reason.read_text(encoding='utf-8').strip() if reason.exists() else 'not fetched'}"
    try:
        modules = subprocess.run([java(), "--list-modules"], capture_output=True, text=True, check=False).stdout
    except OSError as error:
        return f"no Java Paimon: {error}"
    return None if "jdk.compiler" in modules else "no Java Paimon: this Java has no compiler (a JDK is needed)"


class Worker:
    """One process with pypaimon or Java Paimon; it lives as long as the object is open, so that it starts once."""

    def __init__(self, command: list[str] | None = None, *, log: Path | None = None) -> None:
        self._log = log.open("a", encoding="utf-8") if log else None
        self._process = subprocess.Popen(
            command or python_command(),
            cwd=INTEROP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, do: str, table: Path | str, **arguments: Any) -> Any:
        """Ask and wait for the answer."""
        self.send(do, table, **arguments)
        return self.answer()

    def send(self, do: str, table: Path | str, **arguments: Any) -> None:
        """Ask; the answer is fetched by ``answer``."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, "table": str(table), **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The answer to the oldest open question."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError("WorkerDied", f"exit code {self._process.wait(patient(10))}", "")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["kind"], answer["error"], answer["trace"])
        return sorted_rows(answer["ok"])

    def close(self) -> None:
        """Let the process end; a second call does nothing."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(patient(10))
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        if self._log:
            self._log.close()


def sorted_rows(answer: Any) -> Any:
    """Rows in the form and the order of ``rows.py``, whoever read them."""
    if isinstance(answer, dict) and "rows" in answer:
        rows = [[python_float(value) for value in row] for row in answer["rows"]]
        return answer | {"rows": sorted(rows, key=lambda row: json.dumps(row, sort_keys=True))}
    return answer


def python_float(value: Any) -> Any:
    """Java writes ``1.0E-300`` where Python writes ``1e-300``, so its worker marks such texts."""
    return repr(float(value["double"])) if isinstance(value, dict) and set(value) == {"double"} else value
