"""Text in ORC files that is not UTF-8: the file is left alone by name, unless the user accepts it."""

import pyarrow as pa
import pytest
from pyarrow import orc

from packstone import HiveOptions, Table
from packstone.model.unit import Verify

LATIN1 = b"caf\xe9"
SHAPES = {
    "plain": lambda text: pa.array([text, "ok"]),
    "list": lambda text: pa.array([[text], None]),
    "struct": lambda text: pa.array([{"x": text}, None]),
    "map": lambda text: pa.array([[(text, text)], None], pa.map_(pa.string(), pa.string())),
}


def write(folder, shape, *, rows):
    """Three files, the second with Latin-1 in the place of UTF-8."""
    folder.mkdir()
    for at in range(3):
        texts = pa.concat_arrays([SHAPES[shape]("cafe")] * (rows // 2))
        noise = pa.array([f"{(at + 1) * number * 7919 % 99_991:x}" for number in range(rows)])
        path = folder / f"{at}.orc"
        orc.write_table(pa.table({"t": texts, "n": noise}), path, compression="uncompressed", stripe_size=1 << 26)
        if at == 1:
            path.write_bytes(path.read_bytes().replace(b"cafe", LATIN1))
    return folder


def compact(folder, **options):
    """Merge; name the way, the inputs and what is said of others."""
    outcome = Table(str(folder)).compact(HiveOptions(min_files=2, **options))
    return [(unit.how, len(unit.inputs)) for unit in outcome.units], " ".join(map(str, outcome.skipped))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize(("rows", "how"), [(20, "rewrite"), (20_000, "stitch")])
def test_the_file_is_left_alone(tmp_path, shape, rows, how):
    """Whether stripes are copied or encoded again, and however deep the text is: the two other files are merged."""
    folder = write(tmp_path / "t", shape, rows=rows)
    damaged = (folder / "1.orc").read_bytes()
    assert LATIN1 in damaged
    units, said = compact(folder)
    assert units == [(how, 2)]
    assert "1.orc" in said
    assert "not valid UTF-8" in said
    assert "--set accept-invalid-text=true" in said
    assert (folder / "1.orc").read_bytes() == damaged


@pytest.mark.parametrize("options", [{"accept_invalid_text": True}, {"verify": Verify.COUNT}], ids=str)
@pytest.mark.parametrize("rows", [20, 20_000])
def test_it_is_merged_if_that_is_accepted(tmp_path, rows, options):
    """Under the option, or if only rows are counted, all three are merged and the bytes are kept."""
    folder = write(tmp_path / "t", "plain", rows=rows)
    units, said = compact(folder, **options)
    assert ([inputs for _, inputs in units], said) == ([3], "")
    (path,) = folder.iterdir()
    texts = orc.read_table(path)["t"].cast(pa.binary()).to_pylist()
    assert texts.count(LATIN1) == rows // 2
    assert texts.count(b"cafe") == rows
