"""The row of a family, which describes it before a table is opened, and the base class of its options.

A row imports values only, so that ``--help`` stays fast; the classes that do the work are named, and loaded on use.

The options of a family are a frozen dataclass that inherits ``Options``. A field that users may set is declared with
``option``: its key, its parser, its default and one sentence. ``--set KEY=VALUE``, the command line options of the same
name, and ``packstone options`` need nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from enum import StrEnum
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final, Self, TypeAlias, TypeVar

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_flag
from packstone.model.unit import Verify

if TYPE_CHECKING:
    from datetime import datetime

    from packstone.model.limits import Filters
    from packstone.runs.engine import Engine
    from packstone.storage.fileio import FileIO


EnumT = TypeVar("EnumT", bound=StrEnum)
_COMPACT: Final = "compact"


@dataclass(frozen=True, slots=True, kw_only=True)
class Option:
    """One option of a family, as users see it."""

    key: str  # min-files
    text: str  # one sentence: what it does
    default: str = ""  # as users write it; empty: there is none
    value: str = ""  # the effective value of a table: what the table itself sets, else the default
    verbs: frozenset[str] = frozenset({_COMPACT})  # the commands on which it has an effect


def option(
    key: str,
    parse: Callable[[str], Any],
    *,
    default: Any,
    text: str,
    shown: str = "",
    also: tuple[str, ...] = (),
) -> Any:
    """Declare a field of a family's options that users may set; ``also``: verbs besides compact, plan and merge."""
    declared = Option(key=key, text=text, default=shown, verbs=frozenset({_COMPACT, *also}))
    return field(default=default, metadata={"option": declared, "parse": parse})


def one_of(*words: str) -> Callable[[str], str]:
    """Return a parser that accepts one of these words."""

    def parse(text: str) -> str:
        if text not in words:
            raise InvalidInputError(f"{text!r} is unknown; use one of {', '.join(words)}.", value=text)
        return text

    return parse


def member_of(kind: type[EnumT]) -> Callable[[str], EnumT]:
    """Return a parser of a member of an enumeration."""
    return lambda text: kind(one_of(*kind)(text))


def find_strategy(kind: type[EnumT], name: str, *, title: str) -> EnumT:
    """Return the strategy of a name; InvalidInputError for a name that tables of this kind do not have."""
    if name not in tuple(kind):
        raise InvalidInputError(f"{name} is not a strategy for {title}; use one of {', '.join(kind)}.")
    return kind(name)


def verify_option(text: str) -> Any:
    """Declare the field ``verify``, which every family has; ``text`` says what each mode compares."""
    return option("verify", member_of(Verify), default=Verify.CONTENT, shown="content", text=text)


def invalid_text_option() -> Any:
    """Declare the field ``accept_invalid_text`` of a family that copies strings."""
    text = "Merge files whose strings are not UTF-8 (Latin-1, for example) instead of leaving them alone."
    return option("accept-invalid-text", parse_flag, default=False, shown="false", text=text)


class Options:
    """The base of every family's options; a family's own class is a frozen dataclass that inherits it."""

    __slots__ = ()

    @classmethod
    def declared(cls) -> tuple[Option, ...]:
        """Return the options that are declared as fields."""
        of: Any = cls
        return tuple(one.metadata["option"] for one in fields(of) if "option" in one.metadata)

    @classmethod
    def table_options(cls) -> tuple[Option, ...]:
        """Return the options of the table itself that one run may override; they are kept in ``overrides``."""
        return ()

    @classmethod
    def why_refused(cls, _key: str) -> str | None:
        """Say why a key that the family knows must not be set for one run; None if it may be."""
        return None

    @classmethod
    def all_options(cls) -> tuple[Option, ...]:
        """Return every key that ``--set`` accepts."""
        return (*cls.declared(), *cls.table_options())

    @classmethod
    def parse(cls, given: Mapping[str, str], *, verb: str = _COMPACT, strategy: str | None = None) -> Self:
        """Parse options from keys and values as users write them; InvalidInputError names the wrong key."""
        of: Any = cls
        parsers = {one.metadata["option"].key: one for one in fields(of) if "option" in one.metadata}
        known = {one.key.lower(): one for one in cls.all_options()}
        values: dict[str, Any] = {} if strategy is None else {"strategy": strategy}
        overrides: dict[str, str] = {}
        for name, text in given.items():
            found = known.get(name.lower())
            if found is None:
                raise InvalidInputError(cls._unknown(name, [one.key for one in known.values()]), option=name)
            if verb not in found.verbs:
                raise InvalidInputError(f"{found.key} has no effect on `packstone {verb}`.", option=found.key)
            if found.key in parsers:
                values[parsers[found.key].name] = _parse(found.key, text, parsers[found.key].metadata["parse"])
            else:
                overrides[found.key] = text.strip()
        if overrides:
            values["overrides"] = tuple(overrides.items())
        made: Self = of(**values)
        return made

    @classmethod
    def _unknown(cls, name: str, known: list[str]) -> str:
        why = cls.why_refused(name)
        if why is not None:
            return why
        like = get_close_matches(name.lower(), [key.lower() for key in known], n=1)
        keys = {key.lower(): key for key in known}
        hint = f"did you mean {keys[like[0]]}?" if like else "`packstone options TARGET` lists the keys."
        return f"{name} is not an option of this table; {hint}"


def _parse(key: str, text: str, parse: Callable[[str], Any]) -> Any:
    try:
        return parse(text)
    except InvalidInputError as error:
        raise InvalidInputError(f"{key}: {error.message}", option=key, value=text) from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """A kind of table."""

    name: str  # hive
    title: str  # Hive directories
    singular: str  # a Hive directory
    part: str  # its name for a part: partition
    version: str = "version"  # its name for what a commit publishes: snapshot
    options: str  # its options, "module:class": a frozen value that inherits Options, with `strategy` and `verify`
    strategies: Mapping[str, str]  # name -> one line of help; the first is the default
    table: str  # "module:class" of its table, see pipeline/contract.py
    # Whether this folder itself is such a table; only called if it has a subfolder that is not a partition (``k=v``).
    find: Callable[[FileIO, str], bool]
    filters: frozenset[str] = frozenset()  # which of where, exclude, min_age it can apply
    arguments: frozenset[str] = (
        frozenset()
    )  # other command line arguments that not every family supports: take_over, publish …
    clean_arguments: frozenset[str] = frozenset()  # options of `clean` that it supports
    has_partition_targets: bool = False  # a folder inside a table is a target too
    source: str = ""  # "module:class" of its `ScanSource` (tables/scan_source.py), if its rows can be scanned

    @property
    def is_scanned(self) -> bool:
        """Whether its rows can be read through a filter."""
        return bool(self.source)

    def load_options(self) -> Any:
        """Load the class of its options."""
        return _load(self.options)

    def load_table(self) -> Any:
        """Load the class of its tables."""
        return _load(self.table)

    def load_source(self) -> Any:
        """Load the class of its sources of scans."""
        return _load(self.source)

    def check_strategy(self, name: str) -> str:
        """Return the name of one of its strategies; InvalidInputError for any other."""
        if name in self.strategies:
            return name
        known = list(self.strategies)
        use = known[0] if len(known) == 1 else f"one of {', '.join(known)}"
        raise InvalidInputError(f"{name} is not a strategy for {self.title}; use {use}.")

    def __str__(self) -> str:
        return self.name


FindFormat: TypeAlias = "Callable[[FileIO, str], Family | None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanContext:
    """The inputs of planning besides the table."""

    filters: Filters
    now: datetime
    engine: Engine  # to inspect many files at once
    staging: str  # a folder for tasks that inspect files
    parallel: int | None = None  # the number of tasks that the caller allows at once
    is_dry: bool = False  # the plan is only shown: later rounds may be estimated
    find_format: FindFormat = field(default=lambda _io, _path: None)  # returns the family of a folder inside the table


def _load(name: str) -> Any:
    module, _, attribute = name.partition(":")
    return getattr(import_module(module), attribute)
