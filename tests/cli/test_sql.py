"""`packstone sql`: CarbonData's statements by example, what they become, and what is refused by name.

A block of a scenario file in ``tests/testdata/sql`` holds statements, ``----`` and what is printed; ``#`` says why.
``pytest --rewrite`` writes the answers anew. Sizes, times and run ids are replaced: they differ from run to run.
"""

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from patience import patient

import packstone as library

SCENARIOS = sorted((Path(__file__).parents[1] / "testdata" / "sql").glob("*.txt"))
VOLATILE = (
    (re.compile(r"(?<![0-9A-Za-z])\d{8}T\d{6}-[0-9a-f]{6}\b"), "RUN"),
    (re.compile(r"\b\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}\b"), "MOMENT"),
    (re.compile(r"\b\d+(\.\d+)?S\b"), "TAKEN"),
    (re.compile(r"\b\d+(\.\d+)? (B|KB|MB)\b"), "SIZE"),
    (re.compile(r"\b\d+(\.\d+)? (ms|s)\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{12}…"), "FINGERPRINT"),
    (re.compile(r"[█▏▎▍▌▋▊▉]+"), "BAR"),
    (re.compile(r" +"), " "),
)


def settle(text):
    """What is printed, without what differs from run to run."""
    for pattern, by in VOLATILE:
        text = pattern.sub(by, text)
    return [line.strip() for line in text.splitlines() if line.strip()]


def read_blocks(text):
    """Comments, statements and answer of each block."""
    for block in re.split(r"\n\n+", text.strip()):
        asked, _, answer = block.partition("\n----\n")
        lines = asked.splitlines()
        yield [one for one in lines if one.startswith("#")], [one for one in lines if not one.startswith("#")], answer


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_statements_by_example(packstone, request, tmp_path, monkeypatch, path):
    """Every statement of CarbonData's documentation that has a verb runs it; the rest is refused in one sentence."""
    monkeypatch.chdir(tmp_path)
    Path("day.csv").write_text("id,country,amount\n1,DE,1.50\n2,FR,2.00\n3,DE,x\n")
    Path("plain.csv").write_text("4;DE;9.00\n5;IT;7.25\n")
    blocks, written = list(read_blocks(path.read_text())), []
    assert blocks
    for comments, statements, answer in blocks:
        done = packstone("sql", "\n".join(statements), "--yes")
        real = settle(done.out.replace(f"{tmp_path}/", "")) + settle(done.err.replace(f"{tmp_path}/", ""))
        real += [f"exit code {done.code}"] if done.code else []
        written.append("\n".join([*comments, *statements, "----", *real]))
        if not request.config.getoption("--rewrite"):
            assert real == answer.splitlines(), "\n".join(statements)
    if request.config.getoption("--rewrite"):
        path.write_text("\n\n".join(written) + "\n")


@pytest.mark.parametrize(
    ("statement", "words"),
    [
        ("alter table T compact 'minor'", "packstone compact T --strategy minor"),
        ("ALTER TABLE db.t COMPACT 'MAJOR';", "packstone compact db.db/t --strategy major"),
        ("ALTER TABLE `a/b c` COMPACT 'CUSTOM' WHERE SEGMENT.ID IN (0, 1.2, '3')",
         "packstone compact 'a/b c' --strategy custom --ids 0,1.2,3"),
        ("SHOW HISTORY SEGMENTS ON t LIMIT 3", "packstone segments show t --limit 3 --history"),
        ("DELETE FROM TABLE t WHERE SEGMENT.STARTTIME BEFORE '2017-06-01 12:05:06'",
         "packstone segments delete t --before '2017-06-01 12:05:06'"),
        ("delete from t where id = 7 and name like 'a' -- why\n",
         """packstone segments delete-rows t --where 'id = 7 and name like '"'"'a'"'"''"""),
        ("CLEAN FILES FOR TABLE t OPTIONS('force'='false', 'stale_inprogress'='TRUE', 'dryrun'='true')",
         "packstone clean t --dry-run"),
        ("LOAD DATA INPATH '-x.csv' OVERWRITE INTO TABLE `-t` OPTIONS('SORT_SCOPE'='global_sort', 'label'='a;b')",
         "packstone segments load ./-t ./-x.csv --overwrite --sort-scope global --label 'a;b'"),
        ("CREATE TABLE t (id long, m map<int, array<string>>) USING packstone",
         "packstone segments create t --schema 'id long, m map<int, array<string>>'"),
        ("ALTER TABLE t UNSET TBLPROPERTIES('SORT_SCOPE', 'TABLE_BLOCKSIZE')",
         "packstone segments alter t --unset SORT_SCOPE --unset TABLE_BLOCKSIZE"),
        ("DESC EXTENDED t -- why\n", "packstone segments describe t"),
    ],
)  # fmt: skip
def test_what_a_statement_becomes(packstone, statement, words):
    """--explain prints the command and runs nothing: there is no such table."""
    done = packstone("sql", statement, "--explain")
    assert (done.code, done.out.strip()) == (0, words)


def test_options_are_passed_on(packstone):
    """Those that the command of a statement has; a warehouse is the folder of the tables."""
    options = ("--explain", "--yes", "--engine", "inline", "--history", "sqlite:///x.db", "--warehouse", "/wh")
    shown = packstone("sql", "ALTER TABLE t COMPACT 'MINOR'; CLEAN FILES FOR TABLE a.t; DESC t", *options).out
    assert shown.splitlines() == [
        "packstone compact /wh/t --strategy minor --engine inline --history sqlite:///x.db",
        "packstone clean /wh/a.db/t --yes",
        "packstone segments describe /wh/t",
    ]
    assert packstone("sql", "DESC t", "--explain", "--warehouse", "hdfs://nn/wh/").out == (
        "packstone segments describe hdfs://nn/wh/t\n"
    )


@pytest.mark.parametrize(
    ("statement", "part"),
    [
        ("", "no statement"),
        (";;", "no statement"),
        ("ALTER TABLE", "needs the name of a table after 'ALTER TABLE', but it ends"),
        ("ALTER TABLE t COMPACT MINOR", "needs a text in quotes"),
        ("ALTER TABLE t COMPACT 'MINOR' WHERE x", "has 'WHERE x' after its end"),
        ("ALTER TABLE t COMPACT 'SEGMENT_INDEX'", "COMPACT 'SEGMENT_INDEX'"),
        ("ALTER TABLE t COMPACT 'CUSTOM' WHERE SEGMENT.ID IN (1", "but it ends"),
        ("ALTER TABLE t ADD COLUMNS (a int)", "ALTER TABLE … ADD"),
        ("SHOW SEGMENTS ON t AS SELECT * FROM t_segments", "SHOW SEGMENTS … AS"),
        ("SHOW SEGMENTS", "needs FOR TABLE"),
        ("SHOW TABLES", "SHOW TABLES"),
        ("DROP TABLE t", "DROP TABLE"),
        ("INSERT INTO t SELECT 1", "INSERT INTO"),
        ("UPDATE t SET (a) = (1)", "UPDATE"),
        ("CLEAN FILES FOR TABLE t OPTIONS('force'='true')", "'force'='true'"),
        ("CLEAN FILES FOR TABLE t OPTIONS('force'='maybe')", "write 'true' or 'false'"),
        ("CLEAN FILES FOR TABLE t OPTIONS('nix'='true')", "the option 'nix' of CLEAN FILES"),
        ("LOAD DATA INPATH 'x' INTO TABLE t OPTIONS('DATEFORMAT'='x')", "the option 'DATEFORMAT' of LOAD DATA"),
        ("LOAD DATA INPATH 'x' INTO TABLE t OPTIONS('HEADER'='true', 'header'='false')", "HEADER is given twice"),
        ("LOAD DATA INPATH 'x' INTO TABLE t PARTITION (a=1)", "after its end"),
        ("CREATE TABLE IF NOT EXISTS t (id int) STORED AS carbondata", "IF NOT EXISTS"),
        ("CREATE TABLE t (id int) STORED AS parquet", "CREATE TABLE of parquet"),
        ("CREATE TABLE t (id int) PARTITIONED BY (d string) STORED AS carbondata", "PARTITIONED"),
        ("CREATE TABLE t (id int) STORED AS carbondata LOCATION 'x'", "LOCATION"),
        ("CREATE TABLE t AS SELECT 1", "needs ("),
        ("DESCRIBE a.b.c", "is not the name of a table"),
        ("DESCRIBE `..`", "is not the name of a table"),
        ("DESCRIBE 'x", "a quote is not closed"),
    ],
)
def test_one_sentence_for_what_is_not_done(packstone, tmp_path, monkeypatch, statement, part):
    """It names the statement or the option, and nothing is printed or done."""
    monkeypatch.chdir(tmp_path)
    done = packstone("sql", statement)
    assert (done.code, done.out) == (2, "")
    assert part in done.sentence
    assert not list(tmp_path.iterdir())


def test_all_statements_are_read_before_the_first_runs(packstone, tmp_path, monkeypatch):
    """A mistake in the last one changes nothing; one that fails stops those after it."""
    monkeypatch.chdir(tmp_path)
    create = "CREATE TABLE t (id long) STORED AS carbondata; "
    assert packstone("sql", f"{create} DROP TABLE t").code == 2
    assert not list(tmp_path.iterdir())
    done = packstone("sql", f"{create} SHOW SEGMENTS ON u; CREATE TABLE v (id long) STORED AS carbondata")
    assert done.code == 2
    assert "packstone: Statement 2 of 3 failed; those after it were not run.\n" in done.err
    assert [path.name for path in tmp_path.iterdir()] == ["t"]


def test_questions_and_history_as_in_the_commands(packstone, tmp_path, monkeypatch):
    """A delete asks; a compaction is a run of the history."""
    monkeypatch.chdir(tmp_path)
    made = library.create("t", "id long")
    for number in range(2):
        (tmp_path / "a.csv").write_text(f"id\n{number}\n")
        made.segments.load("a.csv")
    done = packstone("sql", "DELETE FROM TABLE t WHERE SEGMENT.ID IN (0)")
    assert (done.code, "give --yes" in done.sentence) == (2, True)
    url = f"sqlite:///{tmp_path}/h.db"
    found = packstone("sql", "ALTER TABLE t COMPACT 'MAJOR'", "--format", "json", "--history", url).json
    assert (found["status"], found["strategy"]) == ("committed", "major")
    assert packstone("history", "--history", url, "--format", "json").json["runs"][0]["run"] == found["run"]


def test_select_over_several_tables(packstone, tmp_path, monkeypatch):
    """Names are folders of the warehouse; JSON names every table and who answered."""
    monkeypatch.chdir(tmp_path)
    for name, values in (("a", [1, 2]), ("db.db/b", [2, 3])):
        (tmp_path / "in.csv").write_text("id\n" + "".join(f"{value}\n" for value in values))
        library.create(name, "id long").segments.load("in.csv")
    statement = f"SELECT b.id FROM a JOIN db.b ON a.id = b.id JOIN `{tmp_path}/a` c ON c.id = b.id"
    found = packstone("sql", statement, "--format", "json").json
    assert (found["rows"], found["engine"], len(found["tables"])) == ([[2]], "duckdb", 3)
    assert packstone("sql", "SELECT id FROM a WHERE id > 1", "--format", "csv").out == "id\n2\n"
    explained = packstone("sql", statement, "--explain", "--format", "json").json
    assert [Path(one["table"]).name for one in explained["scans"]] == ["a", "b", "a"]
    assert "does not exist" in packstone("sql", "SELECT * FROM nix").sentence
    assert "CSV" in packstone("sql", "DESC a", "--format", "csv").sentence


def test_a_file_of_statements(packstone, tmp_path, monkeypatch):
    """As on the command line; JSON is one document for each statement."""
    monkeypatch.chdir(tmp_path)
    Path("s.sql").write_text("-- two\nCREATE TABLE t (id long) STORED AS carbondata;\nDESCRIBE t;\n")
    done = packstone("sql", "--file", "s.sql", "--format", "json")
    first, end = json.JSONDecoder().raw_decode(done.out)
    assert (first["status"], json.loads(done.out[end:])["table"]) == ("created", str(tmp_path / "t"))
    assert "nix.sql" in packstone("sql", "--file", "nix.sql").sentence
    assert "either a STATEMENT or --file" in packstone("sql", "DESC t", "--file", "s.sql").sentence
    assert "either a STATEMENT or --file" in packstone("sql").sentence
    assert packstone("sql", "--file", tmp_path).sentence.endswith("cannot be read: Is a directory.")


def cpu_ticks(pid):
    """The CPU time of a process so far."""
    return sum(map(int, Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]))


def test_a_signal_stops_a_statement_that_duckdb_answers(quiet_env, tmp_path):
    """A join of hours ends at once, and leaves no folder: DuckDB itself lets no signal through."""
    table, temp = library.create(tmp_path / "t", "id long"), tmp_path / "temp"
    (tmp_path / "in.csv").write_text("id\n" + "".join(f"{number}\n" for number in range(5_000)))
    table.segments.load(tmp_path / "in.csv")
    temp.mkdir()
    statement = f"SELECT count(*) FROM `{tmp_path}/t` a, `{tmp_path}/t` b, `{tmp_path}/t` c WHERE a.id + b.id < c.id"
    process = subprocess.Popen(
        [Path(sys.executable).with_name("packstone"), "sql", statement],
        env={**quiet_env, "TMPDIR": str(temp)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        deadline = time.monotonic() + patient(60)
        while not list(temp.iterdir()) and time.monotonic() < deadline:
            time.sleep(0.01)
        begun = cpu_ticks(process.pid)
        while cpu_ticks(process.pid) - begun < os.sysconf("SC_CLK_TCK") and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        err = process.communicate(timeout=patient(60))[1]
    finally:
        process.kill()
    assert (process.returncode, err) == (130, "packstone: Interrupted; no file is left half-written or half-moved.\n")
    assert not list(temp.iterdir())
