"""Names in Paimon's metadata lead to files that are read and, by an expiry, removed: they must not lead elsewhere."""

import json
import shutil
import stat
from pathlib import Path

import pytest

from packstone.errors import CorruptionError
from packstone.pipeline.table import Table
from packstone.rewrite.formats.avro_file import plain_schema, read_header, read_records, write_records
from packstone.storage.local import LocalFileIO
from packstone.tables.paimon.format.manifest import read_manifest
from packstone.tables.paimon.format.manifest_list import read_manifest_list

EXAMPLE = Path(__file__).parents[3] / "examples" / "paimon" / "orders"
ODD = ["../../../outside/secret.txt", "..", "a/b", "/etc/passwd", ""]


@pytest.fixture
def table(tmp_path):
    """A copy of the example, beside something precious."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "secret.txt").write_text("precious")
    return Path(shutil.copytree(EXAMPLE, tmp_path / "lake" / "t"))


def rewrite(path: Path, change) -> None:
    """Change the records of an Avro file."""
    data = path.read_bytes()
    schema = plain_schema(read_header(data, path=str(path)), path=str(path), logical=True)
    records = [change(dict(record)) for record in read_records(data, path=str(path))]
    path.write_bytes(write_records(schema, records, codec="null"))


@pytest.mark.parametrize("odd", ODD)
def test_a_manifest_list_that_names_files_elsewhere(table, odd):
    """The manifests of a list are in one folder."""
    path = next((table / "manifest").glob("manifest-list-*"))
    rewrite(path, lambda record: {**record, "_FILE_NAME": odd})
    with pytest.raises(CorruptionError, match="is not the name of a file"):
        read_manifest_list(LocalFileIO(), str(path))


@pytest.mark.parametrize("lean", [True, False])
@pytest.mark.parametrize("field", ["_FILE_NAME", "_EXTRA_FILES"])
@pytest.mark.parametrize("odd", ODD)
def test_a_manifest_that_names_files_elsewhere(table, odd, field, lean):
    """Data files and their extra files are in the folder of their bucket, by both ways of reading."""
    path = next(found for found in (table / "manifest").glob("manifest-*") if "list" not in found.name)
    value = [odd] if field == "_EXTRA_FILES" else odd
    rewrite(path, lambda record: {**record, "_FILE": {**record["_FILE"], field: value}})
    with pytest.raises(CorruptionError, match="is not the name of a file"):
        list(read_manifest(LocalFileIO(), str(path), lean=lean))


@pytest.mark.parametrize("field", ["baseManifestList", "deltaManifestList", "indexManifest", "statistics"])
def test_a_snapshot_that_names_files_elsewhere(table, field):
    """What a snapshot names is in the table's own folders; compact and clean touch nothing."""
    path = max((table / "snapshot").glob("snapshot-*"), key=lambda found: int(found.name.partition("-")[2]))
    path.write_text(json.dumps({**json.loads(path.read_text()), field: "../../../outside/secret.txt"}))
    before = sorted(table.rglob("*"))
    for act in (lambda: Table(str(table)).compact(), lambda: Table(str(table)).health()):
        with pytest.raises(CorruptionError, match="is not the name of a file"):
            act()
    assert sorted(table.rglob("*")) == before


def test_merged_files_are_as_private_as_their_inputs(table):
    """Files of 0600 in an open folder become files of 0600."""
    data = [path for path in table.rglob("data-*") if path.is_file()]
    for path in data:
        path.chmod(0o600)
    Table(str(table)).compact()
    made = [path for path in table.rglob("data-*") if path.is_file() and path not in data]
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
