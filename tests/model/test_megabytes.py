from decimal import Decimal

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from packstone.errors import InvalidInputError
from packstone.model.sizes import MB, format_mb, parse_mb


@given(st.decimals(0, 10**6, places=4))
@example(Decimal("1023.99"))
def test_what_people_type_is_printed_as_typed(megabytes):
    """To four decimals nothing is lost, and no zeros are added."""
    assert Decimal(format_mb(parse_mb(megabytes))) == megabytes


@given(st.integers(0, 2**62))
def test_printing_is_as_close_as_it_claims(size):
    """Two parts in a hundred thousand, and to the byte where it matters: below 50 KB."""
    assert abs(parse_mb(Decimal(format_mb(size))) - size) <= max(1, size * 2 // 100_000)


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0"),
        (MB, "1"),
        (300 * MB, "300"),
        (MB // 2, "0.5"),
        (5 * parse_mb(Decimal("0.1")), "0.5"),  # five times 104,858 bytes are two bytes off
        (5 * parse_mb(Decimal("1023.99")), "5119.95"),
        (1, "0.000001"),
        (5 * parse_mb(Decimal("0.001")), "0.005002"),
    ],
)
def test_as_few_decimals_as_the_bytes_allow(size, text):
    """People who typed 0.1 five times expect 0.5."""
    assert format_mb(size) == text


def test_a_size_no_file_can_have_is_refused():
    """One clear sentence."""
    with pytest.raises(InvalidInputError, match="too big"):
        parse_mb(Decimal(10**20))
