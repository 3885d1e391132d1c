"""Strings that are not valid UTF-8 are found wherever they are, and text that is valid is never refused."""

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import UnreadableFileError
from packstone.rewrite.proof.verify_files import check_text


def as_text(values: list[bytes | None], kind: pa.DataType | None = None) -> pa.Array:
    """An array of strings made of any bytes: what PyArrow returns for a damaged file."""
    binary = pa.array(values, pa.large_binary() if kind == pa.large_string() else pa.binary())
    return pa.Array.from_buffers(kind or pa.string(), len(binary), binary.buffers(), binary.null_count)


def is_valid(values: list[bytes | None]) -> bool:
    """What Python says."""
    try:
        for value in values:
            (value or b"").decode()
    except UnicodeDecodeError:
        return False
    return True


@given(
    st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=4).map(str.encode)), max_size=8),
    st.integers(0, 8),
    st.sampled_from([pa.string(), pa.large_string()]),
)
def test_the_same_strings_are_invalid_as_in_python(values, start, kind):
    """For any bytes, cut anywhere, the answer is that of Python's own decoder for each value."""
    batch = pa.record_batch({"s": as_text(values, kind).slice(start)})
    if is_valid(values[start:]):
        check_text(batch, "a.parquet")
    else:
        with pytest.raises(UnreadableFileError, match=r"a\.parquet holds text in column s that is not valid UTF-8"):
            check_text(batch, "a.parquet")


def test_a_character_cut_in_two_is_found():
    """Each value must be valid: the two halves of a character are not, although their bytes in a row are."""
    batch = pa.record_batch({"s": as_text(["ä".encode()[:1], "ä".encode()[1:]])})
    with pytest.raises(UnreadableFileError):
        check_text(batch, "a.parquet")


BAD = as_text([b"good", b"\xe4"])


@pytest.mark.parametrize(
    "column",
    [
        pa.StructArray.from_arrays([BAD], ["s"]),
        pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BAD),
        pa.LargeListArray.from_arrays(pa.array([0, 1, 2], pa.int64()), BAD),
        pa.FixedSizeListArray.from_arrays(BAD, 1),
        pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), BAD, pa.array([1, 2])),
        pa.MapArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pa.array([1, 2]), BAD),
        pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), BAD),
    ],
    ids=lambda column: str(column.type),
)
def test_nested_strings_are_checked(column):
    """A string in a struct, a list, a map or a dictionary is checked like any other."""
    with pytest.raises(UnreadableFileError, match="column c"):
        check_text(pa.record_batch({"c": column}), "a.parquet")


def test_bytes_are_not_text():
    """Binary columns hold what they like."""
    check_text(pa.record_batch({"b": pa.array([b"\xff"]), "n": pa.array([1])}), "a.parquet")
