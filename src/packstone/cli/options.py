"""The options that several commands share, each defined once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from packstone.cli.output import choose_file, choose_quiet
from packstone.errors import InvalidInputError
from packstone.tables import families
from packstone.tables.family import Family

F = TypeVar("F", bound=Callable[..., Any])


def _stack(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        decorated: Any = function
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        wrapped: F = decorated
        return wrapped

    return decorate


debug_option: Callable[[Any], Any] = click.option(
    "--debug", is_flag=True, expose_value=False, help="Print a stack trace on errors."
)  # `main` finds it among the arguments

output_options = _stack(
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="Print the result as a table or as JSON.",
    ),
    click.option(
        "--output",
        metavar="FILE",
        expose_value=False,
        callback=choose_file,
        help="Also write the result as JSON to FILE, a path or an address such as hdfs://nn:9000/FILE.",
    ),
    click.option(
        "--quiet",
        "-q",
        is_flag=True,
        expose_value=False,
        callback=choose_quiet,
        help="Print only the result and errors: no progress, no warnings.",
    ),
    debug_option,
)

time_travel_options = _stack(
    click.option(
        "--version", type=click.IntRange(min=1), default=None, metavar="N", help="Read the table at version N."
    ),
    click.option(
        "--as-of",
        default=None,
        metavar="TIME",
        help="Read the table as of this time, e.g. '2026-01-31 12:30:00'; UTC unless an offset is given.",
    ),
)


def _strategies(family: Family) -> str:
    (default, why), *others = family.strategies.items()
    first = f"{default} ({why}, the default)" if others else default
    return f"{family.title[:1].upper()}{family.title[1:]}: {', '.join((first, *(name for name, _ in others)))}."


strategy_option: Callable[[Any], Any] = click.option(
    "--strategy",
    default=None,
    metavar="NAME",
    help=f"Choose what is merged. {' '.join(_strategies(one) for one in reversed(families.FAMILIES))}",
)

filter_options = _stack(
    strategy_option,
    click.option(
        "--where",
        default=None,
        metavar="SQL",
        help="Select only partitions that match, e.g. \"dt < '2019-07-01' AND region IN ('eu')\".",
    ),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="Skip partitions or files whose name matches; may be repeated.",
    ),
    click.option(
        "--min-age",
        default=None,
        metavar="AGE",
        help="Skip what changed within AGE, e.g. 1d: files of a Hive directory, Paimon partitions by their newest "
        "file, segments by their newest load.",
    ),
)

ids_option: Callable[[Any], Any] = click.option(
    "--ids", default=None, metavar="IDS", help="Merge these segments; needs --strategy custom, e.g. 1,2,0.1."
)

budget_options = _stack(
    click.option("--max-bytes", default=None, metavar="SIZE", help="Read at most SIZE of input, e.g. 500G."),
    click.option(
        "--max-time", default=None, metavar="DURATION", help="Stop starting new work after this duration, e.g. 45m."
    ),
    click.option(
        "--parallel", type=int, default=None, metavar="N", help="Run at most N tasks at once; inline: in N processes."
    ),
)

between_option: Callable[[Any], Any] = click.option(
    "--between",
    default=None,
    metavar="HOURS",
    help='Work only during these hours, e.g. "19:00-06:00 Europe/Berlin"; UTC unless a time zone is given.',
)

set_option: Callable[[Any], Any] = click.option(
    "--set",
    "settings",
    multiple=True,
    metavar="KEY=VALUE",
    help="Set an option of the table's family, or override one of the table's own options for this run; "
    "`packstone options TARGET` lists them. May be repeated.",
)


class _WithAlias(click.Option):
    """An option whose help shows only its first name; the second name is for old scripts."""

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Return the record without the second name."""
        record = super().get_help_record(ctx)
        return record and (record[0].replace(", ".join(self.opts), self.opts[0]), record[1])


def _target_size(text: str) -> Callable[[Any], Any]:
    names = ("--target-size", "--block-size", "target_size")
    return click.option(*names, cls=_WithAlias, default=None, metavar="SIZE", help=text)


target_size_option: Callable[[Any], Any] = _target_size(
    "Merge files smaller than SIZE into files of about SIZE (default: 120M). --block-size is an alias."
)
health_size_option: Callable[[Any], Any] = _target_size(
    "Count files smaller than SIZE as small, and assume merged files of about SIZE (default: 120M)."
)

# The family parses the values of these options: families may have different codecs.
output_file_options = _stack(
    click.option(
        "--codec",
        default=None,
        metavar="NAME",
        help="Compress merged Parquet files with zstd, snappy or gzip, or keep their codec (keep, the default).",
    ),
    click.option(
        "--header",
        default=None,
        metavar="N",
        help="Keep one copy of the first N lines of text files, their header; 0 means no header. Without this option, "
        "files that seem to have a header are skipped.",
    ),
    set_option,
)

take_over_option: Callable[[Any], Any] = click.option(
    "--take-over",
    is_flag=True,
    help="Take over from a run on another host that you know has stopped.",
)

safety_options = _stack(
    click.option(
        "--verify",
        default=None,
        metavar="MODE",
        help="Verify every row (content, the default) or only the number of rows (count).",
    ),
    click.option(
        "--keep-days",
        default=None,
        metavar="DAYS",
        help="Keep the originals of a Hive directory for DAYS (default: 7).",
    ),
)

metastore_option: Callable[[Any], Any] = click.option(
    "--metastore",
    "metastore_url",
    default=None,
    metavar="URL",
    help="Use the Hive metastore in this database, or with the word spark the metastore of Spark; TARGET may then be "
    "db.table (default: PACKSTONE_METASTORE).",
)

publish_options = _stack(
    click.option(
        "--publish",
        type=click.Choice(["in-place", "location"]),
        default="in-place",
        show_default=True,
        help="Swap files in place, or write a new folder and change the location in the metastore, so that readers "
        "see no gap; `location` needs --metastore.",
    ),
    click.option(
        "--after-publish",
        default=None,
        metavar="COMMAND",
        help="Run this shell command after publishing, e.g. to refresh Impala; PACKSTONE_TABLE is the table's name. "
        "Needs --metastore.",
    ),
)

history_option: Callable[[Any], Any] = click.option(
    "--history",
    "history_url",
    default=None,
    metavar="URL",
    help="Use this history database (default: PACKSTONE_HISTORY, else SQLite in your data folder).",
)

property_option: Callable[[Any], Any] = click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="Set a table property, named as in CarbonData; may be repeated.",
)

home_options = _stack(
    metastore_option,
    click.option(
        "--conf",
        "spark_conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a Spark configuration property for Hive's client; needs --metastore. May be repeated.",
    ),
)

engine_options = _stack(
    click.option(
        "--engine",
        default=None,
        metavar="ENGINE",
        help="Choose where the work runs: inline (all cores of this machine, no Java), spark, a Spark master "
        "(local[4], yarn), Spark Connect (sc://host:15002), or auto: your Spark if there is one (an active session, "
        "spark-submit, SPARK_MASTER, SPARK_REMOTE), else inline. Default: PACKSTONE_ENGINE, else auto.",
    ),
    click.option(
        "--conf",
        "spark_conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="Set a Spark configuration property; may be repeated.",
    ),
)

each_option: Callable[[Any], Any] = click.option(
    "--each", is_flag=True, help="Process every table in the folder TARGET, one after another."
)

yes_option: Callable[[Any], Any] = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on a terminal, unless ``--yes`` is given; without a terminal, raise an error that asks for ``--yes``."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidInputError(f'Confirmation is needed ("{question}"), and there is no terminal: give --yes.')
    if click.confirm(question, err=True):
        return True
    click.echo("Nothing was changed.", err=True)
    return False
