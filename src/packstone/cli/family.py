"""Which family a target belongs to, and which options make sense for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from packstone.errors import InvalidInputError, RefusedError

if TYPE_CHECKING:
    from packstone.tables.probe import Family

# Commands that only Hive directories have -> what a Paimon table has instead.
_NOT_FOR_PAIMON = {
    "merge": "is a Paimon table; use `packstone compact {path}`.",
    "restore": "is a Paimon table: a compaction changes none of its rows, and the snapshots of before stay readable "
    "until they expire; there is nothing to undo.",
    "verify": "is a Paimon table: its compactions are proved before they are published, and no backup is kept to prove "
    "them by again; read it at the snapshot of before and at that of the run to compare.",
}
HIVE_ONLY = frozenset(
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
PAIMON_ONLY = frozenset(
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
    wrong, why = (
        (HIVE_ONLY, f"is for Hive directories, and {path} is a Paimon table")
        if family is Family.PAIMON
        else (PAIMON_ONLY, f"is for Paimon tables, and {path} is none")
    )
    context = click.get_current_context()
    if family is Family.PAIMON and context.command.name == "merge":
        refuse_for_paimon("merge", path)
    for parameter in context.command.params:
        is_typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if parameter.name in wrong and is_typed:
            raise InvalidInputError(f"{parameter.opts[0]} {why}.", option=parameter.name)
    return family


def is_paimon(path: str) -> bool:
    """Whether a path is, or lies in, a Paimon table."""
    from packstone.storage.local import LocalFileIO
    from packstone.tables.probe import Family, find_family

    return find_family(LocalFileIO(), path) is Family.PAIMON


def refuse_for_paimon(command: str, path: str) -> None:
    """Say what a Paimon table has instead of a command that works on Hive directories only."""
    error = InvalidInputError if command == "merge" else RefusedError
    raise error(f"{path} {_NOT_FOR_PAIMON[command].format(path=path)}", path=path)
