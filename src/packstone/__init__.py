"""Packstone keeps data-lake tables compact: observe, plan, run, verify, commit, record, clean.

import packstone
table = packstone.open("warehouse/orders")
table.health(); plan = table.plan(); outcome = table.compact(plan)
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"
__all__ = [
    "Budget",
    "Filters",
    "HiveTable",
    "LoadOptions",
    "MergeOptions",
    "PaimonOptions",
    "PaimonTable",
    "SegmentOptions",
    "SegmentTable",
    "__version__",
    "col",
    "open",
]

if TYPE_CHECKING:
    from packstone.model.filters import Budget, Filters
    from packstone.model.merge_options import MergeOptions
    from packstone.model.paimon_options import PaimonOptions
    from packstone.model.segment_options import SegmentOptions
    from packstone.pruning.expression import col
    from packstone.service.hive_table import HiveTable
    from packstone.service.load_options import LoadOptions
    from packstone.service.open_table import open_table as open  # noqa: A004 - packstone.open reads well
    from packstone.service.paimon_table import PaimonTable
    from packstone.service.segment_table import SegmentTable

# Names are loaded when they are first used, so that `packstone --help` does not wait for pyarrow.
_HOME = {
    "Budget": ("packstone.model.filters", "Budget"),
    "Filters": ("packstone.model.filters", "Filters"),
    "HiveTable": ("packstone.service.hive_table", "HiveTable"),
    "LoadOptions": ("packstone.service.load_options", "LoadOptions"),
    "MergeOptions": ("packstone.model.merge_options", "MergeOptions"),
    "PaimonOptions": ("packstone.model.paimon_options", "PaimonOptions"),
    "PaimonTable": ("packstone.service.paimon_table", "PaimonTable"),
    "SegmentOptions": ("packstone.model.segment_options", "SegmentOptions"),
    "SegmentTable": ("packstone.service.segment_table", "SegmentTable"),
    "col": ("packstone.pruning.expression", "col"),
    "open": ("packstone.service.open_table", "open_table"),
}


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name not in _HOME:
        raise AttributeError(f"module 'packstone' has no attribute {name!r}")
    from importlib import import_module  # noqa: PLC0415 - only needed here

    module, attribute = _HOME[name]
    return getattr(import_module(module), attribute)
