"""How long tests wait for a process, a server or a condition before they call it a failure.

The limits are for hangs, not for speed: nothing is asserted about time. On a busy machine everything takes longer, so
``PACKSTONE_TEST_PATIENCE=4`` multiplies every limit by four; ``.ci/run`` sets it.
"""

import math
import os

PATIENCE = float(os.environ.get("PACKSTONE_TEST_PATIENCE") or 1)


def patient(seconds: float) -> int:
    """A limit that is this many seconds on an idle machine."""
    return math.ceil(seconds * PATIENCE)
