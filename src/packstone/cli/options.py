"""Options that several commands share, each written once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any, TypeVar

import click

from packstone.cli.output import choose_file
from packstone.errors import InvalidInputError

F = TypeVar("F", bound=Callable[..., Any])


def _stack(*decorators: Callable[[Any], Any]) -> Callable[[F], F]:
    def decorate(function: F) -> F:
        decorated: Any = function
        for decorator in reversed(decorators):
            decorated = decorator(decorated)
        wrapped: F = decorated
        return wrapped

    return decorate


output_options = _stack(
    click.option(
        "--format",
        "output_format",
        type=click.Choice(["table", "json"]),
        default="table",
        show_default=True,
        help="How to print the result.",
    ),
    click.option(
        "--output",
        metavar="FILE",
        expose_value=False,
        callback=choose_file,
        help="Write the result to this file too, as JSON: a path or an address such as hdfs://nn:9000/FILE.",
    ),
    click.option("--debug", is_flag=True, help="Show a stack trace if something goes wrong."),
)

time_travel_options = _stack(
    click.option("--version", type=click.IntRange(min=1), default=None, help="The table at this version."),
    click.option(
        "--as-of",
        default=None,
        metavar="TIME",
        help="The table as it was then, e.g. '2026-01-31 12:30:00'; UTC unless an offset is given.",
    ),
)

merge_options = _stack(
    click.option(
        "--min-files",
        type=int,
        default=5,
        show_default=True,
        help="Fewer small files than this in a partition are left alone.",
    ),
    click.option(
        "--codec",
        type=click.Choice(["keep", "zstd", "snappy", "gzip"]),
        default="keep",
        show_default=True,
        help="Codec of merged Parquet files.",
    ),
    click.option(
        "--header",
        type=int,
        default=None,
        metavar="N",
        help="Text files begin with N header lines, of which one copy is kept; 0: with none. Without this, files that "
        "seem to have a header are left alone.",
    ),
)

metastore_option: Callable[[Any], Any] = click.option(
    "--metastore",
    "metastore_url",
    default=None,
    metavar="URL",
    help="Database of a Hive metastore, or the word spark for the one that Spark knows; TARGET may then be db.table "
    "(default: PACKSTONE_METASTORE).",
)

publish_options = _stack(
    click.option(
        "--publish",
        type=click.Choice(["in-place", "location"]),
        default="in-place",
        show_default=True,
        help="With --metastore, `location`: write a new folder and let the metastore point to it; readers see no gap.",
    ),
    click.option(
        "--statistics",
        is_flag=True,
        help="With --metastore: set numFiles and totalSize of what was merged in place, by Hive's own client in Spark.",
    ),
    click.option(
        "--after-publish",
        default=None,
        metavar="COMMAND",
        help="With --metastore: run this in a shell after the run, e.g. to refresh Impala; PACKSTONE_TABLE names it.",
    ),
)

size_options = _stack(
    click.option(
        "--block-size",
        default="120M",
        show_default=True,
        help="Files below this are small; merged files are about this big.",
    ),
    click.option("--threshold", default=None, help="Files below this are small, if it differs from --block-size."),
)

run_options = _stack(
    click.option(
        "--verify",
        "verify_mode",
        type=click.Choice(["content", "count"]),
        default="content",
        show_default=True,
        help="Prove every row, or only their number.",
    ),
    click.option(
        "--accept-invalid-text",
        is_flag=True,
        help="Merge files whose strings are not UTF-8 (Latin-1, for example) instead of leaving them alone.",
    ),
    click.option(
        "--backup",
        "backup_dir",
        default=None,
        metavar="DIR",
        help="Keep originals here instead of beside the table.",
    ),
    click.option("--keep-days", type=float, default=7.0, show_default=True, help="Keep originals this long."),
    click.option(
        "--take-over",
        is_flag=True,
        help="Take partitions from an owner on another host that you know is dead.",
    ),
    click.option(
        "--history",
        "history_url",
        default=None,
        metavar="URL",
        help="History database (default: PACKSTONE_HISTORY, else SQLite in your data folder).",
    ),
    click.option(
        "--measure-read",
        is_flag=True,
        help="Also measure reads before and after, interleaved, cold and warm.",
    ),
)

filter_options = _stack(
    click.option(
        "--where",
        default=None,
        metavar="SQL",
        help="Only partitions for which this holds, e.g. \"dt < '2019-07-01'\".",
    ),
    click.option("--older-than", default=None, metavar="AGE", help="Only partitions unchanged for so long, e.g. 180d."),
    click.option("--min-age", default="0s", show_default=True, metavar="AGE", help="Only files unchanged for so long."),
    click.option(
        "--exclude",
        multiple=True,
        metavar="GLOB",
        help="Leave out partitions or files of this name; may be repeated.",
    ),
    click.option("--between", default=None, metavar="HH:MM-HH:MM", help="Work only at these hours."),
    click.option("--timezone", default="UTC", show_default=True, help="The time zone of --between."),
)

strategy_option: Callable[[Any], Any] = click.option(
    "--strategy",
    default=None,
    metavar="NAME",
    help="How to choose what is merged. Hive directories: small-files. Paimon tables: minor (the table's own way, the "
    "default), full, universal, force-up-level0. Segment tables: minor (by number, the default), major (by size), "
    "custom (--ids).",
)

single_writer_option: Callable[[Any], Any] = click.option(
    "--single-writer",
    is_flag=True,
    help="Paimon on an object store: nobody else writes to the table meanwhile.",
)

paimon_options = _stack(
    click.option(
        "--partitions",
        default=None,
        metavar="SPEC",
        help='Only these partitions, e.g. "p1=0,p2=0;p1=1".',
    ),
    click.option("--buckets", default=None, metavar="RANGES", help="Only these buckets, e.g. 0-99,200."),
    click.option(
        "--partition-idle-time",
        default=None,
        metavar="AGE",
        help="Only partitions without a new file for so long, e.g. 1d.",
    ),
    click.option(
        "--option",
        "table_options",
        multiple=True,
        metavar="KEY=VALUE",
        help="A table option for this run only; may be repeated.",
    ),
    click.option("--leftovers", is_flag=True, help="Append tables: merge the last few small files too."),
    click.option(
        "--rules",
        type=click.Choice(["2.1", "2.0", "1.4"]),
        default="2.1",
        show_default=True,
        help="Which Paimon version's rules of universal compaction.",
    ),
)

property_option: Callable[[Any], Any] = click.option(
    "--property",
    "properties",
    multiple=True,
    metavar="NAME=VALUE",
    help="A property of the table, in CarbonData's words; may be repeated.",
)

segment_options = _stack(
    click.option("--ids", default=None, metavar="IDS", help="Which segments --strategy custom merges, e.g. 1,2,0.1."),
    click.option(
        "--major-size-mb",
        type=click.IntRange(min=0),
        default=None,
        metavar="MB",
        help="How big a major compaction may make a segment; default: the table's MAJOR_COMPACTION_SIZE.",
    ),
    click.option(
        "--property",
        "properties",
        multiple=True,
        metavar="NAME=VALUE",
        help="A property of the table for this run only; may be repeated.",
    ),
)

commit_options = _stack(
    single_writer_option,
    click.option(
        "--commit-every",
        default="16G",
        show_default=True,
        metavar="SIZE",
        help="Publish a snapshot whenever so much was rewritten.",
    ),
)

budget_options = _stack(
    click.option("--max-bytes", default=None, metavar="SIZE", help="Read at most so much."),
    click.option("--max-files", type=int, default=None, help="Merge at most so many files."),
    click.option("--max-seconds", type=float, default=None, help="Start nothing new after so long."),
    click.option("--parallel", type=int, default=None, help="At most so many units at once."),
)

home_options = _stack(
    metastore_option,
    click.option(
        "--conf",
        "spark_conf",
        multiple=True,
        metavar="KEY=VALUE",
        help="With --metastore: a setting of the Spark that Hive's client runs in; may be repeated.",
    ),
)

engine_options = _stack(
    click.option(
        "--engine",
        type=click.Choice(["spark", "inline"]),
        default=None,
        help="Where the work runs: Spark, or this process (one core, no Java). Default: PACKSTONE_ENGINE, else spark.",
    ),
    click.option("--master", default=None, help="Spark master, e.g. local[4] or yarn."),
    click.option("--remote", default=None, help="Spark Connect, e.g. sc://host:15002."),
    click.option("--conf", "spark_conf", multiple=True, metavar="KEY=VALUE", help="A Spark setting; may be repeated."),
)

yes_option: Callable[[Any], Any] = click.option("--yes", "-y", is_flag=True, help="Do not ask.")


def confirm(question: str, *, yes: bool) -> bool:
    """Ask on a terminal; without one, or without ``--yes``, say what to do."""
    if yes:
        return True
    if not sys.stdin.isatty():
        raise InvalidInputError(f"{question} There is no terminal to ask on; give --yes.")
    return bool(click.confirm(question, err=True))
