"""``--after-publish``: a command of the user's, after something was published: to refresh what others cache."""

from __future__ import annotations

import os
import subprocess
from dataclasses import replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from packstone.model.outcome import Outcome


def run_hook(command: str, outcome: Outcome) -> Outcome:
    """Run it in a shell; if it fails, what was published stays and the outcome says so."""
    partitions = sorted({unit.partition for unit in outcome.units})
    told = {
        "PACKSTONE_TABLE": outcome.name,
        "PACKSTONE_RUN": outcome.run or "",
        "PACKSTONE_PARTITIONS": "\n".join(partitions),
    }
    # Its output goes to stderr: stdout is the result's.
    done = subprocess.run(  # noqa: S602 - a shell command is what the option takes
        command, shell=True, env={**os.environ, **told}, stdin=subprocess.DEVNULL, stdout=2, check=False
    )
    if done.returncode == 0:
        return outcome
    warning = (
        f"The run is done, but --after-publish ended with exit code {done.returncode}; refresh {outcome.name} by hand."
    )
    return replace(outcome, warnings=(*outcome.warnings, warning))
