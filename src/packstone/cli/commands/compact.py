"""``packstone plan``, ``compact`` and ``merge``, and ``options``, which lists what they take."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand, is_planning, is_typed
from packstone.cli.output import make_console, plain_text, short_path, show, show_status, warn
from packstone.cli.targets import check_in_place, is_named, open_target, read_budget, read_filters, read_options
from packstone.errors import ConflictError, InvalidInputError, PackstoneError, RefusedError
from packstone.model.outcome import SkipKind, Status
from packstone.runs.interrupts import interrupting_signal
from packstone.storage.location import join_location
from packstone.storage.stores import find_file_to_write

if TYPE_CHECKING:
    from collections.abc import Callable

    from packstone.model.outcome import Outcome
    from packstone.pipeline.plan import Plan
    from packstone.tables.family import Option

_NAMED = 3  # unreadable files listed on stderr; the outcome has all of them
_BADNESS = (0, 3, 2, 1, 130, 143)  # exit codes, from best to worst


@click.command("plan", cls=FamilyCommand, short_help="Show what would be merged and why; write nothing.")
@click.argument("target")
@options.filter_options
@options.ids_option
@options.between_option
@options.target_size_option
@options.output_file_options
@options.safety_options
@options.engine_options
@options.metastore_option
@click.option(
    "--out",
    "plan_out",
    default=None,
    metavar="FILE",
    help="Save the plan, to review it and to run exactly this plan with `packstone compact TARGET --plan FILE`.",
)
@options.each_option
@options.output_options
def plan(target: str, **typed: Any) -> int:
    """Show what `compact` would do to TARGET, why, and what it would cost. Nothing is written."""
    return _plan_target(target, typed)


@click.command(
    "compact", cls=FamilyCommand, short_help="Merge files, sorted runs or segments, verify every row, publish."
)
@click.argument("target")
@options.filter_options
@options.ids_option
@options.budget_options
@options.between_option
@options.target_size_option
@options.output_file_options
@options.safety_options
@options.publish_options
@options.take_over_option
@options.engine_options
@options.metastore_option
@options.history_option
@click.option(
    "--plan",
    "plan_file",
    default=None,
    metavar="FILE",
    help="Run exactly this plan, saved by `packstone plan --out`; parts whose files have changed are skipped.",
)
@options.each_option
@options.output_options
def compact(target: str, **typed: Any) -> int:
    """Merge what makes TARGET slow to read, verify every row, and only then publish.

    Hive directories (a table or one partition): small files are merged into larger ones, which replace them partition
    by partition; the originals are kept for --keep-days. Paimon tables: sorted runs or small files are merged bucket by
    bucket and published as COMPACT snapshots. Segment tables: segments are merged by number, by size, or by --ids.
    """
    return _merge_target("compact", target, typed)


@click.command("merge", cls=FamilyCommand, short_help="Merge one partition, given as FS PARTITION BLOCKSIZE.")
@click.argument("filesystem", metavar="FS")
@click.argument("partition")
@click.argument("target_size", metavar="BLOCKSIZE")
@options.filter_options
@options.budget_options
@options.between_option
@options.output_file_options
@options.safety_options
@options.take_over_option
@options.engine_options
@options.history_option
@options.output_options
def merge(filesystem: str, partition: str, **typed: Any) -> int:
    """Merge the files of PARTITION on FS that are smaller than BLOCKSIZE into files of about BLOCKSIZE.

    Example: packstone merge file:/// /data/t/dt=20190101 120M
    """
    return _merge_target("merge", join_location(filesystem, partition).path, typed)


@click.command("options", cls=FamilyCommand, short_help="List the options for a table: keys, values, defaults.")
@click.argument("target")
@options.metastore_option
@options.output_options
def list_options(target: str, **typed: Any) -> int:
    """List the options that `compact` has for TARGET: the keys of --set, and the options with their own name.

    The value shown is the one in effect if a command does not set it: what a Paimon or segment table sets itself, or
    the default.
    """
    with open_target(target, typed, to_merge=False) as table:
        found, path, family = table.list_options(), table.path, table.family
    named = {option for parameter in compact.params for option in parameter.opts}
    rows = [(f"--{one.key}" if f"--{one.key}" in named else f"--set {one.key}", one) for one in found]
    plain = {"format_version": 1, "table": path, "family": family, "options": [_plain(*row) for row in rows]}
    show(plain, output_format=typed["output_format"], draw=lambda console: _draw(console, rows))
    return 0


def _plain(name: str, option: Option) -> dict[str, str | None]:
    return {
        "key": option.key,
        "option": name.partition(" ")[0],
        "default": option.default or None,
        "value": option.value or None,
        "help": option.text,
    }


def _draw(console: Any, rows: list[tuple[str, Option]]) -> None:
    """Draw two lines for each option: how to give it, with the value in effect, and what it does."""
    from rich.padding import Padding
    from rich.text import Text

    for name, option in rows:
        value = f"{'=' if name.startswith('--set') else ' '}{option.value}" if option.value else "  not set"
        line = Text(f"{name}{value}", style="bold")
        if option.default and option.value != option.default:
            line.append(f"  set by the table; default: {option.default}", style="not bold dim")
        console.print(line)
        console.print(Padding(Text(option.text), (0, 0, 0, 4)))


def _plan_target(target: str, typed: dict[str, Any]) -> int:
    """Plan, print the outcome, save the plan if ``--out`` is given; return the exit code."""
    out = typed.get("plan_out")
    if out is not None:
        find_file_to_write(out, option="--out")  # before hours of planning
    if typed.get("each"):
        return _run_each(target, typed, lambda one: _plan(one, typed).outcome, single=("plan_out",))
    plan = _plan(target, typed)
    if out is not None:
        plan.save(out)
    return _show_outcome(plan.outcome, output_format=typed["output_format"])


def _plan(target: str, typed: dict[str, Any]) -> Plan:
    with show_status("planning", target), open_target(target, typed) as table:
        settings = read_options(table, typed)
        return table.plan(settings, filters=read_filters(typed), is_kept=typed.get("plan_out") is not None)


def _merge_target(command: str, target: str, typed: dict[str, Any]) -> int:
    """Merge, record the run, print the outcome; return the exit code."""
    check_in_place(target, typed)
    if typed.get("each"):
        return _run_each(target, typed, lambda one: _merge(command, one, typed), single=("plan_file",))
    return _show_outcome(_merge(command, target, typed), output_format=typed["output_format"])


def _merge(command: str, target: str, typed: dict[str, Any]) -> Outcome:
    only_plain = command == "merge"  # FS PARTITION BLOCKSIZE describes a Hive directory
    with open_target(target, typed, history=_history(typed), shows_progress=True, only_plain=only_plain) as table:
        facts: dict[str, Any] = {"budget": read_budget(typed), "command": command}
        facts |= {"take_over": True} if typed.get("take_over") else {}
        if typed.get("plan_file"):
            outcome = table.compact(_saved_plan(typed), filters=read_filters(typed), **facts)
        else:
            settings = read_options(table, typed)
            outcome = table.compact(settings, filters=read_filters(typed), **facts)
    if typed.get("after_publish") and outcome.units:
        outcome = _run_hook(typed["after_publish"], outcome)
    return outcome


def _run_each(
    target: str, typed: dict[str, Any], run: Callable[[str], Outcome], *, single: tuple[str, ...] = ()
) -> int:
    """Run a command on every table in a folder and print each outcome; return the worst exit code."""
    from packstone.storage.location import parse_location
    from packstone.storage.stores import open_store
    from packstone.tables.lake import find_tables

    for parameter in click.get_current_context().command.params:
        if parameter.name in single and typed.get(parameter.name):
            raise InvalidInputError(f"{parameter.opts[0]} is for one table; leave it out, or leave out --each.")
    if is_named(target, typed):
        raise InvalidInputError(f"--each needs a folder; {target} is the name of a table.")
    path = parse_location(target).path.rstrip("/") or "/"
    found = find_tables(open_store(path), path)
    answers: list[dict[str, Any]] = []
    codes: list[int] = []
    tables = [one.path for one in found if not one.why_not]
    for number, table in enumerate(tables, start=1):
        try:
            outcome = run(table)
        except PackstoneError as error:
            if interrupting_signal() is not None:
                raise
            named = error.message if table in error.message else f"{short_path(table)}: {error.message}"
            click.echo(f"packstone: {plain_text(named)}", err=True)
            is_conflict, is_refused = isinstance(error, ConflictError), isinstance(error, RefusedError)
            status = Status.CONFLICT if is_conflict else Status.REFUSED if is_refused else Status.FAILED
            answers.append({"format_version": 1, "table": table, "status": status, "message": error.message})
            codes.append(error.exit_code)
            continue
        if outcome.interrupted and len(tables) > 1:
            where = f"Interrupted in {short_path(table)}, table {number} of {len(tables)}"
            outcome = replace(outcome, message=outcome.message.replace("Interrupted", where, 1))
        answers.append(outcome.to_json())
        codes.append(_show_outcome(outcome, output_format=typed["output_format"], is_one_of_many=True))
        if interrupting_signal() is not None:
            break
    left = [{"table": one.path, "why": one.why_not} for one in found if one.why_not]
    plain = {"format_version": 1, "tables": answers, "left_alone": left}
    show(plain, output_format=typed["output_format"], draw=lambda console: _draw_left(console, left))
    return max(codes, key=_BADNESS.index, default=0)


def _draw_left(console: Any, left: list[dict[str, str]]) -> None:
    from packstone.cli.draw import draw_lines

    draw_lines(console, [f"left alone  {short_path(one['table'])} is {one['why']}" for one in left])


def _saved_plan(typed: dict[str, Any]) -> Any:
    """Read the plan; refuse planning options, because the plan contains them."""
    from packstone.pipeline.plan import Plan

    for parameter in click.get_current_context().command.params:
        if is_typed(parameter.name) and is_planning(parameter.name):
            raise InvalidInputError(f"{parameter.opts[0]} is part of the plan; give it to `packstone plan --out`.")
    return Plan.load(typed["plan_file"])


def _history(typed: dict[str, Any]) -> str:
    from packstone.history.sqlite_file import check_url
    from packstone.pipeline.record import history_address

    history_url = history_address(typed["history_url"])
    check_url(history_url)
    return history_url


def _run_hook(command: str, outcome: Outcome) -> Outcome:
    """Run the user's command after a publish; if it fails, the publish stays and the outcome gets a warning."""
    import os
    import subprocess

    partitions = sorted({unit.partition for unit in outcome.units})
    variables = {
        "PACKSTONE_TABLE": outcome.name,
        "PACKSTONE_RUN": outcome.run or "",
        "PACKSTONE_PARTITIONS": "\n".join(partitions),
    }
    # The output of the command goes to stderr; stdout is for the result.
    done = subprocess.run(  # noqa: S602 - a shell command is what the option takes
        command, shell=True, env={**os.environ, **variables}, stdin=subprocess.DEVNULL, stdout=2, check=False
    )
    if done.returncode == 0:
        return outcome
    warning = (
        f"The run is done, but --after-publish ended with exit code {done.returncode}; refresh {outcome.name} by hand."
    )
    return replace(outcome, warnings=(*outcome.warnings, warning))


def _show_outcome(outcome: Outcome, *, output_format: str, is_one_of_many: bool = False) -> int:
    """Print an outcome, and its warnings on stderr; return the exit code.

    With ``is_one_of_many`` no JSON is printed: the caller prints all outcomes as one document.
    """

    def draw(console: Any) -> None:
        from packstone.cli.draw import draw_outcome

        draw_outcome(console, outcome)

    for warning in outcome.warnings:
        warn(warning)
    if not is_one_of_many:
        show(outcome.to_json(), output_format=output_format, draw=draw)
    elif output_format != "json":
        draw(make_console())
    if outcome.interrupted:
        click.echo(f"packstone: {plain_text(outcome.message)}", err=True)
        return outcome.exit_code
    broken = [skip.what for skip in outcome.skipped if skip.kind is SkipKind.UNREADABLE]
    if broken and outcome.exit_code and output_format != "json":
        click.echo(f"packstone: {plain_text(_left_alone(broken))}", err=True)
    return outcome.exit_code


def _left_alone(broken: list[str]) -> str:
    """Name the files that explain the exit code, for users who see only stderr."""
    more = f" and {len(broken) - _NAMED} more" if len(broken) > _NAMED else ""
    count = "1 file cannot be read and was" if len(broken) == 1 else f"{len(broken)} files cannot be read and were"
    return f"{count} left alone: {', '.join(broken[:_NAMED])}{more}."
