"""``packstone history``, ``history show RUN`` and ``history prune``."""

from __future__ import annotations

import click

from packstone.cli import options
from packstone.cli.family import check_family

_HISTORY = click.option("--history", "history_url", default=None, metavar="URL", help="Use this history database.")


@click.group("history", invoke_without_command=True, short_help="List recorded runs; show one, or delete old records.")
@_HISTORY
@click.option("--table", "table_path", default=None, metavar="PATH", help="List only runs of this table.")
@click.option(
    "--status", multiple=True, metavar="STATUS", help="List only runs with this status, e.g. failed; may be repeated."
)
@click.option(
    "--family", callback=check_family, default=None, metavar="NAME", help="List only runs on tables of this family."
)
@click.option("--since", default=None, metavar="WHEN", help="List only runs since a time (2026-01-31) or an age (7d).")
@click.option("--until", default=None, metavar="WHEN", help="List only runs before a time or an age.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="List at most this many runs.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Print the result as a table, JSON or CSV.",
)
@click.option("--debug", is_flag=True, help="Print a stack trace on errors.")
@click.pass_context
def command(
    ctx: click.Context,
    history_url: str | None,
    table_path: str | None,
    status: tuple[str, ...],
    family: str | None,
    since: str | None,
    until: str | None,
    limit: int,
    output_format: str,
    debug: bool,  # noqa: ARG001 - read by main
) -> int:
    """List the recorded runs, newest first, with their files, bytes and read times before and after."""
    from packstone.cli.run_history import run_list

    if ctx.invoked_subcommand is not None:
        return 0
    from packstone.history.store import RunFilters, parse_when
    from packstone.storage.location import parse_location

    filters = RunFilters(
        table=parse_location(table_path).path if table_path else None,
        status=status,
        family=family,
        since=parse_when(since) if since else None,
        until=parse_when(until) if until else None,
    )
    return run_list(history_url, filters, limit=limit, output_format=output_format)


@command.command("show", short_help="Show one run with its merges, files and skipped parts.")
@click.argument("run")
@_HISTORY
@options.output_options
@click.pass_context
def show_run(
    ctx: click.Context,
    run: str,
    history_url: str | None,
    output_format: str,
    debug: bool,  # noqa: ARG001 - read by main
) -> int:
    """Show everything that is recorded of RUN."""
    from packstone.cli.run_history import run_show

    return run_show(history_url or _of_parent(ctx), run, output_format=output_format)


@command.command("prune", short_help="Delete the records of old runs.")
@click.option("--older-than", required=True, metavar="AGE", help="Delete runs that started longer ago, e.g. 90d.")
@click.option("--dry-run", is_flag=True, help="Print how many runs would be deleted; delete nothing.")
@_HISTORY
@options.yes_option
@options.output_options
@click.pass_context
def prune(
    ctx: click.Context,
    older_than: str,
    dry_run: bool,
    history_url: str | None,
    yes: bool,
    output_format: str,
    debug: bool,  # noqa: ARG001 - read by main
) -> int:
    """Delete the records of runs that started longer ago than AGE. Tables are not touched."""
    from packstone.cli.run_history import run_prune

    url = history_url or _of_parent(ctx)
    return run_prune(url, older_than=older_than, dry_run=dry_run, yes=yes, output_format=output_format)


def _of_parent(ctx: click.Context) -> str | None:
    """Return the value of ``--history`` given before the name of the subcommand."""
    given: str | None = ctx.parent.params.get("history_url") if ctx.parent is not None else None
    return given
