"""How long a commit waits before it tries again."""

import pytest

from packstone.tables.paimon.commit import RetryWait


def test_waits_double_up_to_the_cap():
    """10 ms, 20 ms, … 10 s, and never more."""
    waits = [RetryWait().seconds(retry, random=0.0) for retry in (0, 1, 2, 9, 10, 1000)]
    assert waits == [0.01, 0.02, 0.04, 5.12, 10.0, 10.0]


def test_jitter_adds_at_most_a_fifth():
    """Rivals that lost the same race do not meet again at the same moment."""
    assert RetryWait().seconds(3, random=0.999) < 0.08 * 1.2
    assert RetryWait().seconds(3, random=0.5) == pytest.approx(0.088)
