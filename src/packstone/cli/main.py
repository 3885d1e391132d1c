"""The entry point ``packstone``: loads a command when it is called, and maps errors to exit codes.

Before a command starts and after it ends, SIGINT and SIGTERM give one sentence instead of a traceback. This begins
before the other imports, which take most of the time until a command starts. While a command runs,
``runs/interrupts.py`` handles the signals.
"""

from __future__ import annotations

import os
import signal
import sys

INTERRUPTED = "Interrupted; no file is left half-written or half-moved."


def exit_code_of(number: int) -> int:
    """Return the exit code of a command that a signal ended, as a shell does: 130 for SIGINT, 143 for SIGTERM."""
    return 128 + number


def _end_at_once(number: int, _frame: object) -> None:
    os.write(2, f"packstone: {INTERRUPTED}\n".encode())
    os._exit(exit_code_of(number))


if sys.argv[0].endswith(("/packstone", "/packstone/__main__.py")):  # not if another program imports the command line
    for _number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(_number) is not signal.SIG_IGN:  # a shell makes background processes ignore SIGINT
            signal.signal(_number, _end_at_once)

# isort: split
import contextlib
import gc
import importlib
import itertools
import logging
import warnings
from typing import Any, Final

import click

from packstone import __version__
from packstone.errors import ConflictError, PackstoneError, storage_sentence

# Command -> ("module:name", short help). `packstone --help` imports none of the modules.
COMMANDS: dict[str, tuple[str, str]] = {
    "demo": ("demo:command", "Take a tour on a generated lake: inspect, plan, merge, verify, restore."),
    "merge": ("compact:merge", "Merge one partition, given as FS PARTITION BLOCKSIZE."),
    "health": ("health:command", "Show files, sizes, sorted runs or segments, a score, and hazards."),
    "plan": ("compact:plan", "Show what would be merged and why; write nothing."),
    "compact": ("compact:compact", "Merge files, sorted runs or segments, verify every row, publish."),
    "options": ("compact:list_options", "List the options for a table: keys, values, defaults."),
    "explain": ("explain:command", "Show what a strategy picks on an imagined table, and why."),
    "simulate": ("simulate:command", "Simulate loads: what a strategy writes, reads and stores."),
    "verify": ("maintain:verify", "Verify a run again from the files that still exist."),
    "check": ("maintain:check", "Check that all files exist and are what was written."),
    "restore": ("maintain:restore", "Undo exactly one run."),
    "recover": ("maintain:recover", "Finish or undo the half-done work of a killed run."),
    "clean": ("maintain:clean", "Remove expired backups, leftover files, snapshots, segments."),
    "history": ("history:command", "List recorded runs; show one, or delete old records."),
    "formats": ("formats:command", "Record and list the file formats of a metastore's tables."),
    "query": ("query:command", "Query a segment or Paimon table; explain what is skipped."),
    "sql": ("sql:command", "Run CarbonData's statements, and SELECT over several tables."),
    "bundle": ("bundle:command", "Pack Python and all packages into one archive for a cluster."),
    "segments": ("segments:command", "Create, load, show and maintain segment tables."),
}


_SUGGESTED: Final = 20  # commands printed for the tables of a folder; the JSON has all of them
_CONFIDENTIAL: Final = "(?i):.*@|passw|secret|token"  # arguments that are not repeated on stderr, a job's log


class LazyGroup(click.Group):
    """A group that imports the module of a command when the command is needed."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the commands in the order in which a user needs them."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of one command."""
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name][0].partition(":")
        command: click.Command = getattr(importlib.import_module(f"packstone.cli.commands.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; for an unknown one, suggest a similar name, which click finds among registered ones only."""
        name = args[0]
        if name not in COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            similar = [f" Did you mean {one!r}?" for one in get_close_matches(name.lower(), COMMANDS, n=1)]
            raise click.UsageError("".join((f"No such command {name!r}.", *similar)), ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Print the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, text) for name, (_, text) in COMMANDS.items()])


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog=(
        "Exit codes: 0 done or nothing to do, 1 failed or partial, 2 invalid arguments, 3 refused or conflict, "
        "130 interrupted (Ctrl-C), 143 terminated (SIGTERM)."
    ),
)
@click.version_option(__version__, "-V", "--version", prog_name="packstone")
def cli() -> None:
    """Keep data-lake tables compact: merge small files and verify that no row was lost.

    Packstone works on Hive directories, Apache Paimon tables, and its own segment tables.
    """


def main(arguments: list[str] | None = None) -> None:
    """Run the command line and exit with the documented code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # NumPy would start a thread for each core; we use none of them
    gc.set_threshold(50_000)  # a run has many small records without cycles; by default they are examined often
    code = run(sys.argv[1:] if arguments is None else arguments)
    for number in (signal.SIGINT, signal.SIGTERM):  # the result is printed, and a signal at exit would change the code
        signal.signal(number, signal.SIG_IGN)
    sys.exit(code)


def run(arguments: list[str]) -> int:
    """Run the command line; return the exit code."""
    from packstone.runs.interrupts import Interrupted, Received, interruptible, is_interruption

    received = Received()
    if not _wants_trace(arguments) and not logging.root.handlers:
        # Py4J logs a traceback for each call that a signal or a dead JVM ends; we report it in one sentence.
        logging.root.addHandler(logging.NullHandler())
    # Under spark-submit stderr goes to stdout, where JSON may be expected. What we use of PySpark works with pandas 3.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    # A signal to the whole process group ends the JVM too; our message about the interruption is enough.
    warnings.filterwarnings("ignore", "Unable to cleanly shutdown Spark JVM process", RuntimeWarning)
    try:
        with interruptible() as received:
            result: Any = cli.main(arguments, prog_name="packstone", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        return error.exit_code
    except click.ClickException as error:
        return _fail(_usage_sentence(error), error.exit_code, arguments)
    except (Interrupted, KeyboardInterrupt, click.Abort) as error:
        return _fail_interrupted(error, received.number, arguments)
    except BrokenPipeError:
        # The reader of our output closed the pipe; without this, Python reports the error again when it exits.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except Exception as error:
        if is_interruption(error, received):  # a library, for example an import, replaced it by its own error
            return _fail_interrupted(error, received.number, arguments)
        if isinstance(error, (PackstoneError, OSError)) or not _wants_trace(arguments):
            return _fail_by(error, arguments)
        raise


def _usage_sentence(error: click.ClickException) -> str:
    """Return in one sentence what click would print in four lines."""
    said = " ".join(error.format_message().split()).rstrip(".")
    context = error.ctx if isinstance(error, click.UsageError) else None
    if context is None:
        return f"{said}."
    where = f"`{context.command_path} --help`"
    return f"{said} See {where}." if said.endswith("?") else f"{said}; see {where}."


def _fail_by(error: Exception, arguments: list[str]) -> int:
    if isinstance(error, PackstoneError):
        is_conflict, facts = isinstance(error, ConflictError), error.facts
        several = {"tables": facts["tables"], "folder": facts["path"]} if facts.get("tables") else {}
        return _fail(error.message, error.exit_code, arguments, is_conflict=is_conflict, **several)
    if isinstance(error, OSError):
        return _fail(f"{storage_sentence(error)} Fix this and run the command again.", 1, arguments)
    return _fail(f"Unexpected {type(error).__name__}: {error}. Run again with --debug for the trace.", 1, arguments)


def _fail_interrupted(error: BaseException, number: int | None, arguments: list[str]) -> int:
    """Report what the interrupted command finished, if it says so; return the exit code that a shell gives a signal."""
    from packstone.runs.interrupts import Interrupted

    number = number or (signal.SIGINT if isinstance(error, KeyboardInterrupt) else None)
    message = str(error) if isinstance(error, Interrupted) else ""
    # Without a signal, the input ended at a question (Ctrl-D).
    return _fail(message or INTERRUPTED, 1 if number is None else exit_code_of(number), arguments)


def _fail(
    message: str,
    code: int,
    arguments: list[str],
    *,
    is_conflict: bool = False,
    tables: tuple[str, ...] = (),
    folder: str = "",
) -> int:
    if _wants_trace(arguments):
        import traceback

        traceback.print_exc()
    from packstone.cli.output import plain_text

    click.echo(f"packstone: {plain_text(message)}", err=True)
    status = "conflict" if is_conflict else "refused" if code == 3 else "failed"  # the exit code
    failure: dict[str, Any] = {"format_version": 1, "status": status, "message": message}
    if tables:
        failure["tables"] = list(tables)
        _suggest(tables, folder, arguments)
    if _given(arguments, "--format") == "json":
        import json

        click.echo(json.dumps(failure))
    if (path := _given(arguments, "--output")) is not None:
        from packstone.cli.output import find_result_file, write_result

        with contextlib.suppress(PackstoneError, OSError):  # the message on stderr has the error already
            write_result(find_result_file(path), failure)
    return code


def _suggest(tables: tuple[str, ...], folder: str, arguments: list[str]) -> None:
    """Print for each table of a folder the same command on that table."""
    from shlex import join

    from packstone.cli.output import short_path

    at = _find_target(folder, arguments)
    for table in tables[:_SUGGESTED]:
        path = short_path(table)
        words = [path] if at is None else ["packstone", *arguments[:at], path, *arguments[at + 1 :]]
        click.echo(f"  {join(words)}", err=True)
    if len(tables) > _SUGGESTED:
        click.echo(f"  … and {len(tables) - _SUGGESTED:,} more", err=True)
    if _command(arguments) in ("plan", "compact"):
        click.echo("  or all of them, one after another: the same command with --each", err=True)


def _find_target(folder: str, arguments: list[str]) -> int | None:
    """Find the argument to replace by a table of the folder; None if the command must not be printed, or would not run.

    `merge` takes only some of the tables, and splits their path into two arguments.
    """
    import re

    text = " ".join(arguments)
    if _command(arguments) == "merge" or not text.isprintable() or re.search(_CONFIDENTIAL, text):
        return None
    found = [at for at, word in enumerate(arguments) if _is_path_of(folder, word)]
    return found[0] if len(found) == 1 else None


def _command(arguments: list[str]) -> str:
    return next((word for word in arguments if not word.startswith("-")), "")


def _is_path_of(folder: str, word: str) -> bool:
    from packstone.storage.location import parse_location

    try:
        return parse_location(word).path.rstrip("/") == folder.rstrip("/")
    except (PackstoneError, OSError, ValueError):  # not a path
        return False


def _given(arguments: list[str], option: str) -> str | None:
    """Return the value of an option from the arguments, even if click failed before it parsed the option."""
    for argument, following in itertools.pairwise((*arguments, "")):
        if argument == option:
            return following
        if argument.startswith(f"{option}="):
            return argument.partition("=")[2]
    return None


def _wants_trace(arguments: list[str]) -> bool:
    return "--debug" in arguments or os.environ.get("PACKSTONE_DEBUG") == "1"
