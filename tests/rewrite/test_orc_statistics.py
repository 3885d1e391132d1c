"""Merged statistics of ORC columns are those of all rows, or say nothing."""

import math
import struct
from decimal import Decimal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from packstone.rewrite.formats.orc_protobuf import (
    BYTES,
    FIXED64,
    VARINT,
    read_message,
    read_packed,
    unzigzag,
    write_message,
    write_packed,
    zigzag,
)
from packstone.rewrite.formats.orc_statistics import merge_statistics

INT, DOUBLE, STRING, BUCKET, DECIMAL, DATE, BINARY, TIMESTAMP, COLLECTION = 2, 3, 4, 5, 6, 7, 8, 9, 12


def stated(kind, fields, *, count, has_null=False, disk_bytes=7):
    """Statistics as a writer states them."""
    typed = [(kind, BYTES, write_message(fields))]
    tail = [(10, VARINT, int(has_null)), (11, VARINT, disk_bytes)]
    return write_message([(1, VARINT, count), *typed, *tail])


def merged(parts):
    """The merged statistics, the typed ones opened."""
    found = {number: value for number, _, value in read_message(merge_statistics(parts))}
    typed = {number: value for number in found if number not in (1, 10, 11) for _, value in [(0, found[number])]}
    return found, {
        kind: {number: value for number, _, value in read_message(content)} for kind, content in typed.items()
    }


def of_ints(values):
    """What a writer states of whole numbers."""
    if not values:
        return stated(INT, [(3, VARINT, 0)], count=0)
    numbers = ((1, min(values)), (2, max(values)), (3, sum(values)))
    fields = [(at, VARINT, zigzag(value)) for at, value in numbers if at < 3 or abs(value) < 1 << 63]
    return stated(INT, fields, count=len(values))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.integers(-(1 << 63), (1 << 63) - 1), max_size=4), min_size=1, max_size=5))
def test_whole_numbers(files):
    """Smallest, biggest and sum are those of all values; a sum that does not fit is left out."""
    values = [value for file in files for value in file]
    found, typed = merged([of_ints(file) for file in files])
    assert (found[1], found[10], found[11]) == (len(values), 0, 7 * len(files))
    if not values:
        return
    assert (unzigzag(typed[INT][1]), unzigzag(typed[INT][2])) == (min(values), max(values))
    if 3 in typed[INT]:
        assert unzigzag(typed[INT][3]) == sum(values)


def of_strings(values, limit):
    """What a writer states of texts, which it cuts at a limit: below the smallest, above the biggest."""
    if not values:
        return stated(STRING, [], count=0)
    low, high = min(values), max(values)
    fields = [(1, BYTES, low) if len(low) <= limit else (4, BYTES, low[:limit])]
    fields.append((2, BYTES, high) if len(high) <= limit else (5, BYTES, high[: limit - 1] + b"\xff"))
    fields.append((3, VARINT, zigzag(sum(map(len, values)))))
    return stated(STRING, sorted(fields), count=len(values))


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.binary(max_size=6).map(lambda text: text.replace(b"\xff", b"")), max_size=4), min_size=1))
def test_texts(files):
    """A value stated as exact is exact; a bound holds for all values."""
    values = [value for file in files for value in file]
    _, typed = merged([of_strings(file, 3) for file in files])
    if not values:
        return
    found = typed[STRING]
    assert found.get(1, min(values)) == min(values)
    assert found.get(2, max(values)) == max(values)
    assert found.get(4, b"") <= min(values)
    assert found.get(5, b"\xff" * 9) >= max(values)
    assert (1 in found, 2 in found) != (4 in found, 5 in found)
    assert unzigzag(found[3]) == sum(map(len, values))


def of_doubles(*values, total=None):
    """What a writer states of floating-point numbers."""
    numbers = (min(values), max(values), sum(values) if total is None else total)
    fields = [(at, FIXED64, struct.pack("<d", value)) for at, value in enumerate(numbers, 1)]
    return stated(DOUBLE, fields, count=len(values))


def doubles(found):
    """The three numbers."""
    return [struct.unpack("<d", found[at])[0] for at in (1, 2, 3)]


def test_floating_point():
    """Ranges join; the sign of zero counts."""
    _, typed = merged([of_doubles(1.5, 2.5), of_doubles(-3.0), of_doubles(0.0)])
    assert doubles(typed[DOUBLE]) == [-3.0, 2.5, 1.0]
    _, typed = merged([of_doubles(0.0), of_doubles(-0.0)])
    assert [math.copysign(1, one) for one in doubles(typed[DOUBLE])[:2]] == [-1.0, 1.0]


@pytest.mark.parametrize("part", [of_doubles(math.nan), of_doubles(1.0, total=math.nan)])
def test_not_a_number(part):
    """One file with NaN: the merged range says nothing and the sum is NaN, by which readers know it."""
    for parts in ([part, of_doubles(1.0)], [of_doubles(1.0), part]):
        _, typed = merged(parts)
        assert all(map(math.isnan, doubles(typed[DOUBLE])))


def test_decimals():
    """Decimals are compared by value, not as text; a sum too long for 38 digits is left out."""

    def of(low, high, total):
        return stated(DECIMAL, [(1, BYTES, low), (2, BYTES, high), (3, BYTES, total)], count=2)

    _, typed = merged([of(b"9.5", b"10", b"19.5"), of(b"-2", b"9.75", b"7.75")])
    assert {at: Decimal(value.decode()) for at, value in typed[DECIMAL].items()} == {
        1: Decimal(-2),
        2: Decimal(10),
        3: Decimal("27.25"),
    }
    most = b"9" * 38
    _, typed = merged([of(b"1", most, most), of(b"1", most, most)])
    assert set(typed[DECIMAL]) == {1, 2}


def test_the_other_kinds():
    """Counts of true values, days, bytes of binaries and lengths of lists."""
    _, typed = merged([stated(BUCKET, [(1, BYTES, write_packed([at]))], count=5) for at in (3, 400)])
    assert read_packed(typed[BUCKET][1]) == [403]
    days = [stated(DATE, [(1, VARINT, zigzag(at)), (2, VARINT, zigzag(at + 9))], count=5) for at in (-700_000, 3)]
    _, typed = merged(days)
    assert (unzigzag(typed[DATE][1]), unzigzag(typed[DATE][2])) == (-700_000, 12)
    _, typed = merged([stated(BINARY, [(1, VARINT, zigzag(at))], count=5) for at in (3, 4)])
    assert unzigzag(typed[BINARY][1]) == 7
    lists = [stated(COLLECTION, [(1, VARINT, at), (2, VARINT, at + 5), (3, VARINT, 9)], count=5) for at in (0, 3)]
    _, typed = merged(lists)
    assert typed[COLLECTION] == {1: 0, 2: 8, 3: 18}


def test_timestamps_to_the_nanosecond():
    """Of equal milliseconds the nanoseconds decide; absent ones mean the most careful."""

    def of(millis, *, nanos=None):
        fields = [(3, VARINT, zigzag(millis)), (4, VARINT, zigzag(millis))]
        fields += [] if nanos is None else [(5, VARINT, nanos + 1), (6, VARINT, nanos + 1)]
        return stated(TIMESTAMP, fields, count=1)

    _, typed = merged([of(5, nanos=7), of(5, nanos=3), of(4, nanos=9)])
    assert typed[TIMESTAMP] == {3: zigzag(4), 4: zigzag(5), 5: 10, 6: 8}
    _, typed = merged([of(5, nanos=7), of(5)])
    assert typed[TIMESTAMP] == {3: zigzag(5), 4: zigzag(5)}


@pytest.mark.parametrize("kind", [INT, DOUBLE, STRING, BUCKET, DECIMAL, DATE, BINARY, TIMESTAMP, COLLECTION])
def test_a_part_that_states_less(kind):
    """A file with values but without a range leaves the merged range open; one without values does not count."""
    silent = stated(kind, [], count=3)
    found, typed = merged([silent, silent])
    assert (found[1], typed) == (6, {})
    found, typed = merged([silent, of_ints([1])])
    assert (found[1], typed) == (4, {})
    plain = write_message([(1, VARINT, 2)])
    found, typed = merged([plain, plain])
    assert (found, typed) == ({1: 4, 10: 1}, {})


def test_without_values():
    """Files of nulls alone: a count of 0, and the null is reported."""
    found, typed = merged([stated(INT, [(3, VARINT, 0)], count=0, has_null=True), of_ints([])])
    assert (found[1], found[10], typed) == (0, 1, {INT: {3: 0}})
    found, typed = merged([stated(INT, [(3, VARINT, 0)], count=0, has_null=True), of_ints([5])])
    assert (found[1], found[10], unzigzag(typed[INT][1]), unzigzag(typed[INT][2])) == (1, 1, 5, 5)
