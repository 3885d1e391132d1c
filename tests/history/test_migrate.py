"""The schema of the history and its migrations."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from io import StringIO

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.operations import Operations
from alembic.script import ScriptDirectory
from sqlalchemy import String, create_engine
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.schema import CreateIndex, CreateTable

from packstone.errors import InvalidInputError, UnavailableError
from packstone.history.schema import METADATA, MIGRATIONS
from packstone.history.sqlite_file import REVISIONS, VERSION_TABLE
from packstone.history.store import open_history

# In a process of its own: what was imported is the claim.
OPEN = "import sys; from packstone.history.store import open_history; open_history(sys.argv[1]).list_runs(); "


@pytest.fixture
def path(tmp_path):
    """A file that does not exist yet."""
    return tmp_path / "history.db"


def query(path, sql):
    """Ask SQLite itself."""
    with closing(sqlite3.connect(path)) as raw:
        rows = raw.execute(sql).fetchall()
        raw.commit()
        return rows


def test_empty_database_is_migrated(path):
    """A missing file, and a file of no bytes, get the schema and the newest revision."""
    for existing in (False, True):
        path.unlink(missing_ok=True)
        if existing:
            path.touch()
        open_history(f"sqlite:///{path}").close()
        assert query(path, f"SELECT version_num FROM {VERSION_TABLE}") == [(REVISIONS[-1],)]


def test_alembic_is_imported_only_to_migrate(path):
    """The first opening migrates; the second finds the schema and does without Alembic."""
    for expected in ("True", "False"):
        code = OPEN + "print('alembic' in sys.modules)"
        found = subprocess.run(
            [sys.executable, "-c", code, f"sqlite:///{path}"], check=True, capture_output=True, text=True
        )
        assert (found.stdout.strip(), found.stderr) == (expected, "")


def test_opening_again_changes_nothing(path):
    """A database that has the schema is opened without writing."""
    open_history(f"sqlite:///{path}").close()
    before = path.read_bytes()
    open_history(f"sqlite:///{path}").close()
    assert path.read_bytes() == before


def test_tables_of_others_are_left_alone(path):
    """The history may live in a database that has other tables, another Alembic's version table included."""
    query(path, "CREATE TABLE alembic_version (version_num VARCHAR(32))")
    query(path, "INSERT INTO alembic_version VALUES ('theirs')")
    open_history(f"sqlite:///{path}").close()
    assert query(path, "SELECT version_num FROM alembic_version") == [("theirs",)]


def test_newer_database_is_refused(path):
    """A database of a newer Packstone is refused in one sentence that says what to do, and left as it is."""
    open_history(f"sqlite:///{path}").close()
    query(path, f"UPDATE {VERSION_TABLE} SET version_num = '9999'")
    with pytest.raises(InvalidInputError) as caught:
        open_history(f"sqlite:///{path}")
    assert "newer Packstone (schema 9999" in caught.value.message
    assert "upgrade Packstone" in caught.value.message
    assert caught.value.facts == {"revision": "9999"}
    assert query(path, f"SELECT version_num FROM {VERSION_TABLE}") == [("9999",)]


def test_failed_migration_leaves_nothing(path):
    """If a migration fails half-way, nothing of it stays, and the next opening does it all."""
    query(path, "CREATE TABLE packstone_unit (in_the_way INT)")
    with pytest.raises(UnavailableError, match="already exists"):
        open_history(f"sqlite:///{path}")
    assert query(path, "SELECT name FROM sqlite_master WHERE type = 'table'") == [("packstone_unit",)]
    query(path, "DROP TABLE packstone_unit")
    open_history(f"sqlite:///{path}").close()


def test_migrations_end_where_the_code_begins(path):
    """The migrations make exactly the tables the code uses, and the listed revisions are theirs, in order."""
    open_history(f"sqlite:///{path}").close()
    engine = create_engine(f"sqlite:///{path}")
    with engine.connect() as connection:
        options = {"version_table": VERSION_TABLE, "compare_type": True}
        assert compare_metadata(MigrationContext.configure(connection, opts=options), METADATA) == []
    engine.dispose()
    scripts = ScriptDirectory(str(MIGRATIONS)).walk_revisions()
    assert tuple(script.revision for script in scripts)[::-1] == REVISIONS


@pytest.mark.parametrize("dialect", [mysql.dialect(), postgresql.dialect()], ids=lambda dialect: dialect.name)
def test_schema_suits_other_databases(dialect):
    """No name needs quotes, so one SQL serves all; strings have lengths; rows and keys fit MySQL."""
    for table in METADATA.sorted_tables:
        ddl = str(CreateTable(table).compile(dialect=dialect))
        ddl += "".join(str(CreateIndex(index).compile(dialect=dialect)) for index in table.indexes)
        assert not set("\"`'") & set(ddl)
        lengths = {column.name: column.type.length for column in table.c if isinstance(column.type, String)}
        assert None not in lengths.values()
        assert sum(lengths.values()) * 4 + len(table.c) * 10 < 65_535
        for key in (table.primary_key, *table.indexes):
            assert sum(lengths.get(column.name, 8) for column in key.columns) * 4 <= 3_072


@pytest.mark.parametrize(
    ("dialect", "expected"),
    [
        ("mysql", ("DATETIME(6)", "utf8mb4_bin", "InnoDB", "DOUBLE")),
        ("postgresql", ("TIMESTAMP", "DOUBLE PRECISION")),
    ],
)
def test_migrations_speak_other_databases(dialect, expected):
    """The migrations compile for MySQL and PostgreSQL, with microseconds, exact names and doubles."""
    script = StringIO()
    context = MigrationContext.configure(
        dialect_name=dialect, opts={"as_sql": True, "output_buffer": script, "version_table": VERSION_TABLE}
    )
    revision = ScriptDirectory(str(MIGRATIONS)).get_revision(REVISIONS[0])
    with Operations.context(context):
        revision.module.upgrade()
    for text in expected:
        assert text in script.getvalue()


def test_downgrade_removes_the_tables(path):
    """The way back is there for those who drive Alembic by hand."""
    open_history(f"sqlite:///{path}").close()
    engine = create_engine(f"sqlite:///{path}")
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with engine.begin() as connection:
        config.attributes["connection"] = connection
        command.downgrade(config, "base")
    engine.dispose()
    assert query(path, "SELECT name FROM sqlite_master WHERE type = 'table'") == [(VERSION_TABLE,)]
