import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.model.sizes import ExactSize


@given(st.integers(0, 2**63))
@example(0)
@example(2**50)
@example(2**53)
def test_a_size_parses_back_to_the_byte(size):
    """What is printed is exactly what was meant."""
    assert ExactSize.parse(str(ExactSize(size))) == size


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0B"), (7, "7B"), (1536, "1536B"), (10 << 20, "10MB"), (1 << 40, "1TB"), (1 << 50, "1024TB")]
)
def test_the_biggest_unit_that_divides_is_taken(size, text):
    """A fraction of a unit is never printed."""
    assert str(ExactSize(size)) == text


@pytest.mark.parametrize("text", ["", "x", "1.5MB", "-1", "1PB", "MB"])
def test_what_is_not_a_size_is_refused(text):
    """One clear sentence."""
    with pytest.raises(InvalidInputError, match="is not a size"):
        ExactSize.parse(text)
