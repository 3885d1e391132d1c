"""Segment tables on the command line: what is drawn, what is written as JSON, the message after a mistake."""

import json
import re
import subprocess
import sys
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import packstone as library
from packstone.errors import InvalidInputError, RefusedError
from packstone.storage.local import LocalFileIO
from packstone.tables.hive.table import HiveTable

JSON_PAGE = Path(__file__).resolve().parents[2] / "docs" / "json.md"
SCHEMA = "id long not null, name string, price decimal(8,2)"


def rows(first: int, count: int = 10) -> pa.Table:
    """Rows with numbers that nobody else has, not in order."""
    ids = [first + (at * 7) % count for at in range(count)]
    prices = pa.array([f"{at}.25" for at in ids]).cast(pa.decimal128(8, 2))
    return pa.table({"id": ids, "name": [f"n{at}" for at in ids], "price": prices})


def write(path: Path, first: int, count: int = 10) -> Path:
    """A Parquet file of such rows."""
    pq.write_table(rows(first, count), path)
    return path


@pytest.fixture
def table(packstone, tmp_path) -> Path:
    """A sorted table of four loads."""
    path = tmp_path / "sales"
    assert packstone("segments", "create", path, "--schema", SCHEMA, "--sort-by", "id").code == 0
    for load in range(4):
        done = packstone("segments", "load", path, write(tmp_path / f"in-{load}.parquet", 10 * load))
        assert done.code == 0, done.err
    return path


def ids_of(packstone, table: Path, *when: object) -> list[int]:
    """The ids that DuckDB finds in the live files."""
    files = packstone("segments", "files", table, *when).out.splitlines()
    return sorted(found for (found,) in duckdb.read_parquet(files).select("id").fetchall()) if files else []


SLIPS = [
    (("segments", "create", "{new}", "--schema", "id lnog"), "Column 'id' has the type 'lnog'"),
    (("segments", "create", "{table}", "--schema", "id long"), "{table} is a table already"),
    (("segments", "create", "{table}/Fact/x", "--schema", "id long"), "lies inside the table {table}"),
    (("segments", "create", "{new}", "--schema", "id long", "--sort-by", "x"), "SORT_COLUMNS names 'x'"),
    (("segments", "create", "{new}", "--schema", "id long", "--property", "a=1"), "'A' is not a table property"),
    (("segments", "create", "{new}", "--schema", "id long", "--property", "a"), "--property a is not NAME=VALUE."),
    (("segments", "create", "{new}", "--schema", "id long", "--sort-scope", "local"), "no SORT_COLUMNS are given"),
    (("segments", "alter", "{table}"), "Nothing to change; give --property NAME=VALUE or --unset NAME."),
    (("segments", "alter", "{table}", "--property", "SORT_SCOPE=up"), "SORT_SCOPE is 'up'; it must be one of"),
    (("segments", "show", "{new}"), "{new} does not exist; create it with `packstone segments create`."),
    (("segments", "show", "{folder}"), "{folder} is not a segment table; create one with `packstone segments create`."),
    (("segments", "show", "{table}/Fact"), "lies inside the segment table {table}; give the table."),
    (("segments", "show", "{table}", "--version", "99"), "has no version 99; it keeps 1 to 9."),
    (("segments", "show", "{table}", "--as-of", "2020-01-01"), "has no version of 2020-01-01 00:00:00.000"),
    (("segments", "show", "{table}", "--as-of", "soon"), "'soon' is not a time; write for example"),
    (("segments", "show", "{table}", "--version", "2", "--as-of", "2020-01-01"), "Give either --version or --as-of."),
    (("segments", "delete", "{table}"), "Give either --ids or --before."),
    (("segments", "delete", "{table}", "--ids", "x", "--yes"), "'x' is not a segment id"),
    (("segments", "delete", "{table}", "--ids", "1,9", "--yes"), "Segment 9 does not exist; nothing was deleted."),
    (("segments", "delete", "{table}", "--ids", "1"), "and there is no terminal: give --yes."),
    (("segments", "delete", "{table}", "--before", "2020-01-01", "--yes"), "No segment was loaded before that time"),
    (("segments", "load", "{table}", "{new}"), "{new} does not exist"),
    (("segments", "load", "{table}", "nowhere.csv"), "nowhere.csv does not exist"),
    (("segments", "load", "{table}", "ftp://host/x"), "ftp: storage is not supported by this version"),
    (("segments", "load", "{table}", "{table}/../in-0.parquet", "--delimiter", "::"), "not one ASCII character"),
    (("segments", "load", "{table}", "{table}/../in-0.parquet", "--timezone", "Moon"), "'Moon' is not a time zone"),
    (("compact", "{table}", "--strategy", "custom"), "needs the ids of its segments, for example --ids 1,2."),
    (("compact", "{table}", "--ids", "1,2"), "--ids goes with --strategy custom"),
    (("compact", "{table}", "--set", "MAJOR_COMPACTION_SIZE=5"), "MAJOR_COMPACTION_SIZE goes with --strategy major"),
    (("compact", "{table}", "--set", "auto_load_merge=true"), "AUTO_LOAD_MERGE has no effect on a compaction"),
    (("compact", "{table}", "--set", "sort_scop=none"), "is not an option of this table; did you mean SORT_SCOPE?"),
    (("segments", "create", "no.such", "--schema", "id long"), "give the table's folder, a new one as ./no.such."),
    (("compact", "{table}", "--strategy", "full"), "use one of minor, major, custom."),
    (("compact", "{table}", "--codec", "zstd"), "--codec is for Hive directories, and {table} is a segment table."),
    (("compact", "{table}", "--set", "rules=2.1"), "rules is for Paimon tables, and {table} is a segment table."),
    (("compact", "{table}", "--strategy", "custom", "--ids", "1,2", "--min-age", "1d"), "does not go with --strategy"),
    (("plan", "{table}", "--where", "id = 1"), "--where is for Hive directories and Paimon tables, and {table} is a"),
    (
        (
            "plan",
            "{table}/Fact/Segment_0",
        ),
        "lies inside the segment table {table}; give the table.",
    ),
    (
        ("clean", "{table}", "--expire-snapshots"),
        "--expire-snapshots is for Paimon tables, and {table} is a segment table.",
    ),
    (("merge", "file:///", "{table}", "120M"), "{table} is a segment table; use `packstone compact {table}`."),
    (("merge", "file:///", "{table}/Fact/Segment_0", "1M"), "lies inside the segment table {table}; give the table"),
]


@pytest.mark.parametrize(("words", "told"), SLIPS, ids=[" ".join(words) for words, _ in SLIPS])
@pytest.mark.sample(3)
def test_a_slip_is_answered_in_one_sentence(words, told, table, tmp_path, tree, packstone):
    """A wrong call ends with exit code 2 and one sentence that says what to do, and changes nothing."""
    names = {"table": table, "new": tmp_path / "new", "folder": tmp_path / "folder"}
    names["folder"].mkdir()
    before = tree(tmp_path)
    done = packstone(*(word.format(**names) for word in words))
    assert (done.code, done.out) == (2, "")
    assert told.format(**names) in done.sentence
    assert tree(tmp_path) == before


def test_a_run_is_verified_and_undone(table, packstone):
    """`verify` and `restore` work on a segment table; the run may be named by the history alone."""
    done = packstone("compact", table, "--format", "json").json
    for words in ((done["run"], table), (done["run"],)):
        proved = packstone("verify", *words)
        assert proved.code == 0
        assert "against the record and its originals" in proved.out
    assert packstone("restore", done["run"], "--yes").out.startswith("restored 4 files")
    assert packstone("restore", done["run"], table, "--yes").out.strip().endswith("was already undone; nothing to do.")
    assert packstone("plan", table, "--format", "json").json["files_before"] == done["files_before"]
    assert [one["status"] for one in packstone("history", "--format", "json").json["runs"]][-1] == "restored"


def test_recover_has_nothing_to_do(table, tree, packstone):
    """`recover` answers 0 on a segment table, and changes nothing."""
    before = tree(table)
    done = packstone("recover", table)
    assert done.code == 0
    assert "nothing to recover" in done.out
    assert tree(table) == before


def test_the_files_of_a_segment_table_are_never_merged_raw(table, tree, packstone):
    """A folder that contains a segment table is refused by name, also if data files lie beside the table."""
    before = tree(table)
    done = packstone("compact", table.parent)
    assert done.code == 2
    assert "is not a table but holds 1 table: sales." in done.err
    for path in (table, table / "Fact" / "Segment_0"):
        with pytest.raises(RefusedError, match="a segment table, whose files are named in its status"):
            HiveTable(LocalFileIO(), str(path))
    with pytest.raises(InvalidInputError, match="lies inside the segment table"):
        library.Table(str(table / "Fact" / "Segment_0"))
    assert tree(table) == before


def test_loads_compaction_and_time_travel(table, packstone):
    """Four loads become one segment; every version reads as it was; DuckDB finds the same rows."""
    assert ids_of(packstone, table) == list(range(40))
    planned = packstone("plan", table, "--format", "json").json
    assert [(unit["inputs"], unit["part"]) for unit in planned["units"]] == [(["0", "1", "2", "3"], "0.1")]
    done = packstone("compact", table, "--format", "json")
    assert (done.code, done.json["status"], done.json["rows"]) == (0, "committed", 40)
    assert ids_of(packstone, table) == list(range(40))
    assert ids_of(packstone, table, "--version", 5) == list(range(20))
    shown = packstone("segments", "show", table, "--format", "json").json["segments"]
    assert [(row["id"], row["status"], row["mergedToId"]) for row in shown] == [
        ("3", "Compacted", "0.1"),
        ("2", "Compacted", "0.1"),
        ("1", "Compacted", "0.1"),
        ("0.1", "Success", "NA"),
        ("0", "Compacted", "0.1"),
    ]
    (merged,) = packstone("segments", "files", table).out.splitlines()
    assert pq.read_table(merged)["id"].to_pylist() == list(range(40))
    assert packstone("compact", table).out.splitlines()[0].startswith("nothing-to-do")


def test_strategies_by_name(table, packstone):
    """Custom merges what it is given, major what fits a size."""
    custom = packstone("compact", table, "--strategy", "custom", "--ids", "2,1", "--format", "json").json
    assert [(unit["inputs"], unit["part"]) for unit in custom["units"]] == [(["1", "2"], "1.1")]
    nothing = packstone(
        "compact", table, "--strategy", "major", "--set", "major_compaction_size=0", "--format", "json"
    ).json
    assert nothing["status"] == "nothing-to-do"
    major = packstone("compact", table, "--strategy", "major", "--format", "json").json
    assert [unit["part"] for unit in major["units"]] == ["0.1"]
    assert ids_of(packstone, table) == list(range(40))


def test_options_show_the_properties(table, packstone):
    """Properties that a compaction looks at are options of it, with the value of the table."""
    packstone("segments", "alter", table, "--property", "MAJOR_COMPACTION_SIZE=512")
    listed = packstone("options", table, "--format", "json").json
    found = {one["key"]: (one["option"], one["default"], one["value"]) for one in listed["options"]}
    assert found["MAJOR_COMPACTION_SIZE"] == ("--set", "1024", "512")
    assert found["ids"] == ("--ids", None, None)
    assert "AUTO_LOAD_MERGE" not in found


def test_delete_by_id_and_by_date(table, packstone):
    """A dry run changes nothing; ids go all or none; a date takes what was loaded before."""
    dry = packstone("segments", "delete", table, "--ids", "1,2", "--dry-run", "--format", "json").json
    assert (dry["status"], dry["segments"], dry["rows"]) == ("planned", ["1", "2"], 20)
    assert ids_of(packstone, table) == list(range(40))
    done = packstone("segments", "delete", table, "--ids", "1,2", "--yes")
    assert "deleted segments 1, 2 (20 rows)" in done.out
    assert ids_of(packstone, table) == [*range(10), *range(30, 40)]
    again = packstone("segments", "delete", table, "--ids", "1", "--yes")
    assert (again.code, "marked for delete" in again.sentence) == (2, True)
    assert packstone("segments", "delete", table, "--before", "2100-01-01", "--yes").code == 0
    assert ids_of(packstone, table) == []
    assert ids_of(packstone, table, "--version", 9) == list(range(40))


def test_alter_shows_before_and_after(table, packstone):
    """Only what really changes is listed; unset goes back to the default."""
    done = packstone("segments", "alter", table, "--property", "major_compaction_size=512MB", "--format", "json").json
    assert done["changed"] == [{"property": "MAJOR_COMPACTION_SIZE", "before": "1024", "after": "512"}]
    version = done["version"]
    same = packstone("segments", "alter", table, "--property", "MAJOR_COMPACTION_SIZE=512", "--format", "json").json
    assert (same["status"], same["changed"]) == ("nothing-to-do", [])
    first = packstone("segments", "alter", table, "--property", "MINOR_COMPACTION_SIZE=9", "--format", "json").json
    assert first["changed"] == [{"property": "MINOR_COMPACTION_SIZE", "before": "", "after": "9"}]
    back = packstone("segments", "alter", table, "--unset", "MAJOR_COMPACTION_SIZE", "--format", "json").json
    assert back["changed"] == [{"property": "MAJOR_COMPACTION_SIZE", "before": "512", "after": "1024"}]
    assert back["version"] > version


def test_export_is_carbondata_s_tablestatus(table, tmp_path, packstone):
    """One line on stdout or in a new file; an existing file is left alone."""
    (line,) = packstone("segments", "export", table).out.splitlines()
    entries = json.loads(line)
    assert [entry["loadName"] for entry in entries] == ["0", "1", "2", "3"]
    assert {type(value) for entry in entries for value in entry.values()} == {str}
    target = tmp_path / "tablestatus"
    assert packstone("segments", "export", table, "--to", target).code == 0
    assert target.read_text() == line
    assert packstone("segments", "export", table, "--to", target).code == 2


def test_bad_records_on_the_command_line(table, tmp_path, packstone):
    """Fail stops with file, row, column and value; redirect loads the rest and says how many were bad."""
    text = tmp_path / "in.csv"
    text.write_text("id;name;price\n100;a;1.00\nx;b;2.00\n102;c;3.00\n")
    done = packstone("segments", "load", table, text, "--delimiter", ";")
    assert (done.code, done.out) == (2, "")
    assert all(word in done.sentence for word in ("in.csv", "id", "x"))
    assert len(ids_of(packstone, table)) == 40
    done = packstone(
        "segments", "load", table, text, "--delimiter", ";", "--bad-records", "redirect", "--format", "json"
    )
    assert (done.code, done.json["rows"], done.json["bad_rows"]) == (0, 2, 1)
    assert ids_of(packstone, table)[-2:] == [100, 102]


def test_overwrite(table, tmp_path, packstone):
    """All rows are replaced; the previous ones can still be read."""
    assert packstone("segments", "load", table, write(tmp_path / "new.parquet", 500), "--overwrite").code == 0
    assert ids_of(packstone, table) == list(range(500, 510))
    assert ids_of(packstone, table, "--version", 9) == list(range(40))


@pytest.mark.parametrize("width", [80, 100])
@pytest.mark.parametrize(
    "words",
    [("health", "sales"), ("plan", "sales"), ("compact", "sales"), ("segments", "show", "sales"), ("clean", "sales")],
    ids=" ".join,
)
def test_nothing_is_cut_or_runs_over(words, width, table, packstone, monkeypatch):
    """On terminals of 80 and 100 columns nothing is cut off."""
    from rich.console import Console

    from packstone.cli import output

    monkeypatch.setattr(
        output, "make_console", lambda **_: Console(width=width, highlight=False, soft_wrap=False, emoji=False)
    )
    monkeypatch.chdir(table.parent)
    done = packstone(*words)
    assert done.code == 0, done.err
    lines = done.out.splitlines()
    assert max(map(len, lines)) <= width
    assert "…" not in re.sub(r"[0-9a-f]{12}…", "", done.out)


def documented(title: str) -> list[str]:
    """The keys that the section on segment tables lists for a command, in their order."""
    section = JSON_PAGE.read_text().split("\n## Segment tables\n")[1].split(f"\n### `{title}`\n")[1]
    return re.findall(r"^\| `(\w+)` \|", re.split(r"\n##+ ", section)[0], re.MULTILINE)


def test_json_has_the_documented_keys(table, tmp_path, packstone):
    """Every command of segment tables writes exactly what docs/json.md lists."""
    fresh = tmp_path / "fresh"
    calls = {
        "segments create": ("segments", "create", fresh, "--schema", SCHEMA),
        "segments describe": ("segments", "describe", fresh),
        "segments alter": ("segments", "alter", fresh, "--property", "AUTO_LOAD_MERGE=false"),
        "segments load": ("segments", "load", fresh, write(tmp_path / "more.parquet", 0)),
        "segments show": ("segments", "show", table),
        "segments versions": ("segments", "versions", table),
        "segments files": ("segments", "files", table),
        "segments delete": ("segments", "delete", table, "--ids", "0", "--dry-run"),
        "segments export": ("segments", "export", table),
        "health": ("health", table),
        "clean": ("clean", table, "--dry-run"),
    }
    for title, words in calls.items():
        done = packstone(*words, "--format", "json")
        assert done.code == 0, done.err
        assert list(done.json) == documented(title), title


def test_help_imports_nothing_heavy(quiet_env):
    """``--help`` of every command is quick because it needs neither pyspark nor pyarrow nor rich."""
    program = (
        "import sys\n"
        "from packstone.cli.main import run\n"
        "from packstone.cli.commands.segments import command\n"
        "codes = [run(['segments', name, '--help']) for name in command.commands]\n"
        "heavy = {'pyspark', 'pyarrow', 'numpy', 'sqlalchemy', 'sqlglot', 'rich', 'pandas'} & set(sys.modules)\n"
        "print(codes, sorted(heavy), file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], env=quiet_env, capture_output=True, check=True, text=True)
    assert re.fullmatch(r"\[(0, )+0\] \[\]\n", done.stderr)


class TestPython:
    """The façade that `packstone.open` returns."""

    def test_open_finds_it(self, table):
        """A path becomes a Table; a folder inside it does not."""
        assert library.open(str(table)).family == "segments"
        with pytest.raises(InvalidInputError, match="lies inside"):
            library.open(str(table / "Fact"))

    def test_the_whole_round_without_spark(self, tmp_path, quiet_env):
        """Create, load Arrow, plan, compact, show, travel, delete, alter, clean."""
        schema = pa.schema([pa.field("id", pa.int64(), nullable=False), pa.field("name", pa.string())])
        table = library.create(str(tmp_path / "t"), schema, sort_by=["id"], properties={"compression": "lz4"})
        for load in range(4):
            table.segments.load(rows(10 * load).drop_columns(["price"]))
        assert [entry.operation for entry in table.segments.versions()].count("create") == 1
        before = table.segments.versions()[0].version
        outcome = table.compact(table.plan(strategy="minor"))
        assert (outcome.status, outcome.rows) == ("committed", 40)
        assert [row.id for row in table.segments.show().rows if row.status == "Success"] == ["0.1"]
        assert len(table.segments.files().paths) == 1
        assert len(table.segments.files(version=before).paths) == 4
        assert (
            table.segments.alter({"AUTO_LOAD_MERGE": "true"}, unset=["COMPRESSION"]).changes[0].name
            == "AUTO_LOAD_MERGE"
        )
        assert table.health().score == 100
        assert table.segments.delete(ids=["0.1"], dry_run=True).rows == 40
        table.segments.delete(before="2100-01-01")
        assert table.segments.files().paths == []
        assert table.clean(dry_run=True).files >= 0

    @pytest.mark.parametrize("when", [{"version": 1, "as_of": 1}, {"version": 77}, {"as_of": "2000-01-01"}])
    def test_a_wrong_moment(self, table, when):
        """Versions that are not kept are named."""
        with pytest.raises(InvalidInputError):
            library.open(str(table)).segments.files(**when)

    @pytest.mark.parametrize("schema", [7, pa.schema([("a", pa.duration("s"))]), "", "a int, A int"])
    def test_a_wrong_schema(self, tmp_path, schema):
        """What is not a schema, or none that fits, is refused before anything is made."""
        with pytest.raises(InvalidInputError):
            library.create(str(tmp_path / "t"), schema)
        assert not (tmp_path / "t").exists()
