"""Decide which options of a command belong to which family, and group options in the help.

The rows of ``tables/families.py`` and the options class of each family say which options the family has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from packstone.errors import InvalidInputError
from packstone.tables import families

if TYPE_CHECKING:
    from packstone.tables.family import Family

# The groups of options in the help; options that are not listed here belong to one command and come first.
GROUPS: Final = {
    "What to touch": ("each", "strategy", "where", "exclude", "min_age", "ids"),
    "How much": ("max_bytes", "max_time", "between", "parallel"),
    "What comes out": ("target_size", "codec", "header", "settings"),
    "Safety": ("verify", "keep_days", "publish", "take_over"),
    "Where it runs": ("engine", "spark_conf", "metastore_url", "history_url", "after_publish"),
    "In and out": ("plan_file", "plan_out", "output_format", "output", "quiet", "debug", "help"),
}
OTHER: Final = "Options"
# Options of every family; checked first, so that a command need not load the options classes of all families.
_FOR_ALL: Final = frozenset(
    {*GROUPS["How much"], *GROUPS["Where it runs"], *GROUPS["In and out"], "strategy", "settings"}
)


def families_of_option(name: str | None) -> tuple[Family, ...]:
    """Return the families that have an option, or all families if none declares it."""
    return tuple(family for family in _in_help() if name in _own_options(family)) or families.FAMILIES


def is_planning(name: str | None) -> bool:
    """Whether an option affects planning: a strategy, a filter, or an option of a family."""
    known = (family.filters | _keys(family) for family in families.FAMILIES)
    return name in ("strategy", "settings") or any(name in one for one in known)


def _own_options(family: Family) -> frozenset[str]:
    """Return the options of the current command that the family declares."""
    context = click.get_current_context(silent=True)
    if context is not None and context.command.name == "clean":
        return family.clean_arguments
    return family.arguments | family.filters | _keys(family)


def _keys(family: Family) -> frozenset[str]:
    return frozenset(one.key.replace("-", "_") for one in family.load_options().declared())


def _in_help() -> tuple[Family, ...]:
    """Return the families in the order of the help: Hive directories first."""
    return (families.FAMILIES[-1], *families.FAMILIES[:-1])


def check_options(family: Family, path: str) -> None:
    """Refuse options on the command line that belong to another family."""
    of_some = frozenset().union(*(one.arguments for one in families.FAMILIES))
    for parameter in click.get_current_context().command.params:
        is_for_all = not isinstance(parameter, click.Option) or parameter.name in _FOR_ALL - of_some
        if is_for_all or not is_typed(parameter.name) or parameter.name in _own_options(family):
            continue
        meant = families_of_option(parameter.name)
        if family not in meant:
            named = " and ".join(one.title for one in meant)
            raise InvalidInputError(
                f"{parameter.opts[0]} is for {named}, and {path} is {family.singular}.", option=parameter.name
            )


def read_settings(family: Family, path: str, typed: dict[str, Any]) -> dict[str, str]:
    """Return the given options of a family by key, from the command line's own options and from ``--set``."""
    given: dict[str, str] = {}
    for one in family.load_options().declared():
        value = typed.get(one.key.replace("-", "_"))
        if value is not None:
            given[one.key] = str(value)
    for pair in typed.get("settings") or ():
        key, equals, value = (part.strip() for part in pair.partition("="))
        if not equals or not key:
            raise InvalidInputError(f"--set {pair} is not KEY=VALUE.")
        if key.lower() in {name.lower() for name in given}:
            raise InvalidInputError(f"{key} is given twice; give it once.", option=key)
        if key == "strategy":
            raise InvalidInputError("Give the strategy with --strategy.", option=key)
        if _is_for(family, path, key, is_one_of_many=bool(typed.get("each"))):
            given[key] = value
    return given


def _is_for(family: Family, path: str, key: str, *, is_one_of_many: bool) -> bool:
    """Whether a key belongs to a family; refuse a key of another family, unless ``--each`` takes several families.

    A key that no family has counts as one of this family, whose error message suggests a similar key.
    """

    def knows(one: Family) -> bool:
        kind = one.load_options()
        return any(key.lower() == known.key.lower() for known in kind.all_options()) or bool(kind.why_refused(key))

    if knows(family):
        return True
    others = [one.title for one in _in_help() if one is not family and knows(one)]
    if others and not is_one_of_many:
        named = " and ".join(others)
        raise InvalidInputError(f"{key} is for {named}, and {path} is {family.singular}.", option=key)
    return not others


def check_family(ctx: click.Context, parameter: click.Parameter, name: str | None) -> str | None:
    """Refuse a name that is not the name of a family; a callback for click."""
    known = [family.name for family in families.FAMILIES]
    if name is not None and name not in known:
        raise click.BadParameter(f"{name!r} is not one of {', '.join(known)}.", ctx, parameter)
    return name


def is_typed(name: str | None) -> bool:
    """Whether an option was given on the command line."""
    return click.get_current_context().get_parameter_source(name or "") is ParameterSource.COMMANDLINE


class FamilyCommand(click.Command):
    """A command that lists its options in groups, and knows that the keys of ``--set`` are not options."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse; if an unknown option is a key of ``--set``, raise an error that says so."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            key = error.option_name.removeprefix("--")
            if not any(key == one.key for family in families.FAMILIES for one in family.load_options().all_options()):
                raise
            raise click.UsageError(f"{error.option_name} is a key of --set: give --set {key}=VALUE", ctx) from error

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the groups that are not empty, in their order."""
        records = {}
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx) if isinstance(parameter, click.Option) else None
            if record is not None:
                records["help" if "--help" in parameter.opts else parameter.name or ""] = record
        grouped = {name for names in GROUPS.values() for name in names}
        groups = {OTHER: tuple(name for name in records if name not in grouped), **GROUPS}
        for title, names in groups.items():
            shown = [records[name] for name in names if name in records]
            if shown:
                with formatter.section(title):
                    formatter.write_dl(shown)
