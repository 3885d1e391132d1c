"""How the failure of a unit is told: one that fails is reported, and does not stop the others."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa

from packstone.errors import CorruptionError, PackstoneError, RefusedError, VerificationError, storage_sentence
from packstone.model.unit import UnitStatus

# What a unit may fail of: damaged bytes make decoders raise anything, and one unit must not stop the others.
FAILURES = (Exception,)


@dataclass(frozen=True, slots=True, kw_only=True)
class UnitFailure:
    """What became of a unit instead of files, why, and the file that is to blame, if it is one."""

    status: UnitStatus
    message: str
    blamed: str = ""


def describe_failure(error: Exception) -> UnitFailure:
    """Say what an error means for the unit it happened in."""
    match error:
        case VerificationError():
            return UnitFailure(status=UnitStatus.MISMATCH, message=error.message)
        case CorruptionError():
            blamed = str(error.facts.get("file", ""))
            return UnitFailure(status=UnitStatus.UNREADABLE, message=error.message, blamed=blamed)
        case RefusedError():
            return UnitFailure(status=UnitStatus.UNFAITHFUL, message=error.message)
        case PackstoneError():
            return UnitFailure(status=UnitStatus.FAILED, message=error.message)
        case OSError():
            return UnitFailure(status=UnitStatus.FAILED, message=storage_sentence(error))
        case pa.ArrowException():
            return UnitFailure(status=UnitStatus.FAILED, message=f"Arrow failed: {error}")
    return UnitFailure(status=UnitStatus.FAILED, message=f"The unit failed: {type(error).__name__} {error}")
