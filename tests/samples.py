"""What `make test` leaves to CI, so that one waits for it: most steps of crash matrices, most parameters of long tests.

``make test`` sets ``PACKSTONE_TEST_EXAMPLES_PCT`` below 100: Hypothesis runs that share of its examples (conftest.py),
and a crash matrix runs the first, the last and every third of its steps. CI runs all of them. Of a test that is marked
``sample(n)``, ``make test`` runs every n-th parameter and ``make test-servers`` the others (needs.py).
"""

import os
from collections.abc import Iterable
from typing import TypeVar

StepT = TypeVar("StepT")

EXAMPLES_PCT = int(os.environ.get("PACKSTONE_TEST_EXAMPLES_PCT") or 100)
_STRIDE = 3


def some(steps: Iterable[StepT]) -> list[StepT]:
    """The steps of a crash matrix to try: all of them, or a third where only a share of the examples is requested."""
    found = list(steps)
    if EXAMPLES_PCT == 100:
        return found
    return [step for at, step in enumerate(found) if at % _STRIDE == 0 or at == len(found) - 1]
