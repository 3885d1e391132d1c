import pytest
from hypothesis import given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.model.sorted_run import Level, SortedRun, TreeFile

names = st.text("abcdefgh0123456789", min_size=1, max_size=8)
files = st.builds(
    TreeFile,
    name=names,
    level=st.integers(0, 9),
    size_bytes=st.integers(0, 2**50),
    min_key=st.integers(0, 50),
    max_key=st.integers(50, 99),
    delete_rows=st.one_of(st.none(), st.integers(0, 9)),
    has_deletion_vector=st.booleans(),
    may_be_expired=st.booleans(),
    min_sequence=st.just(1),
    max_sequence=st.integers(1, 9),
    created_ms=st.integers(0, 9),
)


@given(files)
def test_a_file_parses_back(file):
    """What is printed is what was meant."""
    assert TreeFile.parse(str(file)) == file


@given(st.builds(SortedRun, level=st.integers(0, 9), size_bytes=st.integers(0, 2**50), name=names))
def test_a_run_parses_back(run):
    """What is printed is what was meant."""
    assert SortedRun.parse(str(run)) == run


def test_they_look_as_the_style_says():
    """One line each."""
    assert str(SortedRun(level=0, name="f7", size_bytes=10 << 20)) == "L0 f7 10MB"
    assert str(TreeFile(name="f7", level=0, size_bytes=10 << 20, min_key="a", max_key="f")) == "L0 f7 [a-f] 10MB"
    assert f"{Level(4)}" == "L4"


@pytest.mark.parametrize(("kind", "line"), [(TreeFile, "L0 f7 10MB"), (SortedRun, "L0 10MB"), (SortedRun, "")])
def test_what_is_neither_is_refused(kind, line):
    """With an example of how to write it."""
    with pytest.raises(InvalidInputError, match="write for example"):
        kind.parse(line)
