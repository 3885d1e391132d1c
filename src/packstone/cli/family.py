"""Which family a target belongs to, and which options make sense for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from packstone.tables.probe import Family

_HIVE_ONLY = frozenset(
    {
        "block_size",
        "threshold",
        "min_files",
        "codec",
        "header",
        "backup_dir",
        "keep_days",
        "take_over",
        "measure_read",
        "older_than",
        "min_age",
        "exclude",
    }
)
_PAIMON_ONLY = frozenset(
    {
        "partitions",
        "buckets",
        "partition_idle_time",
        "table_options",
        "leftovers",
        "commit_every",
        "rules",
        "expire_snapshots",
        "retain_min",
        "retain_max",
        "max_expired",
    }
)


def family_of(path: str) -> Family:
    """Look at the target, and refuse options that were typed for another family."""
    from packstone.storage.local import LocalFileIO
    from packstone.tables.probe import Family, find_family

    io = LocalFileIO()
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family = find_family(io, path)
    wrong, whose = (_HIVE_ONLY, "Hive directories") if family is Family.PAIMON else (_PAIMON_ONLY, "Paimon tables")
    context = click.get_current_context()
    for parameter in context.command.params:
        is_typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in wrong and is_typed:
            raise InvalidInputError(
                f"{parameter.opts[0]} is for {whose}; {path} is none of them.", option=parameter.name
            )
    return family
