"""The options of a compaction of a Paimon table, besides the table's own options."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from packstone.errors import InvalidInputError
from packstone.model.sizes import parse_bytes, parse_flag
from packstone.model.unit import Verify
from packstone.tables.family import Option, Options, find_strategy, invalid_text_option, one_of, option, verify_option
from packstone.tables.paimon.format.table_options import TableOptions

_GB = 1 << 30
_MB = 1 << 20
_GENERATIONS = ("2.1", "2.0", "1.4")


class PaimonStrategy(StrEnum):
    """How runs are chosen."""

    MINOR = "minor"  # the table's own: universal, or force-up-level0 if its options require it
    FULL = "full"
    UNIVERSAL = "universal"
    FORCE_UP_LEVEL0 = "force-up-level0"


@dataclass(frozen=True, slots=True, kw_only=True)
class PaimonOptions(Options):
    """How to compact, and how the work is split; filters choose the partitions."""

    strategy: PaimonStrategy = PaimonStrategy.MINOR  # a string with its name is accepted too
    rules: str = option(
        "rules",
        one_of(*_GENERATIONS),
        default="2.1",
        shown="2.1",
        text=f"Use the universal-compaction rules of this Paimon version: {', '.join(_GENERATIONS)}.",
    )
    buckets: tuple[tuple[int, int], ...] = ()  # only these: ranges, both ends included; empty: all
    overrides: tuple[tuple[str, str], ...] = ()  # table options for this run only
    leftovers: bool = option(
        "leftovers",
        parse_flag,
        default=False,
        shown="false",
        text="Append tables: merge the last few small files too, which would otherwise wait for more.",
    )
    # On object stores the user has to confirm that no other writer uses the table during the run.
    single_writer: bool = option(
        "single-writer",
        parse_flag,
        default=False,
        shown="false",
        text="On an object store: confirm that no other writer uses the table during the run.",
        also=("restore", "clean"),
    )
    verify: Verify = verify_option("Compare every row (content), or only keys, sequence numbers and kinds (count).")
    accept_invalid_text: bool = invalid_text_option()
    commit_every_bytes: int = option(
        "commit-every",
        parse_bytes,
        default=16 * _GB,
        shown="16G",
        text="Publish a snapshot whenever this many bytes were rewritten.",
    )
    task_bytes: int = 256 * _MB  # a bigger rewrite is split by key over tasks
    memory_bytes: int = 256 * _MB

    @classmethod
    def table_options(cls) -> tuple[Option, ...]:
        """The table options, by Paimon's names, that one run may override."""
        return tuple(TableOptions.free_options())

    @classmethod
    def why_refused(cls, key: str) -> str | None:
        """Why an option may not be overridden: it defines what the table is, or which rows it has."""
        return TableOptions.why_not_free(key)

    def __post_init__(self) -> None:
        object.__setattr__(self, "strategy", find_strategy(PaimonStrategy, self.strategy, title="Paimon tables"))
        one_of(*_GENERATIONS)(self.rules)
        if self.commit_every_bytes <= 0:
            raise InvalidInputError("commit-every must be larger than zero, for example 16G.")
        if any(first < 0 or first > last for first, last in self.buckets):
            raise InvalidInputError(f"buckets is {self.buckets}; write ranges such as ((0, 99), (200, 200)).")
