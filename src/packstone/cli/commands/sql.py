"""``packstone sql "STATEMENT"``: CarbonData's statements on segment tables, and SELECT.

Every statement but SELECT is translated into the command that does it, so that it has one implementation; the tokens
come from sqlglot's tokenizer for Spark's dialect, because its parser does not know CarbonData's statements:

===============================================  =========================================================
``ALTER TABLE t COMPACT 'MINOR'``                ``packstone compact t --strategy minor``
``SHOW SEGMENTS FOR TABLE t LIMIT 3``            ``packstone segments show t --limit 3``
``DELETE FROM TABLE t WHERE SEGMENT.ID IN (1)``  ``packstone segments delete t --ids 1``
``DELETE FROM t WHERE id = 7``                   ``packstone segments delete-rows t --where "id = 7"``
===============================================  =========================================================

All statements of a text are translated before the first one runs: a mistake in the last one changes nothing.
"""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

import click

from packstone.cli import options
from packstone.cli.commands.query import open_scanned, run_query
from packstone.errors import InvalidInputError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from sqlglot.tokens import Token  # type: ignore[attr-defined]  # all versions have it

_DEFAULT_ZONE: Final = "UTC"


@click.command("sql", short_help="Run CarbonData's statements, and SELECT over several tables.")
@click.argument("statement", metavar="[STATEMENT]", required=False)
@click.option("--file", "file", default=None, metavar="FILE", help="Run the statements of a file, separated by `;`.")
@click.option(
    "--warehouse",
    default=".",
    show_default=True,
    metavar="DIR",
    help="Find the table t in DIR/t, and db.t in DIR/db.db/t; a path in backticks is used as it is.",
)
@click.option(
    "--explain", is_flag=True, help="Print the command of each statement, and what a SELECT would read; run nothing."
)
@options.time_travel_options
@click.option(
    "--timezone",
    default=_DEFAULT_ZONE,
    show_default=True,
    metavar="ZONE",
    help="Use this time zone for times in a SELECT or DELETE without one.",
)
@options.yes_option
@options.engine_options
@options.history_option
@click.option(
    "--format",
    "output_format",
    type=click.Choice(["table", "json", "csv"]),
    default="table",
    show_default=True,
    help="Print results as a table or JSON; rows of a SELECT also as CSV.",
)
@options.debug_option
def command(statement: str | None, **typed: Any) -> int:
    """Run STATEMENT, or the statements of --file, one after another; stop at the first that fails.

    ALTER TABLE t COMPACT, SHOW SEGMENTS, DELETE FROM TABLE t WHERE, CLEAN FILES, LOAD DATA, CREATE TABLE, ALTER TABLE t
    SET TBLPROPERTIES, DESCRIBE and SELECT, as CarbonData documents them. Each runs the command that does
    the same, with its checks and its questions; --explain prints that command.
    """
    if (statement is None) == (typed["file"] is None):
        raise InvalidInputError("Give either a STATEMENT or --file FILE.")
    text = _read(typed["file"]) if statement is None else statement
    actions = [_Statement(tokens, text, typed["warehouse"]).read() for tokens in _split(text)]
    if not actions:
        raise InvalidInputError(f"{typed['file'] or 'STATEMENT'} contains no statement.")
    if typed["output_format"] == "csv" and any(action.command for action in actions):
        raise InvalidInputError("Only the rows of a SELECT can be printed as CSV; give --format table or json.")
    for number, action in enumerate(actions, 1):
        code = 1
        try:
            code = _run(action, typed)
        finally:
            if code != 0 and number < len(actions):
                what = f"Statement {number} of {len(actions)} failed; those after it were not run."
                click.echo(f"packstone: {what}", err=True)
        if code != 0:
            return code
    return 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Action:
    """One statement: the command that does it, or a SELECT."""

    command: tuple[str, ...] = ()
    takes: frozenset[str] = frozenset()  # the options of `sql` that the command has, too
    select: str = ""


def _run(action: _Action, typed: dict[str, Any]) -> int:
    if action.select:
        from packstone.pipeline.query import query_tables

        def open_named(name: str) -> Any:
            return open_scanned(_path(tuple(name.split(".")) if _is_plain(name) else (name,), typed["warehouse"]))

        return run_query(lambda given: query_tables(action.select, open_named, **given), typed)
    words = [*action.command, *_passed_on(action.takes, typed)]
    if typed["explain"]:
        click.echo(f"packstone {shlex.join(words)}")
        return 0
    from packstone.cli.main import cli

    result: Any = cli.main([*words, "--format", typed["output_format"]], prog_name="packstone", standalone_mode=False)
    return result if isinstance(result, int) else 0


def _passed_on(takes: frozenset[str], typed: dict[str, Any]) -> Iterator[str]:
    if "yes" in takes and typed["yes"]:
        yield "--yes"
    if "timezone" in takes and typed["timezone"] != _DEFAULT_ZONE:
        yield from ("--timezone", typed["timezone"])
    if "engine" in takes:
        if typed["engine"]:
            yield from ("--engine", typed["engine"])
        for pair in typed["spark_conf"]:
            yield from ("--conf", pair)
    if "history" in takes and typed["history_url"]:
        yield from ("--history", typed["history_url"])


def _read(file: str) -> str:
    try:
        return Path(file).read_text(encoding="utf-8")
    except UnicodeDecodeError:
        raise InvalidInputError(f"{file} is not UTF-8 text.") from None
    except OSError as error:
        raise InvalidInputError(f"--file {file} cannot be read: {error.strerror}.") from None


def _split(text: str) -> Iterator[list[Token]]:
    """The tokens of each statement."""
    from sqlglot.errors import SqlglotError

    from packstone.query.filter.parse_filter import tokenize

    try:
        tokens = tokenize(text, what="The text")
    except SqlglotError:
        raise InvalidInputError("The statement is not valid SQL: a quote is not closed.") from None
    found: list[Token] = []
    for token in _in_words(tokens, text):
        if token.token_type.name == "SEMICOLON":
            if found:
                yield found
            found = []
        else:
            found.append(token)
    if found:
        yield found


def _in_words(tokens: list[Token], text: str) -> Iterator[Token]:
    """The tokens; sqlglot keeps what follows SHOW as one text, which is split here, at its own position."""
    from packstone.query.filter.parse_filter import tokenize

    before: Token | None = None
    for token in tokens:
        if before is not None and before.token_type.name == "SHOW" and token.token_type.name == "STRING":
            start = text.index(token.text, before.end + 1)
            yield from tokenize(" " * start + token.text, what="The text")
        else:
            yield token
        before = token


def _shorten(text: str) -> str:
    from packstone.query.filter.parse_filter import shorten

    return shorten(text)


def _is_plain(name: str) -> bool:
    return all(part.replace("-", "_").replace("$", "_").isidentifier() or part.isalnum() for part in name.split("."))


def _path(parts: tuple[str, ...], warehouse: str) -> str:
    """The folder of a table: ``t`` and ``db.t`` in the warehouse, anything with a slash as it is."""
    if len(parts) == 1 and "/" in parts[0]:
        return _no_option(parts[0])
    if len(parts) > 2 or any(not part.strip(".") or "/" in part or "\0" in part for part in parts):
        raise InvalidInputError(f"{'.'.join(parts)!r} is not the name of a table; write t, db.t or `a/path`.")
    inside = parts[0] if len(parts) == 1 else f"{parts[0]}.db/{parts[1]}"
    return (
        f"{warehouse.rstrip('/') or '/'}/{inside}" if "://" in warehouse else _no_option(str(Path(warehouse) / inside))
    )


def _no_option(path: str) -> str:
    return f"./{path}" if path.startswith("-") else path


# ---- one statement ----

_LOAD_OPTIONS: Final[Mapping[str, str]] = {
    "DELIMITER": "--delimiter",
    "QUOTECHAR": "--quote",
    "LABEL": "--label",
    "INPUT_FORMAT": "--input-format",
    "TIMEZONE": "--timezone",
}
_SCOPES: Final = {"NO_SORT": "none", "LOCAL_SORT": "local", "GLOBAL_SORT": "global"}
_COMPACTIONS: Final = ("MINOR", "MAJOR", "CUSTOM")
_FORMATS: Final = ("CARBONDATA", "PACKSTONE", "ORG.APACHE.CARBONDATA.FORMAT")


class _Statement:
    """Reads the tokens of one statement from left to right."""

    def __init__(self, tokens: list[Token], text: str, warehouse: str) -> None:
        self._tokens, self._at = tokens, 0
        self._text, self._warehouse = text, warehouse

    def read(self) -> _Action:
        """Translate the statement; InvalidInputError names what is not supported."""
        for words, translate in (
            ("ALTER TABLE", self._alter),
            ("SHOW SEGMENTS", self._show),
            ("SHOW HISTORY SEGMENTS", self._show_history),
            ("DELETE FROM", self._delete),
            ("CLEAN FILES FOR TABLE", self._clean),
            ("LOAD DATA", self._load),
            ("CREATE TABLE", self._create),
            ("DESCRIBE", self._describe),
            ("DESC", self._describe),
        ):
            if self._accept(words):
                return self._ended(translate())
        if self._peek().upper() in ("SELECT", "WITH", "("):
            first, last = self._tokens[0], self._tokens[-1]
            return _Action(select=self._text[first.start : last.end + 1])
        known = self._rest().split()
        two = " ".join(known[:2]).upper()
        return self._refuse(two if two in _NOT_SUPPORTED else known[0].upper(), _NOT_SUPPORTED.get(two, ""))

    def _alter(self) -> _Action:
        path = self._table()
        if self._accept("COMPACT"):
            return self._compact(path)
        if self._accept("SET TBLPROPERTIES"):
            pairs = [word for pair in self._pairs() for word in ("--property", "=".join(pair))]
            return _Action(command=("segments", "alter", path, *pairs))
        if self._accept("UNSET TBLPROPERTIES"):
            names = [word for name in self._list(self._text_value) for word in ("--unset", name)]
            return _Action(command=("segments", "alter", path, *names))
        return self._refuse(
            f"ALTER TABLE … {self._peek().upper()}".strip(), "COMPACT, SET and UNSET TBLPROPERTIES are supported"
        )

    def _compact(self, path: str) -> _Action:
        kind = self._text_value().upper()
        if kind not in _COMPACTIONS:
            self._refuse(f"COMPACT {kind!r}", f"use one of {', '.join(_COMPACTIONS)}")
        ids = ("--ids", self._segment_ids()) if self._accept("WHERE SEGMENT . ID IN") else ()
        return _Action(
            command=("compact", path, "--strategy", kind.lower(), *ids), takes=frozenset({"engine", "history"})
        )

    def _show(self) -> _Action:
        if not (self._accept("FOR TABLE") or self._accept("ON") or self._accept("FOR")):
            self._expected("FOR TABLE")
        words = ["segments", "show", self._table()]
        if self._peek().upper() in ("INCLUDE", "AS"):
            self._refuse(f"SHOW SEGMENTS … {self._peek().upper()}", "query the JSON of `packstone segments show`")
        if self._accept("LIMIT"):
            words += ["--limit", self._next()]
        return _Action(command=tuple(words))

    def _show_history(self) -> _Action:
        shown = self._show()
        return _Action(command=(*shown.command, "--history"))

    def _delete(self) -> _Action:
        self._accept("TABLE")
        path = self._table()
        name = self._tokens[self._at - 1].text
        if self._accept("WHERE SEGMENT . ID IN"):
            which = ("--ids", self._segment_ids())
        elif self._accept("WHERE SEGMENT . STARTTIME BEFORE"):
            which = ("--before", self._text_value())
        elif self._accept("WHERE") and self._at < len(self._tokens):
            where = self._rest_without(name)
            self._at = len(self._tokens)
            return _Action(
                command=("segments", "delete-rows", path, "--where", where), takes=frozenset({"yes", "timezone"})
            )
        elif self._at < len(self._tokens):
            self._refuse(f"{self._peek()!r} after the table of a DELETE", "write DELETE FROM t WHERE …")
        else:
            self._refuse("DELETE without a filter", "to delete all rows, write WHERE true")
        return _Action(command=("segments", "delete", path, *which), takes=frozenset({"yes"}))

    def _clean(self) -> _Action:
        words = ["clean", self._table()]
        for name, value in self._pairs() if self._accept("OPTIONS") else ():
            match name.upper(), self._truth(name, value):
                case "DRYRUN", is_on:
                    words += ["--dry-run"] if is_on else []
                case ("FORCE", False) | ("STALE_INPROGRESS", True) | ("STATISTICS", True):
                    pass  # what `clean` does
                case "FORCE", _:
                    self._refuse(
                        "'force'='true'", "set SEGMENT_RETENTION_DAYS and TRASH_RETENTION_DAYS of the table to 0"
                    )
                case (("STALE_INPROGRESS" | "STATISTICS"), _):
                    self._refuse(f"{name!r}='false'", "`clean` always does both")
                case _:
                    self._refuse(f"the option {name!r} of CLEAN FILES")
        return _Action(command=tuple(words), takes=frozenset({"yes"}))

    def _load(self) -> _Action:
        self._accept("LOCAL")
        self._need("INPATH")
        inputs = _no_option(self._text_value())
        overwrite = ["--overwrite"] if self._accept("OVERWRITE") else []
        self._need("INTO TABLE")
        words = ["segments", "load", self._table(), inputs, *overwrite]
        for name, value in self._pairs() if self._accept("OPTIONS") else ():
            words += self._load_option(name, value)
        return _Action(command=tuple(words), takes=frozenset({"engine"}))

    def _load_option(self, name: str, value: str) -> list[str]:
        match name.upper():
            case "HEADER":
                return [] if self._truth(name, value) else ["--no-header"]
            case "MULTILINE":
                return ["--multiline"] if self._truth(name, value) else []
            case "SORT_SCOPE" if value.upper() in _SCOPES:
                return ["--sort-scope", _SCOPES[value.upper()]]
            case "BAD_RECORDS_ACTION":
                return ["--bad-records", value.lower()]
            case key if key in _LOAD_OPTIONS:
                return [_LOAD_OPTIONS[key], value]
            case "SORT_SCOPE":
                self._refuse(f"SORT_SCOPE {value!r}", f"use one of {', '.join(_SCOPES)}")
        return self._refuse(f"the option {name!r} of LOAD DATA", f"known are {', '.join(sorted(_KNOWN_LOAD))}")

    def _create(self) -> _Action:
        if self._accept("IF NOT EXISTS"):
            self._refuse("IF NOT EXISTS", "`packstone segments create` refuses a folder that is not empty")
        path = self._table()
        schema = self._brackets()
        if not (self._accept("STORED AS") or self._accept("STORED BY") or self._accept("USING")):
            self._refuse(
                f"CREATE TABLE … {self._peek().upper()}".rstrip(), "write STORED AS carbondata after the columns"
            )
        kind = self._next()
        while self._accept("."):
            kind += "." + self._next()
        if kind.upper() not in _FORMATS:
            self._refuse(f"CREATE TABLE of {kind}", "write STORED AS carbondata")
        pairs = self._pairs() if self._accept("TBLPROPERTIES") or self._accept("OPTIONS") else []
        if self._at < len(self._tokens):
            self._refuse(
                f"CREATE TABLE … {self._peek().upper()}", "name the table by its path in backticks to place it"
            )
        given = [word for pair in pairs for word in ("--property", "=".join(pair))]
        return _Action(command=("segments", "create", path, "--schema", schema, *given))

    def _describe(self) -> _Action:
        _ = self._accept("FORMATTED") or self._accept("EXTENDED")
        self._accept("TABLE")
        return _Action(command=("segments", "describe", self._table()))

    # ---- parts of statements ----

    def _table(self) -> str:
        parts = [self._name()]
        while self._accept("."):
            parts.append(self._name())
        return _path(tuple(parts), self._warehouse)

    def _name(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        word = self._next() if token is not None else ""
        is_quoted = token is not None and token.token_type.name == "IDENTIFIER"
        if not is_quoted and not word.replace("-", "_").isidentifier():
            self._expected("the name of a table", found=word)
        return word

    def _segment_ids(self) -> str:
        return ",".join(self._list(self._next))

    def _list(self, read: Callable[[], str]) -> list[str]:
        self._need("(")
        found = [read()]
        while self._accept(","):
            found.append(read())
        self._need(")")
        return found

    def _pairs(self) -> list[tuple[str, str]]:
        """``('name'='value', …)``; a name twice is refused."""

        def read() -> str:
            name = self._next()
            while self._accept("."):
                name += "." + self._next()
            self._need("=")
            pairs.append((name, self._next()))
            return name

        pairs: list[tuple[str, str]] = []
        names = [name.upper() for name in self._list(read)]
        for name in names:
            if names.count(name) > 1:
                raise InvalidInputError(f"{name} is given twice; give it once.")
        return pairs

    def _brackets(self) -> str:
        """The text inside matching brackets."""
        self._need("(")
        first, depth = self._at, 1
        while depth:
            word = self._next()
            depth += (word == "(") - (word == ")")
        end = self._tokens[self._at - 1]
        return self._text[self._tokens[first].start : end.start].strip()

    def _truth(self, name: str, value: str) -> bool:
        if value.lower() not in ("true", "false"):
            raise InvalidInputError(f"{name} is {value!r}; write 'true' or 'false'.")
        return value.lower() == "true"

    def _text_value(self) -> str:
        token = self._tokens[self._at] if self._at < len(self._tokens) else None
        if token is None or token.token_type.name != "STRING":
            self._expected("a text in quotes")
        return self._next()

    def _ended(self, action: _Action) -> _Action:
        if self._at < len(self._tokens):
            raise InvalidInputError(f"The statement has {_shorten(self._rest())!r} after its end.")
        return action

    def _peek(self) -> str:
        return self._tokens[self._at].text if self._at < len(self._tokens) else ""

    def _next(self) -> str:
        if self._at >= len(self._tokens):
            self._expected("more")
        self._at += 1
        return str(self._tokens[self._at - 1].text)

    def _accept(self, words: str) -> bool:
        """Read these words if they come next; quoted text is never a word."""
        wanted = words.split()
        found = self._tokens[self._at : self._at + len(wanted)]
        plain = [token.text.upper() for token in found if token.token_type.name not in ("STRING", "IDENTIFIER")]
        if plain != wanted:
            return False
        self._at += len(wanted)
        return True

    def _need(self, words: str) -> None:
        if not self._accept(words):
            self._expected(words)

    def _rest(self) -> str:
        at = min(self._at, len(self._tokens) - 1)
        return self._text[self._tokens[at].start : self._tokens[-1].end + 1]

    def _rest_without(self, table: str) -> str:
        """The rest of the statement, in which columns are not qualified by the name of the table."""
        found, at = [], self._tokens[self._at].start
        rest = self._tokens[self._at - 1 :]
        for before, word, dot in zip(rest, rest[1:], rest[2:], strict=False):
            is_name = word.token_type.name != "STRING" and word.text.lower() == table.lower()
            if is_name and dot.token_type.name == "DOT" and before.token_type.name != "DOT":
                found.append(self._text[at : word.start])
                at = dot.end + 1
        return "".join((*found, self._text[at : self._tokens[-1].end + 1]))

    def _expected(self, what: str, *, found: str | None = None) -> NoReturn:
        word = self._peek() if found is None else found
        where = f"not {_shorten(word)!r}" if word else "but it ends"
        raise InvalidInputError(f"The statement needs {what} after {_shorten(self._before())!r}, {where}.")

    def _before(self) -> str:
        if self._at == 0:
            return ""
        return self._text[self._tokens[0].start : self._tokens[min(self._at, len(self._tokens)) - 1].end + 1]

    def _refuse(self, what: str, hint: str = "") -> NoReturn:
        raise InvalidInputError(f"`packstone sql` does not support {_shorten(what)}{f'; {hint}' if hint else ''}.")


_KNOWN_LOAD: Final = (*_LOAD_OPTIONS, "BAD_RECORDS_ACTION", "HEADER", "MULTILINE", "SORT_SCOPE")
_NOT_SUPPORTED: Final[Mapping[str, str]] = {
    "DROP TABLE": "remove the folder of the table",
    "SHOW TABLES": "`packstone health DIR` describes every table of a folder",
    "INSERT INTO": "load files with LOAD DATA, or an Arrow table with table.segments.load",
    "INSERT OVERWRITE": "LOAD DATA … OVERWRITE replaces all rows",
    "CLEAN FILES": "write CLEAN FILES FOR TABLE t",
    "SHOW SEGMENTS": "",
}
