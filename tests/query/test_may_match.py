"""Each kind of filter: it prunes where it may and does not where it must not, blocklet by blocklet."""

import math
from decimal import Decimal

import pyarrow as pa
import pytest

from packstone.errors import InvalidInputError
from packstone.query.filter.expression import (
    FALSE,
    NULL,
    TRUE,
    And,
    Compare,
    IsNull,
    Not,
    OneOf,
    Op,
    Or,
    StartsWith,
    Unknown,
    ValueSet,
    col,
)
from packstone.query.filter.may_match import may_match, must_match

NAN = math.nan
BOUNDS = {pa.string(): pa.binary()}


def index(*blocklets, kind=None, rows=10):
    """The index of a column `c`; a blocklet is (min, max), and may say more: (min, max, nulls, nan)."""
    kind = kind or pa.int64()
    facts = [(*told, 0, False)[:4] if len(told) == 2 else (*told, False)[:4] for told in blocklets]
    low, high, nulls, nan = zip(*facts, strict=True)
    bound = BOUNDS.get(kind, kind)
    columns = {"min.c": pa.array(low, bound), "max.c": pa.array(high, bound), "nulls.c": pa.array(nulls, pa.int64())}
    if pa.types.is_floating(kind):
        columns["nan.c"] = pa.array(nan)
    return pa.table({"rows": pa.array([rows] * len(low), pa.int64()), **columns})


def compare(op, value, kind=None):
    """``c op value``."""
    return Compare(column="c", op=Op(op), literal=pa.scalar(value, kind or pa.int64()))


def one_of(*values, kind=None, negated=False):
    """``c [NOT] IN (values)``."""
    return OneOf(column="c", literals=ValueSet(array=pa.array(values, kind or pa.int64())), negated=negated)


def starts(prefix, *, negated=False):
    """``[NOT] startswith(c, prefix)``."""
    return StartsWith(column="c", prefix=pa.scalar(prefix), negated=negated)


def answers(node, table):
    """For each blocklet `!` (must match), `+` (may match) or `-` (pruned)."""
    may, must = may_match(node, table), must_match(node, table)
    assert not (must & ~may)[table["rows"].to_numpy() > 0].any()
    return "".join("!" if sure else "+" if maybe else "-" for maybe, sure in zip(may, must, strict=True))


# [1,5]  [5,5]  [6,9]  [5,5] with a null  [1,5] with a null  all null  nothing known of 10 values
NUMBERS = index((1, 5), (5, 5), (6, 9), (5, 5, 1), (1, 5, 1), (None, None, 10), (None, None, 0))


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (compare("=", 5), "+!-++-+"),
        (compare("=", 0), "------+"),
        (compare("=", 7), "--+---+"),
        (compare("<>", 5), "+-!-+-+"),
        (compare("<>", 7), "!!+++-+"),
        (compare("<", 5), "+---+-+"),
        (compare("<", 6), "!!-++-+"),
        (compare("<", 1), "------+"),
        (compare("<=", 5), "!!-++-+"),
        (compare("<=", 1), "+---+-+"),
        (compare("<=", 0), "------+"),
        (compare(">", 5), "--!---+"),
        (compare(">", 4), "+!!++-+"),
        (compare(">=", 5), "+!!++-+"),
        (compare(">=", 6), "--!---+"),
        (compare(">=", 10), "------+"),
        (one_of(0, 5), "+!-++-+"),
        (one_of(0, 10), "------+"),
        (one_of(-3, 20), "------+"),
        (one_of(7), "--+---+"),
        (one_of(), "-------"),
        (one_of(5, negated=True), "+-!-+-+"),
        (one_of(1, 2, 3, 4, 5, negated=True), "+-!-+-+"),
        (one_of(negated=True), "!!!!!!!"),
        (IsNull(column="c"), "---++!-"),
        (IsNull(column="c", negated=True), "!!!++-!"),
    ],
)
def test_numbers(node, expected):
    """Comparisons, sets and null tests; also the other way round under NOT."""
    assert answers(node, NUMBERS) == expected


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (Not(part=compare("=", 5)), "+-!-+-+"),
        (Not(part=Not(part=compare("=", 5))), "+!-++-+"),
        (Not(part=IsNull(column="c")), "!!!++-!"),
        (And(parts=(compare(">", 5), compare("<", 6))), "------+"),
        (And(parts=(compare(">=", 1), compare("<=", 9))), "!!!++-+"),
        (And(parts=(compare(">", 0), FALSE)), "-------"),
        (And(parts=(compare(">", 0), NULL)), "-------"),
        (And(parts=(compare(">", 5), Unknown(text="f(c)", columns=("c",)))), "--+---+"),
        (Or(parts=(compare("=", 7), compare("<", 1))), "--+---+"),
        (Or(parts=(compare("=", 5), IsNull(column="c"))), "+!-++!+"),  # of [5,5] and a null nobody sees both at once
        (Or(parts=(compare(">", 5), TRUE)), "!!!!!!!"),
        (Or(parts=(compare(">", 5), NULL)), "--!---+"),
        (Not(part=And(parts=(compare(">", 5), compare("<", 20)))), "!!-++-+"),
        (Not(part=Or(parts=(compare("<", 6), NULL))), "-------"),
        (TRUE, "!!!!!!!"),
        (FALSE, "-------"),
        (NULL, "-------"),
        (Not(part=NULL), "-------"),
        (Unknown(text="f(c)", columns=("c",)), "+++++++"),
        (Not(part=Unknown(text="f(c)", columns=("c",))), "+++++++"),
    ],
)
def test_joined_filters(node, expected):
    """Three-valued: what is NULL does not match, and does not match under NOT either."""
    assert answers(node, NUMBERS) == expected


# [-1,1]  [-1,1] and NaN  zeros  zeros and a null  only NaN  all null  NaN as bounds, of a foreign writer
FLOATS = index(
    *((-1.0, 1.0), (-1.0, 1.0, 0, True), (-0.0, 0.0), (-0.0, 0.0, 1), (None, None, 0, True), (None, None, 10)),
    (NAN, NAN, 0, False),
    kind=pa.float64(),
)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (("=", 0.0), "++!++-+"),
        (("=", -0.0), "++!++-+"),
        (("=", 2.0), "----+-+"),
        (("=", NAN), "-+--+--"),
        (("<>", 0.0), "++--+-+"),
        (("<>", NAN), "!+!++-!"),
        (("<", -0.0), "++--+-+"),
        (("<=", -0.0), "++!++-+"),
        (("<=", 1.0), "!+!++-+"),
        (("<", NAN), "!+!++-!"),
        (("<=", NAN), "!!!+!-!"),
        ((">", 0.0), "++--+-+"),
        ((">", 1.0), "-+--+-+"),
        ((">", math.inf), "-+--+-+"),
        ((">=", 0.0), "++!++-+"),
        ((">=", -1.0), "!!!++-+"),
        ((">", NAN), "-------"),
        ((">=", NAN), "-+--+--"),
        ((), "-------"),
        ((0.0,), "++!++-+"),
        ((-0.0, 3.0), "++!++-+"),
        ((5.0, NAN), "-+--+-+"),
        ((NAN,), "-+--+--"),
    ],
)
def test_floats(node, expected):
    """NaN is above all and in no bounds, the zeros are equal, a bound that is NaN says nothing."""
    is_set = not node or not isinstance(node[0], str)
    found = one_of(*node, kind=pa.float64()) if is_set else compare(*node, kind=pa.float64())
    assert answers(found, FLOATS) == expected


def test_not_in_of_nan():
    """NOT IN prunes single values only, and never a blocklet with a NaN that is not listed."""
    assert answers(one_of(0.0, kind=pa.float64(), negated=True), FLOATS) == "++--+-+"
    assert answers(one_of(2.0, kind=pa.float64(), negated=True), FLOATS) == "!!!++-+"
    assert answers(one_of(NAN, kind=pa.float64(), negated=True), FLOATS) == "!+!++-!"


# a..b, b, abc..abd, bounds cut: above all of `zz…`, no upper bound, all null
STRINGS = index(
    *((b"a", b"b"), (b"b", b"b"), (b"abc", b"abd"), (b"z" * 256, b"z" * 255 + b"{"), (b"\xff" * 256, None)),
    (None, None, 10),
    kind=pa.string(),
)


@pytest.mark.parametrize(
    ("node", "expected"),
    [
        (starts("a"), "+-!---"),
        (starts("ab"), "+-!---"),
        (starts("abc"), "+-+---"),
        (starts("abcd"), "+-+---"),
        (starts("abd"), "+-+---"),
        (starts("abe"), "+-----"),
        (starts("b"), "+!----"),
        (starts("bb"), "------"),
        (starts("z"), "---!--"),
        (starts("z" * 256), "---+--"),
        (starts("z" * 300), "---+--"),
        (starts(""), "!!!!!-"),
        (starts(b"\xff"), "----!-"),
        (starts(b"\xff\xff"), "----!-"),
        (starts(b"\xff" * 300), "----+-"),
        (starts("a", negated=True), "+!-!!-"),
        (starts("b", negated=True), "+-!!!-"),
        (starts("", negated=True), "------"),
        (starts(b"\xff", negated=True), "!!!!--"),
        (compare("=", "z" * 300, pa.string()), "---+--"),
        (compare("=", "b", pa.string()), "+!----"),
        (compare("<>", "b", pa.string()), "+-!!!-"),
        (compare(">", "b", pa.string()), "---!!-"),
        (compare("<", "b", pa.string()), "+-!---"),
        (compare(">=", "zzz", pa.string()), "---!!-"),
        (compare("<", "ä", pa.string()), "!!!!--"),
        (one_of("aa", "x", kind=pa.string()), "+-----"),
        (one_of("b", "z" * 300, kind=pa.string()), "+!-+--"),
        (one_of("b", kind=pa.string(), negated=True), "+-!!!-"),
    ],
)
def test_strings(node, expected):
    """By bytes; cut bounds still hold, and behind a prefix of highest bytes there is nothing."""
    assert answers(node, STRINGS) == expected


@pytest.mark.parametrize(
    ("kind", "low", "inside", "high", "above"),
    [
        (pa.int8(), -128, 0, 126, 127),
        (pa.float32(), -1.5, 0.0, 1.5, 2.0),
        (pa.decimal128(38, 10), Decimal("-1.5"), Decimal("0.0000000001"), Decimal("1.5"), Decimal("1.5000000001")),
        (pa.timestamp("us", "UTC"), -5, 0, 5, 6),
        (pa.timestamp("us"), -5, 0, 5, 6),
        (pa.date32(), -5, 0, 5, 6),
        (pa.binary(), b"\x01", b"\x80", b"\xfe", b"\xff"),
        (pa.large_string(), "a", "m", "x", "z"),
    ],
)
def test_every_type_is_pruned(kind, low, inside, high, above):
    """Equal, below and sets, in every type a segment's column has."""
    table = index((low, high), (high, high), kind=kind)
    assert answers(compare("=", inside, kind), table) == "+-"
    assert answers(compare("=", above, kind), table) == "--"
    assert answers(compare("<", high, kind), table) == "+-"
    assert answers(compare("<=", high, kind), table) == "!!"
    assert answers(one_of(inside, above, kind=kind), table) == "+-"
    assert answers(one_of(high, above, kind=kind), table) == "+!"
    assert answers(one_of(above, kind=kind), table) == "--"


def test_booleans_are_pruned():
    """False is below true."""
    table = index((False, False), (True, True), (False, True), kind=pa.bool_())
    assert answers(compare("=", True, pa.bool_()), table) == "-!+"
    assert answers(one_of(False, kind=pa.bool_()), table) == "!-+"


@pytest.mark.parametrize(
    "node",
    [compare("=", 0), compare("<", 0), one_of(0, 1), IsNull(column="c"), starts("a"), compare("=", NAN, pa.float64())],
)
def test_a_column_without_facts_may_match(node):
    """An index from before the column, or of a type that has no order."""
    assert answers(node, pa.table({"rows": [10, 10]})) == "++"


def test_facts_of_another_type_are_unknown():
    """Bounds are compared as numbers of the same kind, narrower ones too; as anything else they say nothing."""
    table = index((1, 5), kind=pa.int32())
    assert answers(compare("=", 9, pa.int64()), table) == "-"
    assert answers(one_of(8, 9), table) == "-"
    assert answers(compare("=", 9, pa.int16()), table) == "+"
    assert answers(compare("=", 9.0, pa.float64()), table) == "+"
    assert answers(compare("=", "9", pa.string()), table) == "+"


def test_nulls_that_nobody_counted_may_be_there():
    """Null facts are unknown facts."""
    table = index((5, 5, None), (None, None, None))
    assert answers(compare("=", 5), table) == "++"
    assert answers(IsNull(column="c"), table) == "++"
    assert answers(IsNull(column="c", negated=True), table) == "++"


def test_a_blocklet_without_rows_is_pruned():
    """There is no row that could match."""
    assert not may_match(compare("=", 5), index((None, None), rows=0)).any()


def test_a_long_conjunction_is_narrowed_and_stays_right():
    """Of a thousand blocklets a few are left after the first part; the other parts test only these."""
    table = index(*((10 * at, 10 * at + 9) for at in range(1000)))
    choice = Or(parts=(one_of(505, 507, 5000), And(parts=(compare(">", 511), compare("<", 512)))))
    node = And(parts=(choice, compare(">=", 500), compare("<", 540), compare("<>", 3), Not(part=compare("=", 505))))
    assert may_match(node, table).nonzero()[0].tolist() == [50, 51]
    assert may_match(And(parts=(compare("<", 0), choice)), table).sum() == 0


def test_a_filter_must_be_resolved():
    """A literal without its column's type would compare as who knows what."""
    for node in (col("c") == 5, col("c").isin(1, 2), col("c").startswith("a")):
        with pytest.raises(InvalidInputError, match="resolve the filter"):
            may_match(node, NUMBERS)
