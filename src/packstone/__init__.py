"""Packstone keeps data-lake tables compact: observe, plan, run, verify, commit, record, clean.

import packstone
table = packstone.open("warehouse/orders")
table.health(); plan = table.plan(); outcome = table.compact(plan)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.model.run_record import VERSION

__version__ = VERSION

__all__ = [
    "Budget",
    "CommitUnknownError",
    "ConflictError",
    "CorruptionError",
    "Filters",
    "Health",
    "HiveOptions",
    "InvalidInputError",
    "LoadOptions",
    "Outcome",
    "PackstoneError",
    "PaimonOptions",
    "Plan",
    "RefusedError",
    "Scan",
    "SegmentOptions",
    "SkipKind",
    "Skipped",
    "Status",
    "Table",
    "UnavailableError",
    "UnfaithfulError",
    "UnitOutcome",
    "UnreadableFileError",
    "UnsupportedSchemeError",
    "VerificationError",
    "__version__",
    "col",
    "create",
    "open",
]

if TYPE_CHECKING:
    from packstone.errors import (
        CommitUnknownError,
        ConflictError,
        CorruptionError,
        InvalidInputError,
        PackstoneError,
        RefusedError,
        UnavailableError,
        UnfaithfulError,
        UnreadableFileError,
        UnsupportedSchemeError,
        VerificationError,
    )
    from packstone.model.health import Health
    from packstone.model.limits import Budget, Filters
    from packstone.model.outcome import Outcome, SkipKind, Skipped, Status, UnitOutcome
    from packstone.pipeline.open import create_table as create
    from packstone.pipeline.open import open_table as open  # noqa: A004 - packstone.open reads well
    from packstone.pipeline.plan import Plan
    from packstone.pipeline.scan import Scan
    from packstone.pipeline.table import Table
    from packstone.query.filter.expression import col
    from packstone.tables.hive.options import HiveOptions
    from packstone.tables.paimon.options import PaimonOptions
    from packstone.tables.segments.load_options import LoadOptions
    from packstone.tables.segments.options import SegmentOptions

# Public name -> (module, attribute). Names are imported when first used, so that `packstone --help` does not import
# pyarrow.
_HOME = {
    "Budget": ("packstone.model.limits", "Budget"),
    "CommitUnknownError": ("packstone.errors", "CommitUnknownError"),
    "ConflictError": ("packstone.errors", "ConflictError"),
    "CorruptionError": ("packstone.errors", "CorruptionError"),
    "Filters": ("packstone.model.limits", "Filters"),
    "Health": ("packstone.model.health", "Health"),
    "HiveOptions": ("packstone.tables.hive.options", "HiveOptions"),
    "InvalidInputError": ("packstone.errors", "InvalidInputError"),
    "LoadOptions": ("packstone.tables.segments.load_options", "LoadOptions"),
    "Outcome": ("packstone.model.outcome", "Outcome"),
    "PackstoneError": ("packstone.errors", "PackstoneError"),
    "PaimonOptions": ("packstone.tables.paimon.options", "PaimonOptions"),
    "Plan": ("packstone.pipeline.plan", "Plan"),
    "RefusedError": ("packstone.errors", "RefusedError"),
    "Scan": ("packstone.pipeline.scan", "Scan"),
    "SegmentOptions": ("packstone.tables.segments.options", "SegmentOptions"),
    "SkipKind": ("packstone.model.outcome", "SkipKind"),
    "Skipped": ("packstone.model.outcome", "Skipped"),
    "Status": ("packstone.model.outcome", "Status"),
    "Table": ("packstone.pipeline.table", "Table"),
    "UnavailableError": ("packstone.errors", "UnavailableError"),
    "UnfaithfulError": ("packstone.errors", "UnfaithfulError"),
    "UnitOutcome": ("packstone.model.outcome", "UnitOutcome"),
    "UnreadableFileError": ("packstone.errors", "UnreadableFileError"),
    "UnsupportedSchemeError": ("packstone.errors", "UnsupportedSchemeError"),
    "VerificationError": ("packstone.errors", "VerificationError"),
    "create": ("packstone.pipeline.open", "create_table"),
    "col": ("packstone.query.filter.expression", "col"),
    "open": ("packstone.pipeline.open", "open_table"),
}


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module 'packstone' has no attribute {name!r}")
    from importlib import import_module

    module, attribute = _HOME[name]
    return getattr(import_module(module), attribute)
