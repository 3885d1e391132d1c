"""Rewrite tests/testdata/metastore/*.sql: metastores whose schema and tables Hive created, for tests without Spark.

Run as: .venv/bin/python scripts/make_metastore_dumps.py    (needs scripts/ensure-databases, mariadb-dump and pg_dump)

Folders are written as @WAREHOUSE@ and @ELSEWHERE@; tests replace them. It takes a minute for each of the two.
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))


def main() -> None:
    """Create both, each in its own process, because Spark keeps its metastore until it ends."""
    if len(sys.argv) > 1:
        make_dump(sys.argv[1])
        return
    for kind in ("mariadb", "postgres"):
        subprocess.run([sys.executable, __file__, kind], check=True)


def make_dump(kind: str) -> None:
    """Start the server, let Hive fill a database, dump it."""
    from database_servers import PASSWORD, USER, start_mariadb, start_postgres
    from metastore_lake import fill, make_session

    folder, lake = Path(tempfile.mkdtemp(prefix="packstone-db-")), Path(tempfile.mkdtemp(prefix="packstone-lake-"))
    server = {"mariadb": start_mariadb, "postgres": start_postgres}[kind](folder)
    try:
        database = server.make("hms", encoding="latin1")
        spark = make_session(server, database, lake / "warehouse")
        fill(spark, lake / "elsewhere")
        spark.stop()
        its = ["-h127.0.0.1", f"-P{server.port}", f"-u{USER}", f"-p{PASSWORD}"]
        there = ["-h", "127.0.0.1", "-U", USER, "-p", str(server.port)]
        commands = {
            "mariadb": ["mariadb-dump", "--no-defaults", *its, "--compact", "--skip-opt", "--create-options", database],
            "postgres": ["pg_dump", *there, "--inserts", "--no-owner", "--no-privileges", database],
        }
        dump = subprocess.run(commands[kind], check=True, capture_output=True, text=True).stdout
    finally:
        server.stop()
        for one in (folder, lake):
            shutil.rmtree(one)
    dump = dump.replace(f"{lake}/warehouse", "@WAREHOUSE@").replace(f"{lake}/elsewhere", "@ELSEWHERE@")
    lines = [line for line in dump.splitlines() if line and not re.match(r"--|/\*|\\", line)]
    out = ROOT / "tests" / "testdata" / "metastore" / f"{kind}.sql"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"{out}: {len(lines)} lines")


if __name__ == "__main__":
    main()
