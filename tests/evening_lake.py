"""A warehouse for a whole evening: what its tables are, where they lie, and ``examples/evening.sh`` on it.

The tables are made and read by Spark and Hive in a process of their own (``metastore/evening_session.py``).
"""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from database_servers import PASSWORD
from metastore_lake import write_spark_conf
from patience import patient

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"
SESSION = Path(__file__).with_name("catalog") / "evening_session.py"
DATABASE = "evening"
FILES = 6
KINDS = ("parquet", "orc", "textfile", "avro", "sequencefile", "rcfile", "headed", "mixed")
REFUSED = {
    "bucketed": "is bucketed by id into 2",
    "acid": "is a Hive ACID (transactional) table",
    "a_view": "is a view and has no files of its own",
    "shared_a": "with evening.shared_b, at, above or below it",
    "shared_b": "with evening.shared_a, at, above or below it",
}
KILLED = "t_00_textfile"
_OLD_DAYS, _MANY_DAYS = 3, 12
_OLD_SECONDS = 3 * 86_400


@dataclass(frozen=True)
class Warehouse:
    """A table that is merged for each of these kinds, one more whose run is killed, and those that are refused."""

    root: Path
    kinds: tuple[str, ...]
    first_by_location: int = 1  # 0: the run that is killed publishes by location too

    @property
    def tables(self) -> dict[str, str]:
        """Those that are merged, each with its kind; the first is the one whose run is killed."""
        return {f"t_{number:02d}_{kind}": kind for number, kind in enumerate(("textfile", *self.kinds))}

    @property
    def by_location(self) -> tuple[str, ...]:
        """Those that are published by location: every ninth, so they are of different kinds."""
        return tuple(list(self.tables)[self.first_by_location :: 9])

    @property
    def today(self) -> str:
        """The partition that is still written to."""
        return "2026-11-01"

    def days_of(self, table: str) -> list[str]:
        """The days of a table: those that have ended, and the last one."""
        old = _MANY_DAYS if table == KILLED else _OLD_DAYS
        return [*(f"2026-10-{day:02d}" for day in range(1, old + 1)), self.today]

    def folder(self, table: str) -> Path:
        """Where Hive made a table."""
        return self.root / "warehouse" / f"{DATABASE}.db" / table

    def make_old(self) -> None:
        """Nothing changed for three days, but in the partition of today."""
        then = time.time() - _OLD_SECONDS
        for table in self.tables:
            for path in self.folder(table).rglob("*"):
                if path.is_file() and f"dt={self.today}" not in path.parts:
                    os.utime(path, (then, then))

    def state(self) -> dict[str, tuple[int, int]]:
        """Every file of the tables, with its size and time."""
        found = (path for path in self.root.joinpath("warehouse").rglob("*") if path.is_file())
        return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in found}


class Evening:
    """A warehouse on a server that holds its metastore and the history of its runs."""

    def __init__(self, server, warehouse: Warehouse, *, database: str) -> None:
        self.server, self.warehouse = server, warehouse
        self.root = root = warehouse.root
        self.metastore, self.history = server.url(database), server.fresh()
        write_spark_conf(root / "conf", server, database)
        (root / "password").write_text(PASSWORD)
        self._env = self._environment(database)
        facts = {"kind": server.kind, "port": server.port, "database": database}
        facts |= {"root": str(root), "kinds": warehouse.kinds}
        with (root / "session.log").open("wb") as log:
            pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": log, "text": True}
            command = [sys.executable, str(SESSION), json.dumps(facts)]
            self._session = subprocess.Popen(command, env=self._env, cwd=root, **pipes)

    def _environment(self, database: str) -> dict[str, str]:
        server = self.server
        java = Path(sys.prefix) / "java"
        return {
            **os.environ,
            **({"JAVA_HOME": str(java)} if "JAVA_HOME" not in os.environ and java.is_dir() else {}),
            "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
            "PACKSTONE_METASTORE": server.url(database, password=None),
            "PACKSTONE_METASTORE_PASSWORD_FILE": str(self.root / "password"),
            "PACKSTONE_HISTORY": server.url(self.history.rpartition("/")[2], password=None),
            "PACKSTONE_HISTORY_PASSWORD_FILE": str(self.root / "password"),
            "PACKSTONE_UNRECORDED": str(self.root / "unrecorded"),
            "PACKSTONE_LOGS": str(self.root / "logs"),
            "PACKSTONE_ENGINE": "inline",
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_CONF_DIR": str(self.root / "conf"),
            "SPARK_LOCAL_DIRS": str(self.root),
            "SPARK_LOCAL_IP": "127.0.0.1",
        }

    def ask(self, question: str) -> dict:
        """Let Spark and Hive make the tables, or read them."""
        self._session.stdin.write(f"{question}\n")
        self._session.stdin.flush()
        answer = self._session.stdout.readline()
        assert answer, (self.root / "session.log").read_text(errors="replace")[-4000:]
        return json.loads(answer)

    def run(self, *options: str, tables: list[str] | None = None, kill: str = "") -> subprocess.CompletedProcess[str]:
        """One evening: the script as it is, on these tables or on all; ``kill`` ends it in the middle of a table."""
        named = self.root / "tables.txt"
        lines = [self._line(table) for table in (tables or [*self.warehouse.tables, *REFUSED])]
        named.write_text("\n".join(lines) + "\n", encoding="utf-8")
        command = [str(EXAMPLES / "evening.sh"), str(named), str(self.root / "said"), *options]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        script = subprocess.Popen(command, env=self._env, cwd=self.root, **pipes)
        killer = Killer(self.warehouse.folder(kill), script) if kill else None
        out, err = script.communicate(timeout=patient(3600))
        if killer is not None:
            killer.finish()
        return subprocess.CompletedProcess(command, script.returncode, out, err)

    def said(self, table: str) -> dict:
        """What the run of a table answered in the last evening."""
        return json.loads((self.root / "said" / f"{DATABASE}.{table}.json").read_text(encoding="utf-8"))

    def packstone(self, *words: str) -> dict:
        """Run a command and read its answer."""
        command = [Path(sys.executable).with_name("packstone"), *words, "--format", "json"]
        done = subprocess.run(command, env=self._env, cwd=self.root, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (words, done.stdout, done.stderr)
        return json.loads(done.stdout)

    def lying(self) -> dict[str, dict[str, tuple[int, int]]]:
        """How many data files and bytes lie where the metastore says that each partition is."""
        from packstone.catalog.metastore_database import MetastoreDatabase

        found: dict[str, dict[str, tuple[int, int]]] = {}
        with MetastoreDatabase(self.metastore) as metastore:
            for table in self.warehouse.tables:
                facts = metastore.find_table(DATABASE, table)
                for partition in metastore.list_partitions(facts):
                    folder = Path(partition.storage.location.removeprefix("file:"))
                    data = [path for path in folder.iterdir() if not path.name.startswith((".", "_"))]
                    sizes = [path.stat().st_size for path in data]
                    found.setdefault(table, {})[partition.name] = (len(sizes), sum(sizes))
        return found

    def close(self) -> None:
        """End the session."""
        self._session.communicate(timeout=patient(120))

    def _line(self, table: str) -> str:
        words = [f"{DATABASE}.{table}"]
        words += ["--publish", "location"] if table in self.warehouse.by_location else []
        words += ["--metastore", "spark"] if table == KILLED and table in self.warehouse.by_location else []
        return " ".join(words)


class Killer(threading.Thread):
    """Waits until the run of a table has published some of its partitions; ends it and its script by SIGKILL."""

    def __init__(self, table: Path, script: subprocess.Popen) -> None:
        super().__init__(daemon=True)
        self._script = script
        self._runs = table.parent / ".packstone" / table.name / "runs"
        self._over = threading.Event()
        self.killed = False
        self.start()

    def run(self) -> None:
        """Let the run go on for a moment at a time, and look at what it did while it stands still."""
        while not self._over.is_set() and not self.killed:
            time.sleep(0.002)
            pid = self._find()
            if pid is not None:
                self._step(pid)

    def finish(self) -> None:
        """Stop waiting; it must have come to it."""
        self._over.set()
        self.join()
        assert self.killed

    def _find(self) -> int | None:
        for record in self._runs.glob("*/run.json"):
            return json.loads(record.read_bytes())["process"]["pid"]
        return None

    def _step(self, pid: int) -> None:
        try:
            os.kill(pid, signal.SIGSTOP)
            self.killed = self._is_half_way()
            if self.killed:
                self._script.kill()
            os.kill(pid, signal.SIGKILL if self.killed else signal.SIGCONT)
        except ProcessLookupError:
            self._over.set()

    def _is_half_way(self) -> bool:
        """Some partitions are published, others are not; the marks of single ones go when all are."""
        return 0 < len(list(self._runs.glob("*/*~*.done.json"))) < _MANY_DAYS


def hours(begin: int, end: int) -> str:
    """Hours of the day from now on, for --between."""
    now = datetime.now(UTC)
    first, last = (now + timedelta(hours=number) for number in (begin, end))
    return f"{first:%H:%M}-{last:%H:%M}"
