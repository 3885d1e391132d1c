"""After a plain `pip install .`, without any extra and without Java, the tour and the README's commands work."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
EXTRAS = ("pyspark", "py4j", "pandas", "duckdb", "grpc", "obstore", "hdfs_native", "pymysql", "psycopg", "matplotlib")
MAIN = "from packstone.cli.main import main; main()"
RUN = re.compile(r"\b\d{8}T\d{6}-[0-9a-f]{6}\b")
# Python imports this module by itself when it starts: what an extra brings cannot be imported.
BLOCKER = f"""
import sys

class Blocker:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in {EXTRAS!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Blocker())
"""


@pytest.fixture
def plain(tmp_path, quiet_env):
    """Run a command line where no extra is installed and no Java is found."""
    blocker, tools = tmp_path / "blocker", tmp_path / "bin"
    blocker.mkdir()
    tools.mkdir()
    (blocker / "sitecustomize.py").write_text(BLOCKER)
    for tool in ("bash", "cp"):
        (tools / tool).symlink_to(shutil.which(tool))
    hidden = ("PACKSTONE_ENGINE", "JAVA_HOME", "PYTHONPATH")
    env = {name: value for name, value in quiet_env.items() if name not in hidden and not name.startswith("SPARK_")}
    env |= {"PATH": str(tools), "PYTHONPATH": os.pathsep.join((str(blocker), str(ROOT / "src")))}

    def call(*words, cwd=tmp_path):
        command = [sys.executable, "-c", MAIN, *words[1:]] if words[0] == "packstone" else words
        return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, check=False, timeout=120)

    return call


def test_extras_are_blocked(plain):
    """The fixture does what it says, and whoever asks for Spark gets one sentence that says what to install."""
    assert "No module named 'pyspark'" in plain(sys.executable, "-c", "import pyspark").stderr
    assert plain("bash", "-c", "command -v java").returncode == 1


def test_the_tour(plain):
    """It goes to its end, and says where the work was done."""
    done = plain("packstone", "demo")
    assert done.returncode == 0, done.stderr
    assert "engine inline: " in done.stdout


def test_every_command_of_the_readme(plain, tmp_path):
    """Each command of its console blocks ends as the README shows: only the merge with a broken file is partial."""
    here, run = tmp_path / "home", ""
    here.mkdir()
    (here / "examples").symlink_to(ROOT / "examples")
    blocks = re.findall(r"^```console\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    commands = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) > 5
    for command in commands:
        words = shlex.split(RUN.sub(run, command))
        if words[0] == "cd":
            here /= words[1]
            continue
        done = plain(*words, cwd=here)
        assert done.returncode == (1 if "cannot be read and was left alone" in done.stderr else 0), done.stderr
        found = re.search(r"undo +packstone restore (\S+)", done.stdout)
        run = found[1] if found is not None else run


@pytest.mark.parametrize(
    ("words", "what"),
    [
        (("compact", "TABLE", "--engine", "spark"), "PySpark is not installed"),
        (("demo", "--engine", "local[2]"), "PySpark is not installed"),
        (("health", "s3://bucket/table"), "need obstore"),
        (("health", "hdfs://host:9000/table"), "need hdfs-native"),
        (("health", "db.table", "--metastore", "mysql://user@host/db"), "'pymysql', which is not installed"),
    ],
)
def test_what_needs_an_extra_says_so(plain, lake, words, what):
    """One sentence that names the package, before anything is done; the exit code is that of a wrong call."""
    lake.parquet()
    done = plain("packstone", *(str(lake.table) if word == "TABLE" else word for word in words))
    (sentence,) = done.stderr.splitlines()
    assert what in sentence
    assert (done.returncode, done.stdout) == (2, "")


def test_sql(plain, tmp_path):
    """A scan answers what it can; for the rest one sentence says what to install."""
    (tmp_path / "a.csv").write_text("id,name\n1,a\n2,b\n")
    create = "CREATE TABLE t (id long, name string) STORED AS carbondata"
    done = plain("packstone", "sql", f"{create}; LOAD DATA INPATH 'a.csv' INTO TABLE t; SHOW SEGMENTS FOR TABLE t")
    assert done.returncode == 0, done.stderr
    rows = plain("packstone", "query", "t", "SELECT name AS n FROM t WHERE id > 1 LIMIT 5", "--format", "csv")
    assert rows.stdout == "n\nb\n"
    assert plain("packstone", "query", "t", "SELECT count(*) FROM t", "--format", "csv").stdout == "count(*)\n2\n"
    for columns in ("max(id)", "count(*), max(id)"):
        done = plain("packstone", "query", "t", f"SELECT {columns} FROM t")
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == (
            "packstone: max(id) needs DuckDB or Spark; install one of them with `pip install 'packstone[sql]'` or "
            "`pip install 'packstone[spark]'`.\n"
        )
    done = plain("packstone", "query", "t", "SELECT count(*), count(*) FROM t")
    assert done.stderr.startswith("packstone: count(*) beside other columns needs DuckDB or Spark")
