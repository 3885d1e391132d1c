"""Files of a segment table are never more open than the table, nor than what they were merged from."""

import stat

import pyarrow as pa
import pytest

import packstone


def modes(root, pattern):
    """The permission bits of the files that match."""
    return {stat.S_IMODE(path.stat().st_mode) for path in root.rglob(pattern) if path.is_file()}


@pytest.mark.parametrize(("folder", "file"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_a_table_is_as_private_as_its_folder(tmp_path, folder, file):
    """Data, index and status files follow the mode of the folder that the table was made in."""
    tmp_path.chmod(folder)
    table = packstone.create(str(tmp_path / "s"), "id long", sort_by=["id"])
    table.segments.load(pa.table({"id": [1, 2]}))
    assert modes(tmp_path / "s", "*") == {file}


def test_merged_files_are_as_private_as_their_inputs(tmp_path):
    """Data files of 0600 in an open folder become data files of 0600."""
    tmp_path.chmod(0o755)
    table = packstone.create(str(tmp_path / "s"), "id long", sort_by=["id"])
    for at in range(4):
        table.segments.load(pa.table({"id": [at]}))
    before = set((tmp_path / "s" / "Fact").rglob("*.parquet"))
    for path in before:
        path.chmod(0o600)
    table.compact()
    made = set((tmp_path / "s" / "Fact").rglob("*.parquet")) - before
    assert made
    assert {stat.S_IMODE(path.stat().st_mode) for path in made} == {0o600}
