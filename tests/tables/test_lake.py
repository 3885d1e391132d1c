"""A folder that holds tables is not taken for one table; folders that look alike and are one table still are."""

import shlex
import shutil
from pathlib import Path

import duckdb
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import packstone as api
from packstone.errors import InvalidInputError, SeveralTablesError
from packstone.storage.local import LocalFileIO
from packstone.tables import lake as lake_module
from packstone.tables.lake import find_tables

PAIMON = Path(__file__).parents[1].parent / "examples" / "paimon" / "orders"


def files(folder, count=6):
    """Write small Parquet files, as DuckDB does."""
    folder.mkdir(parents=True, exist_ok=True)
    for at in range(count):
        duckdb.execute(f"COPY (SELECT range + {at * 3} AS id FROM range(3)) TO '{folder}/data_{at}.parquet'")
    return folder


def partitioned(folder, days=("1", "2")):
    """Write a table with `dt=` folders, as PyArrow does, and the marker that Spark leaves."""
    hive = ds.partitioning(pa.schema([("dt", pa.string())]), flavor="hive")
    for at in range(6):
        rows = pa.table({"id": range(at * 10, at * 10 + len(days)), "dt": list(days)})
        ds.write_dataset(
            rows, folder, format="parquet", partitioning=hive,
            basename_template=f"part-{at}-{{i}}.parquet", existing_data_behavior="overwrite_or_ignore",
        )  # fmt: skip
    (folder / "_SUCCESS").touch()
    return folder


def ids(folder):
    """All ids below a folder, by a reader that is not ours."""
    found = duckdb.execute(f"SELECT id FROM read_parquet('{folder}/**/*.parquet') ORDER BY id").fetchall()
    return [row[0] for row in found]


def tables(root):
    """The tables that are found, relative to a folder."""
    return [table.path.removeprefix(f"{root}/") for table in find_tables(LocalFileIO(), str(root))]


@pytest.fixture
def root(tmp_path):
    """A lake of two tables: one with partitions, one without."""
    partitioned(tmp_path / "lake" / "orders")
    files(tmp_path / "lake" / "customers")
    return tmp_path / "lake"


@pytest.mark.parametrize("command", ["plan", "compact", "clean", "recover"])
def test_several_tables_are_refused(packstone, root, tree, command):
    """The sentence names them, the command for each follows, and nothing is touched."""
    before = tree(root.parent)
    done = packstone(command, root)
    lines = done.err.splitlines()
    assert done.code == 2
    assert lines[0].endswith("is not a table but holds 2 tables: customers, orders. Give one of them.")
    assert lines[1:3] == [f"  packstone {command} {root}/{name}" for name in ("customers", "orders")]
    assert ("--each" in done.err) == (command in ("plan", "compact"))
    assert tree(root.parent) == before


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (("restore", "20190101T000000-abcdef"), ("--yes",)),
        (("verify", "20190101T000000-abcdef"), ()),
        (("compact", "--header", "1"), ("--where", "dt < '2'")),
    ],
    ids=" ".join,
)
def test_a_suggested_command_runs(packstone, root, before, after):
    """The command is the one that was typed, with all its options, on one of the tables."""
    lines = packstone(*before, f"{root}/", *after).err.splitlines()
    suggested = [shlex.split(line) for line in lines[1:3]]
    assert suggested == [["packstone", *before, f"{root}/{name}", *after] for name in ("customers", "orders")]
    assert "Give" not in packstone(*suggested[0][1:]).err


@pytest.mark.parametrize(
    "options",
    [
        ("compact", "{root}", "--history", "mysql://me:hidden@db/h"),
        ("compact", "{root}", "--conf", "spark.hadoop.fs.s3a.secret.key=hidden"),
        ("compact", "{root}", "--exclude", "{root}"),
        ("compact", "{root}", "--where", "dt = '1'\nAND TRUE"),
        ("merge", "file:///", "{root}", "10M"),
    ],
    ids=lambda words: words[-1],
)
def test_only_the_paths_are_suggested(packstone, root, options):
    """A command is not printed if it might hold a secret, or if it is not clear which word is the target."""
    done = packstone(*(word.format(root=root) for word in options))
    assert done.err.splitlines()[1:3] == [f"  {root}/customers", f"  {root}/orders"]
    assert "hidden" not in done.err


def test_query_suggests_what_it_can_read(packstone, root):
    """Of a folder of tables, `query` names those that are no Hive directories; if there is none, it says so."""
    statement = "SELECT count(*) FROM t"
    none = packstone("query", root, statement)
    assert (none.code, none.sentence.endswith("a folder of tables, and `packstone query` reads none of them.")) == (
        2,
        True,
    )
    assert packstone("segments", "create", root / "events", "--schema", "id long").code == 0
    done = packstone("query", root, statement, "--format", "json")
    sentence, suggested = done.err.splitlines()
    assert sentence.endswith("is not a table but a folder of tables; give one of those that can be queried.")
    assert shlex.split(suggested) == ["packstone", "query", f"{root}/events", statement, "--format", "json"]
    assert done.json["tables"] == [f"{root}/events"]


def test_the_json_has_them_all(packstone, root):
    """A program gets the paths, too."""
    failure = packstone("compact", root, "--format", "json").json
    assert (failure["status"], failure["tables"]) == ("failed", [f"{root}/customers", f"{root}/orders"])


def test_tables_of_other_programs_are_told_apart(packstone, root):
    """They are not among the tables that can be given, and the sentence says what each of them is."""
    files(root / "events").joinpath("_delta_log").mkdir()
    done = packstone("compact", root)
    assert "holds 2 tables: customers, orders. Give one of them. Others are left alone: events is a Delta" in done.err
    for name in ("customers", "orders"):
        shutil.rmtree(root / name)
    assert "holds 1 table of other programs: events is a Delta Lake table; use" in packstone("compact", root).err


def test_an_error_names_its_table(packstone, root, tmp_path):
    """With --each an error about options says which table it is for, as those before and after it may be planned."""
    seg = root / "seg"
    packstone("segments", "create", seg, "--schema", "id long")
    done = packstone("plan", root, "--each", "--ids", "1")
    assert (done.code, done.err.startswith(f"packstone: {seg}: --ids goes with --strategy custom")) == (2, True)


def test_the_python_api(root):
    """`packstone.open` raises what the command says, with the paths as a fact."""
    with pytest.raises(SeveralTablesError, match="holds 2 tables: customers, orders") as caught:
        api.open(str(root))
    assert isinstance(caught.value, InvalidInputError)
    assert caught.value.facts["tables"] == (f"{root}/customers", f"{root}/orders")


def test_each_table_is_compacted(packstone, root):
    """With --each every table is merged for itself: a run, an outcome and records of its own."""
    before = ids(root)
    done = packstone("compact", root, "--each", "--format", "json")
    assert done.code == 0
    found = {Path(one["table"]).name: (one["status"], one["files_after"]) for one in done.json["tables"]}
    assert found == {"customers": ("committed", 1), "orders": ("committed", 2)}
    assert ids(root) == before
    assert {path.name for path in (root / ".packstone").iterdir()} == {"customers", "orders"}
    again = packstone("compact", root, "--each")
    assert (again.code, again.out.count("nothing-to-do")) == (0, 2)


def test_each_table_is_planned_and_shown(packstone, root, tree):
    """`plan --each` writes nothing; `health` shows every table without being asked."""
    before = tree(root.parent)
    assert packstone("plan", root, "--each").out.count("planned  ") == 2
    shown = packstone("health", root, "--format", "json").json["tables"]
    assert [Path(one["table"]).name for one in shown] == ["customers", "orders"]
    assert tree(root.parent) == before


def test_the_worst_exit_code_counts(packstone, root):
    """A table that fails does not stop the others; the exit code is its own."""
    (root / "customers" / "data_9.parquet").write_bytes(b"PAR1 broken PAR1")
    (root / "orders" / "_temporary").mkdir()
    done = packstone("compact", root, "--each", "--format", "json")
    assert [one["status"] for one in done.json["tables"]] == ["partial", "refused"]
    assert done.code == 1


def test_what_is_for_one_table(packstone, root, tmp_path):
    """A saved plan and the name of a table do not go with --each."""
    for arguments in (
        ("plan", root, "--each", "--out", tmp_path / "p.json"),
        ("compact", root, "--each", "--plan", "p"),
    ):
        done = packstone(*arguments)
        assert (done.code, "is for one table" in done.sentence) == (2, True)


def test_each_of_one_table(packstone, root):
    """--each of a table is that table; of a folder that does not exist, a wrong call."""
    done = packstone("compact", root / "orders", "--each", "--format", "json")
    assert [one["table"] for one in done.json["tables"]] == [f"{root}/orders"]
    assert packstone("compact", root / "nowhere", "--each").code == 2


def test_a_warehouse_of_many_kinds(packstone, tmp_path):
    """Databases, a Paimon table with its own options, a Delta table that is left alone, and files beside them."""
    root = tmp_path / "warehouse"
    shutil.copytree(PAIMON, root / "sales.db" / "paid")
    files(root / "sales.db" / "raw")
    files(root / "events").joinpath("_delta_log").mkdir()
    (root / "README.md").write_text("our warehouse")
    (root / "_staging").mkdir()
    files(root / ".tmp")
    assert tables(root) == ["events", "sales.db/paid", "sales.db/raw"]
    done = packstone("compact", root, "--each", "--format", "json", "--codec", "zstd")
    assert [(Path(one["table"]).name, one["family"]) for one in done.json["tables"]] == [
        ("paid", "paimon"),
        ("raw", "hive"),
    ]
    assert [Path(one["table"]).name for one in done.json["left_alone"]] == ["events"]
    assert done.code == 0


@pytest.mark.parametrize(
    "folders",
    [
        ("dt=1", "dt=2"),  # Hive, Spark, DuckDB
        ("dt=1", "archive"),  # one `k=v` folder is enough
        ("2024/05/01", "2024/05/02"),  # year/month/day
        ("2024-05-01", "20240502", "2024-W21"),
        ("HIVE_UNION_SUBDIR_1", "HIVE_UNION_SUBDIR_2"),  # Hive on Tez
        ("1", "2"),
        ("data",),  # one folder of files: nothing else can be told
        ("", "a", "b"),  # files of its own beside nested folders (mapred.supports.subdirectories)
    ],
)
def test_one_table(packstone, tmp_path, folders):
    """Layouts of one table are merged as before, folder by folder."""
    for name in folders:
        files(tmp_path / "events" / name)
    before = ids(tmp_path / "events")
    done = packstone("compact", tmp_path / "events", "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, len(folders))
    assert ids(tmp_path / "events") == before


@pytest.mark.parametrize("below", ["orders", "db.db/orders"])
def test_a_single_table_with_partitions(packstone, tmp_path, below):
    """It is the table: if its parent were, a second table beside it would be a part of the same one."""
    partitioned(tmp_path / "lake" / below)
    done = packstone("compact", tmp_path / "lake")
    assert (done.code, "holds 1 table:" in done.err) == (2, True)
    assert packstone("compact", tmp_path / "lake" / below).code == 0


def test_what_was_one_table_stays_one(packstone, tmp_path):
    """Where runs are recorded of a folder as one table, it is: its records are needed to undo them."""
    files(tmp_path / "lake" / "a")
    assert packstone("compact", tmp_path / "lake").code == 0
    files(tmp_path / "lake" / "b")
    done = packstone("compact", tmp_path / "lake", "--format", "json")
    assert (done.code, done.json["files_after"]) == (0, 2)


def test_a_partition_is_not_asked(packstone, tmp_path):
    """A folder inside a `k=v` folder belongs to that table, whatever its sub-folders are called."""
    for name in ("a", "b"):
        files(tmp_path / "t" / "dt=1" / name)
    assert packstone("compact", tmp_path / "t" / "dt=1", "--format", "json").json["files_after"] == 2


def test_no_more_folders_than_stated(packstone, root, monkeypatch):
    """The search ends after a number of folders: it says so, and --each asks for less."""
    monkeypatch.setattr(lake_module, "MAX_FOLDERS", 3)
    for name in ("a", "b", "c"):
        files(root / name, count=1)
    done = packstone("compact", root)
    assert "holds at least 2 tables: a, b." in done.err
    assert "more than 3 folders" in packstone("compact", root, "--each").sentence


def test_a_folder_is_looked_into_once(root):
    """A table of many partitions costs one listing of the table's own folder, and no other."""

    class Counting(LocalFileIO):
        listed = 0

        def list_dir(self, path):
            Counting.listed += 1
            return super().list_dir(path)

    lake_module.check_one_table(Counting(), f"{root}/orders")
    assert Counting.listed == 1
    files(root / "plain", count=1)
    lake_module.check_one_table(Counting(), f"{root}/plain")
    assert Counting.listed == 2


@pytest.mark.parametrize("command", ["health", "plan", "compact"])
@pytest.mark.parametrize("target", ["/", "//", "/etc", "/etc/apt/../apt", "/usr/share"])
def test_folders_of_the_system_are_refused(packstone, command, target):
    """Nobody compacts the root of a file system or its programs, whatever files lie there."""
    done = packstone(command, target)
    assert done.code == 2
    assert "is the root of the file system" in done.err or "belongs to the operating system" in done.err


def test_a_stray_file_does_not_join_tables(packstone, root, tree):
    """A file beside a table with partitions is not a reason to take the whole lake for one table."""
    (root / "plan.json").write_text('{"a": 1}\n')
    before = tree(root)
    done = packstone("compact", str(root))
    assert (done.code, "holds 2 tables: customers, orders" in done.err) == (2, True)
    assert tree(root) == before
