"""What a test needs beyond Python packages, found from the fixtures that it requests.

Every need is a marker. A test with at least one also has the marker ``servers``: ``make test`` leaves those tests out
and ``make test-servers`` runs them, so that ``make test`` neither installs nor starts a server. Where no fixture shows
the need, the test has the marker by hand. Whatever starts a server calls :func:`check_marked`, so that a missing marker
fails the test instead of slowing ``make test`` down.
"""

from collections import Counter
from collections.abc import Iterable

import pytest

# The fixtures that start something, by need. A parameter with the name of such a fixture counts as a request for it.
FIXTURES = {
    "cluster": {"cluster", "driver"},
    "database": {"mariadb", "postgres", "database_server"},
    "hdfs": {"hdfs", "use_hdfs", "pair", "secure", "yarn"},
    "kerberos": {"secure"},
    "s3": {"seaweed", "moto", "careless"},
    "spark_process": {"program"},
    "yarn": {"site", "yarn"},
}
# Found by hand only: they have no fixture.
BY_HAND = {"connect", "deploy"}
NEEDS = frozenset({*FIXTURES, *BY_HAND})

_of_running_test: frozenset[str] = NEEDS  # outside of a test, as in a script that starts a server, everything may start


def mark(item: pytest.Item) -> None:
    """Add the markers of what a test needs, ``servers`` if it needs anything, and ``slow`` to half of a kill matrix."""
    for need in find_needs(item):
        item.add_marker(need)
    if marked(item):
        item.add_marker("servers")
    if _is_second_half(item):
        item.add_marker("slow")


def mark_rest_of_samples(items: Iterable[pytest.Item]) -> None:
    """Mark as ``slow`` all but every n-th parameter of the tests with the marker ``sample(n)``."""
    seen: Counter[str] = Counter()
    for item in items:
        sample = item.get_closest_marker("sample")
        if sample is None:
            continue
        test = item.nodeid.partition("[")[0]
        if seen[test] % sample.args[0]:
            item.add_marker("slow")
        seen[test] += 1


def _is_second_half(item: pytest.Item) -> bool:
    """Whether a test is the second half of a crash matrix: kills and failures after every step, not before it."""
    is_matrix = "killed" in item.name or "every_step" in item.name
    return is_matrix and hasattr(item, "callspec") and item.callspec.params.get("moment") == "after"


def find_needs(item: pytest.Item) -> set[str]:
    """The needs that the test's fixtures and parameters show."""
    requested = set(getattr(item, "fixturenames", ()))
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = requested | {value for value in parameters if isinstance(value, str)}
    needs = {need for need, fixtures in FIXTURES.items() if fixtures & named}
    if "spark_env" in requested and "spark" not in requested:  # the environment, but not the session of this process
        needs.add("spark_process")
    return needs


def marked(item: pytest.Item) -> frozenset[str]:
    """The needs that a test is marked with."""
    return NEEDS & {marker.name for marker in item.iter_markers()}


def begin(item: pytest.Item) -> None:
    """From now on only what this test is marked with may start."""
    global _of_running_test  # noqa: PLW0603 - one test runs at a time
    _of_running_test = marked(item)


def check_marked(need: str) -> None:
    """Fail unless the running test is marked with a need."""
    if need not in _of_running_test:
        pytest.fail(f"A server starts for a test that is not marked `{need}` (tests/needs.py).", pytrace=False)
