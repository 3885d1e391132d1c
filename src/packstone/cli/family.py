"""Which family a target belongs to, and which options make sense for it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from packstone.errors import InvalidInputError, RefusedError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from packstone.tables.probe import Family

HIVE, PAIMON, SEGMENTS = "hive", "paimon", "segments"  # values of Family, whose module is not needed for the help
PLURAL: Mapping[str, str] = {HIVE: "Hive directories", PAIMON: "Paimon tables", SEGMENTS: "segment tables"}
_NAME: Mapping[str, str] = {HIVE: "none", PAIMON: "a Paimon table", SEGMENTS: "a segment table"}

# Commands that only Hive directories have -> what the other families have instead.
_INSTEAD: Mapping[tuple[str, str], str] = {
    (PAIMON, "merge"): "is a Paimon table; use `packstone compact {path}`.",
    (PAIMON, "restore"): "is a Paimon table: a compaction changes none of its rows, and the snapshots of before stay "
    "readable until they expire; there is nothing to undo.",
    (PAIMON, "verify"): "is a Paimon table: its compactions are proved before they are published, and no backup is "
    "kept to prove them by again; read it at the snapshot of before and at that of the run to compare.",
    (SEGMENTS, "merge"): "is a segment table; use `packstone compact {path}`.",
    (SEGMENTS, "restore"): "is a segment table: a compaction changes none of its rows, and the versions of before stay "
    "readable until `packstone clean` removes them; there is nothing to undo.",
    (SEGMENTS, "verify"): "is a segment table: its compactions are proved before they are published, and no backup is "
    "kept to prove them by again; read it at the version of before and at that of the run to compare.",
}
HIVE_ONLY = frozenset(
    {
        "block_size",
        "threshold",
        "min_files",
        "codec",
        "header",
        "metastore_url",
        "publish",
        "statistics",
        "after_publish",
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
        "single_writer",
        "rules",
        "expire_snapshots",
        "retain_min",
        "retain_max",
        "max_expired",
    }
)
SEGMENTS_ONLY = frozenset({"ids", "major_size_mb", "properties"})
# A segment table has no partitions, and holds only text that was checked when it was loaded.
_NOT_SEGMENTS = frozenset({"where", "accept_invalid_text"})


def families_of_option(name: str | None) -> tuple[str, ...]:
    """Name the families that an option is for."""
    for options, families in (
        (HIVE_ONLY, (HIVE,)),
        (PAIMON_ONLY, (PAIMON,)),
        (SEGMENTS_ONLY, (SEGMENTS,)),
        (_NOT_SEGMENTS, (HIVE, PAIMON)),
    ):
        if name in options:
            return families
    return (HIVE, PAIMON, SEGMENTS)


def family_of(path: str) -> Family:
    """Look at the target, and refuse commands and options that were typed for another family."""
    from packstone.storage.stores import open_store
    from packstone.tables.probe import find_table

    io = open_store(path)
    if io.stat(path) is None:
        raise InvalidInputError(f"{path} does not exist.", path=path)
    family, root = find_table(io, path)
    context = click.get_current_context()
    _check_command(context.command.name or "", family, root)
    check_options(context, family, path)
    return family


def check_options(context: click.Context, family: str, path: str) -> None:
    """Refuse options that were typed for another family."""
    for parameter in context.command.params:
        meant = families_of_option(parameter.name)
        is_typed = context.get_parameter_source(parameter.name or "") is ParameterSource.COMMANDLINE
        if is_typed and family not in meant:
            named = " and ".join(PLURAL[one] for one in meant)
            raise InvalidInputError(
                f"{parameter.opts[0]} is for {named}, and {path} is {_NAME[family]}.", option=parameter.name
            )


def check_has_backups(command: str, path: str) -> None:
    """Say what a table has instead of a command about backups, which only Hive directories have."""
    from packstone.storage.stores import open_store
    from packstone.tables.probe import find_table

    _check_command(command, *find_table(open_store(path), path))


def _check_command(command: str, family: str, root: str) -> None:
    instead = _INSTEAD.get((family, command))
    if instead is not None:
        error = InvalidInputError if command == "merge" else RefusedError
        raise error(f"{root} {instead.format(path=root)}", path=root)
