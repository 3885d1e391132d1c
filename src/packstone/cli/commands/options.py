"""``packstone options TARGET``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from packstone.cli import options
from packstone.cli.family import FamilyCommand

if TYPE_CHECKING:
    from packstone.tables.family import Option


@click.command("options", cls=FamilyCommand, short_help="List the options for a table: keys, values, defaults.")
@click.argument("target")
@options.metastore_option
@options.output_options
def command(target: str, **typed: Any) -> int:
    """List the options that `compact` has for TARGET: the keys of --set, and the options with their own name.

    The value shown is the one in effect if a command does not set it: what a Paimon or segment table sets itself, or
    the default.
    """
    from packstone.cli.commands.compact import command as compact
    from packstone.cli.output import show
    from packstone.cli.targets import open_target

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
        value = option.value or ("" if name.startswith("--set") else "—")
        line = Text(f"{name}={value}" if name.startswith("--set") else f"{name} {value}", style="bold")
        if option.default and option.value != option.default:
            line.append(f"  set by the table; default: {option.default}", style="not bold dim")
        console.print(line)
        console.print(Padding(Text(option.text), (0, 0, 0, 4)))
