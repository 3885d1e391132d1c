"""``packstone``: the commands, loaded when they are called, and the mapping of errors to exit codes."""

from __future__ import annotations

from packstone.cli.early_signals import INTERRUPTED

# isort: split
import contextlib
import importlib
import itertools
import logging
import os
import sys
import warnings
from typing import Any

import click

from packstone import __version__
from packstone.errors import ConflictError, PackstoneError, UnavailableError, storage_sentence

# Command -> (module, what it does). The help of the whole program imports none of the modules.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo", "A whole tour on a generated lake: ill, planned, merged, proved, restored."),
    "merge": ("merge", "The classic three arguments: FS PARTITION BLOCKSIZE."),
    "health": ("health", "Files, sizes, sorted runs or segments, score, hazards found."),
    "plan": ("plan", "What would be merged and why; writes nothing."),
    "compact": ("compact", "Merge files, sorted runs or segments, verify every row, publish."),
    "explain": ("explain", "What a strategy would pick on an imagined table, and why."),
    "simulate": ("simulate", "Loads through a strategy: what it writes, reads and stores."),
    "verify": ("verify", "Prove a run again from the files that still exist."),
    "restore": ("restore", "Undo exactly one run."),
    "recover": ("recover", "Finish or undo what a killed run left behind."),
    "clean": ("clean", "Remove backups, leftovers, snapshots, segments that are over."),
    "history": ("history", "List the runs; show one, forget old ones."),
    "formats": ("formats", "Formats of all tables and partitions of a metastore."),
    "query": ("query", "Rows of a segment or Paimon table through a filter; what it skips."),
    "bundle": ("bundle", "Pack Python and all packages into one archive for a cluster."),
    "segments": ("segments", "Segment tables: create, load, show, delete and more."),
}


class LazyGroup(click.Group):
    """A group whose commands live in modules that are imported when they are needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Name the commands in the order in which one meets them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002 - click's
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module = importlib.import_module(f"packstone.cli.commands.{COMMANDS[cmd_name][0]}")
        command: click.Command = module.command
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - click's
        """Print the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done or nothing to do, 1 failed or partial, 2 wrong call, 3 refused or conflict.",
)
@click.version_option(__version__, prog_name="packstone")
def cli() -> None:
    """Packstone keeps data-lake tables compact: it merges small files and proves that no row was lost.

    It works on Hive directories, on Apache Paimon tables, and on segment tables of its own.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the documented code."""
    sys.exit(run(sys.argv[1:] if arguments is None else arguments))


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    from packstone.runs.interrupts import Interrupted, interruptible

    if not _wants_trace(arguments) and not logging.root.handlers:
        # Py4J logs a traceback for each call that a signal or a dead JVM ends; we say what happened in one sentence.
        logging.root.addHandler(logging.NullHandler())
    # Under spark-submit stderr goes to stdout, where JSON may be expected. What we use of PySpark works with pandas 3.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # A signal to the whole group ends the JVM too; what we say about the interruption is enough.
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
    try:
        with interruptible():
            result: Any = cli.main(arguments, prog_name="packstone", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(_usage_sentence(error), error.exit_code, arguments)
    except PackstoneError as error:
        return _fail_by(error, arguments)
    except (Interrupted, KeyboardInterrupt, click.Abort):
        return _fail(INTERRUPTED, 1, arguments)
    except BrokenPipeError:
        # Whoever read our output has seen enough; Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except OSError as error:
        return _fail(f"{storage_sentence(error)} Mend that and run the command again.", 1, arguments)
    except Exception as error:  # the last resort: one sentence, the trace on request
        if _wants_trace(arguments):
            raise
        return _fail(f"Unexpected {type(error).__name__}: {error}. Run again with --debug for the trace.", 1, arguments)


def _usage_sentence(error: click.ClickException) -> str:
    """What click would print in four lines, as one sentence."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    return f"{said}; see `{context.command_path} --help`." if context is not None else f"{said}."


def _fail_by(error: PackstoneError, arguments: list[str]) -> int:
    from packstone.runs.interrupts import was_interrupted

    if isinstance(error, UnavailableError) and was_interrupted():
        return _fail(INTERRUPTED, 1, arguments)
    return _fail(error.message, error.exit_code, arguments, is_conflict=isinstance(error, ConflictError))


def _fail(message: str, code: int, arguments: list[str], *, is_conflict: bool = False) -> int:
    if _wants_trace(arguments):
        import traceback

        traceback.print_exc()
    from packstone.cli.output import plain_text

    click.echo(f"packstone: {plain_text(message)}", err=True)
    status = "conflict" if is_conflict else "refused" if code == 3 else "failed"  # noqa: PLR2004 - the exit code
    failure = {"format_version": 1, "status": status, "message": message}
    if _given(arguments, "--format") == "json":
        import json

        click.echo(json.dumps(failure))
    if (path := _given(arguments, "--output")) is not None:
        from packstone.cli.output import find_result_file, write_result

        with contextlib.suppress(PackstoneError, OSError):  # the sentence on stderr has said what happened
            write_result(find_result_file(path), failure)
    return code


def _given(arguments: list[str], option: str) -> str | None:
    """Return what was given for an option, also where click did not get as far as reading it."""
    for argument, following in itertools.pairwise((*arguments, "")):
        if argument == option:
            return following
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def _wants_trace(arguments: list[str]) -> bool:
    return "--debug" in arguments or os.environ.get("PACKSTONE_DEBUG") == "1"
