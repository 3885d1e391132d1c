"""MariaDB and PostgreSQL on free ports of this machine, started once for those tests that ask.

``make test-servers`` brings the programs (``scripts/ensure-databases``). Each server has its data in a temporary
folder, does not wait for its disk, and is ended by its process id.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

import pytest
from needs import check_marked
from patience import patient

USER, PASSWORD = "packstone", "not-a-secret"
UP_SECONDS = patient(60)
_POSTGRES = sorted(str(path) for path in Path("/usr/lib/postgresql").glob("*/bin"))
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", *_POSTGRES))


@dataclass
class DatabaseServer:
    """Where a server answers, and how to get a database of one's own on it."""

    kind: str
    port: int
    process: subprocess.Popen
    _numbers: count = field(default_factory=lambda: count(1))

    @property
    def driver(self) -> str:
        """What SQLAlchemy calls the database and the package that speaks to it."""
        return {"mariadb": "mysql+pymysql", "postgres": "postgresql+psycopg"}[self.kind]

    def url(self, database: str, *, password: str | None = PASSWORD) -> str:
        """The SQLAlchemy address of a database; without its password for tests that hand it over another way."""
        secret = "" if password is None else f":{password}"
        return f"{self.driver}://{USER}{secret}@127.0.0.1:{self.port}/{database}"

    def fresh(self, *, encoding: str = "") -> str:
        """Make an empty database, by default of Unicode; return its SQLAlchemy address."""
        return self.url(self.make(f"test_{next(self._numbers)}", encoding=encoding))

    def make(self, name: str, *, encoding: str = "") -> str:
        """Make an empty database of a name."""
        charset = f"character set {encoding or 'utf8mb4'}" if self.kind == "mariadb" else ""
        self.run(f"create database {name} {charset}")
        return name

    def run(self, *statements: str) -> None:
        """Run statements outside of a transaction, in the server's own database."""
        import sqlalchemy

        engine = sqlalchemy.create_engine(self.url(_HOME[self.kind]), poolclass=sqlalchemy.NullPool)
        with engine.connect().execution_options(isolation_level="AUTOCOMMIT") as connection:
            for statement in statements:
                connection.execute(sqlalchemy.text(statement))

    def stop(self) -> None:
        """End the server; its data go with the folder."""
        self.process.send_signal(signal.SIGKILL if self.kind == "mariadb" else signal.SIGQUIT)
        self.process.wait(timeout=patient(30))


_HOME = {"mariadb": "mysql", "postgres": "postgres"}


def start_mariadb(folder: Path) -> DatabaseServer:
    """A MariaDB in a folder, with a user that may do everything."""
    installer, server = _program("mariadb-install-db"), _program("mariadbd")
    me = pwd.getpwuid(os.getuid()).pw_name  # MariaDB runs as root only if told so
    (folder / "scratch").mkdir()  # its own: two that are installed at once take the same names there
    where = (f"--datadir={folder}/data", f"--tmpdir={folder}/scratch", f"--user={me}")
    settings = ("--auth-root-authentication-method=normal", "--skip-test-db")
    _run([installer, "--no-defaults", *where, *settings], log=folder / "install.log")
    start = folder / "start.sql"
    start.write_text(f"create user {USER}@'%' identified by '{PASSWORD}';\ngrant all on *.* to {USER}@'%';\n")
    port = _free_port()
    command = [server, "--no-defaults", *where, f"--port={port}", "--bind-address=127.0.0.1", "--skip-name-resolve"]
    command += [f"--socket={folder}/s", f"--pid-file={folder}/pid", f"--init-file={start}"]
    command += ["--innodb-flush-log-at-trx-commit=0", "--innodb-flush-method=nosync", "--innodb-buffer-pool-size=64M"]
    return _started(DatabaseServer("mariadb", port, _start(command, log=folder / "server.log")), folder / "server.log")


def start_postgres(folder: Path) -> DatabaseServer:
    """A PostgreSQL in a folder, with a user that may do everything; never as root, which it refuses."""
    user = None if os.getuid() else _other_user()
    if user is not None:
        shutil.chown(folder, user)
    initdb, server = _program("initdb"), _program("postgres")
    settings = ("-A", "trust", "-U", USER, "-E", "UTF8", "--locale=C", "--no-sync", "-D", f"{folder}/data")
    _run([initdb, *settings], log=folder / "install.log", user=user)
    port = _free_port()
    command = [server, "-D", f"{folder}/data", "-p", str(port), "-k", str(folder)]
    for setting in ("listen_addresses=127.0.0.1", "fsync=off", "synchronous_commit=off", "full_page_writes=off"):
        command += ["-c", setting]
    log = folder / "server.log"
    return _started(DatabaseServer("postgres", port, _start(command, log=log, user=user)), log)


def _serve(start):
    # Not below pytest's own folder: another user than root could not enter it.
    folder = Path(tempfile.mkdtemp(prefix="packstone-db-"))
    server = None
    try:
        server = start(folder)
        yield server
    finally:
        if server is not None:
            server.stop()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def mariadb():
    """A MariaDB for this session."""
    yield from _serve(start_mariadb)


@pytest.fixture(scope="session")
def postgres():
    """A PostgreSQL for this session."""
    yield from _serve(start_postgres)


@pytest.fixture(params=["mariadb", "postgres"])
def database_server(request):
    """Each of the two, one after the other."""
    return request.getfixturevalue(request.param)


def _program(name: str) -> str:
    check_marked("database")
    found = shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f"{name} is not installed (scripts/ensure-databases says how)")
    return found


def _other_user() -> str:
    names = {entry.pw_name for entry in pwd.getpwall()}
    return next(name for name in ("postgres", "nobody") if name in names)


def _run(command: list[str], *, log: Path, user: str | None = None) -> None:
    process = _start(command, log=log, user=user)
    assert process.wait(timeout=UP_SECONDS) == 0, log.read_text()


def _start(command: list[str], *, log: Path, user: str | None = None) -> subprocess.Popen:
    groups = {} if user is None else {"user": user, "group": pwd.getpwnam(user).pw_gid, "extra_groups": []}
    with log.open("wb") as out:
        return subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=out, stderr=subprocess.STDOUT, cwd="/", env=_ENV, **groups
        )


_ENV = {"PATH": _PATH, "LC_ALL": "C", "TZ": "UTC"}


def _started(server: DatabaseServer, log: Path) -> DatabaseServer:
    from sqlalchemy.exc import OperationalError

    until = time.monotonic() + UP_SECONDS
    while True:
        try:
            server.run("select 1")
        except OperationalError:
            gone = server.process.poll() is not None
            if gone or time.monotonic() > until:
                server.stop()
                raise AssertionError(f"{server.kind} does not start: {log.read_text()[-2000:]}") from None
            time.sleep(0.05)
        else:
            return server


def _free_port() -> int:
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        return server.getsockname()[1]
