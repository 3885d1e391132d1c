"""``packstone history``, ``history show RUN`` and ``history prune``."""

from __future__ import annotations

import click

from packstone.cli import options

_HISTORY = click.option("--history", "history_url", default=None, metavar="URL", help="History database.")
_FAMILY = click.Choice(["hive", "paimon", "segments"])


@click.group("history", invoke_without_command=True, short_help="List the runs; show one, forget old ones.")
@_HISTORY
@click.option("--table", "table_path", default=None, help="Only runs of this table.")
@click.option("--status", multiple=True, help="Only runs that ended so; may be repeated.")
@click.option("--family", type=_FAMILY, default=None, help="Only runs on tables of this family.")
@click.option("--since", default=None, metavar="WHEN", help="Only runs from then on: 2026-01-31, or 7d ago.")
@click.option("--until", default=None, metavar="WHEN", help="Only runs before then.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="At most so many.")
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="How to print the result.",
)
@click.option("--debug", is_flag=True, help="Show a stack trace if something goes wrong.")
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
    """List the runs, newest first, with their files, bytes and read times before and after."""
    if ctx.invoked_subcommand is not None:
        return 0
    from packstone.cli.run_history import run_list
    from packstone.history.store import RunFilters
    from packstone.service.prune_history import parse_when
    from packstone.storage.location import parse_location

    filters = RunFilters(
        table=parse_location(table_path).path if table_path else None,
        status=status,
        family=family,
        since=parse_when(since) if since else None,
        until=parse_when(until) if until else None,
    )
    return run_list(history_url, filters, limit=limit, output_format=output_format)


@command.command("show", short_help="Show one run with its merges, files and what it left alone.")
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
    """Show all that is recorded of RUN."""
    from packstone.cli.run_history import run_show

    return run_show(history_url or _of_parent(ctx), run, output_format=output_format)


@command.command("prune", short_help="Forget old runs.")
@click.option("--older-than", required=True, metavar="AGE", help="Forget runs that started longer ago, e.g. 90d.")
@click.option("--dry-run", is_flag=True, help="Only say how many.")
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
    """Forget runs that started longer ago than AGE, with their merges, files and skips. Tables are not touched."""
    from packstone.cli.run_history import run_prune

    url = history_url or _of_parent(ctx)
    return run_prune(url, older_than=older_than, dry_run=dry_run, yes=yes, output_format=output_format)


def _of_parent(ctx: click.Context) -> str | None:
    """The address that stands before the name of the subcommand."""
    given: str | None = ctx.parent.params.get("history_url") if ctx.parent is not None else None
    return given
