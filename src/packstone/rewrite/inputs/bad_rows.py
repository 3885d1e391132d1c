"""Rows that a load cannot take as they are, each with the reason; what is to be done with them is the caller's choice.

Bad rows are kept as JSON lines::

    {"source":"in.csv","row":7,"column":"price","value":"12,5","reason":"is no decimal(10,2)","whole_row":{…}}

A row with several bad fields has a line for each. ``whole_row`` is there if rows are redirected.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from packstone.errors import InvalidInputError

_SHOWN = 80  # characters of a bad value in a message


class BadRecords(StrEnum):
    """What becomes of a bad row; CarbonData's words."""

    FAIL = "FAIL"  # the load fails
    FORCE = "FORCE"  # bad fields become null, and the row is kept; it is left out where null is not allowed
    REDIRECT = "REDIRECT"  # the row is left out and kept whole beside the table
    IGNORE = "IGNORE"  # the row is left out; its bad fields are kept


@dataclass(frozen=True, slots=True, kw_only=True)
class BadField:
    """One reason why a row is bad; no column: the whole row cannot be read."""

    source: str
    row: int  # of the source, from 1
    column: str
    value: str
    reason: str
    whole_row: str | None = None  # JSON

    def __str__(self) -> str:
        value = self.value if len(self.value) <= _SHOWN else f"{self.value[:_SHOWN]}…"
        field = f", column {self.column}" if self.column else ""
        return f"{self.source}, row {self.row}{field}: {value!r} {self.reason}"

    def to_json(self) -> str:
        """One line, without its end."""
        plain: dict[str, Any] = {
            "source": self.source,
            "row": self.row,
            "column": self.column,
            "value": self.value,
            "reason": self.reason,
        }
        if self.whole_row is not None:
            plain["whole_row"] = json.loads(self.whole_row)
        return json.dumps(plain, ensure_ascii=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where rows of a batch come from, so that a bad one can be told: a source and the number of its rows."""

    source: str
    first_row: int = 1
    rows: tuple[int, ...] | None = None  # rows of the batch by their distance from the first, if some were left out
    rows_before: Callable[[], int] | None = None  # asked for only if a row is bad: it may have to count lines

    def row(self, at: int) -> int:
        """The number in the source of a row of the batch."""
        before = 0 if self.rows_before is None else self.rows_before()
        return before + self.first_row + (at if self.rows is None else self.rows[at])


def bad_record_error(field: BadField) -> InvalidInputError:
    """The error of a load that takes no bad rows."""
    return InvalidInputError(
        f"{field}; correct the input, or give bad records another action than FAIL.",
        file=field.source,
        row=field.row,
        column=field.column,
        value=field.value,
        reason=field.reason,
    )


def to_json_lines(fields: tuple[BadField, ...]) -> bytes:
    """All as lines of JSON."""
    return "".join(f"{field.to_json()}\n" for field in fields).encode()
