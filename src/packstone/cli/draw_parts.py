"""What all drawings share: the score, bars to the eighth of a cell, tables without lines, reasons that wrap well."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from packstone.cli.output import plain_text, short_path
from packstone.model.unit import How, Verify

if TYPE_CHECKING:
    from collections.abc import Iterable

    from packstone.model.outcome import UnitOutcome

BAR_CELLS = 32
_EIGHTHS = " ▏▎▍▌▋▊▉"
_FINGERPRINT_DIGITS = 12  # enough to tell two apart by eye; all 32 are in the JSON and in the journal
_GOOD_SCORE, _FAIR_SCORE = 75, 40


def draw_score(console: Any, score: int, table: str) -> None:  # noqa: ANN401 - a rich console
    """Draw the first line of a table's health."""
    from rich.text import Text

    colour = score_colour(score)
    filled = round(BAR_CELLS * score / 100)
    console.print(
        Text.assemble(
            ("health ", "bold"),
            ("█" * filled, colour),
            ("─" * (BAR_CELLS - filled), "dim"),
            (f" {score}", f"bold {colour}"),
            " of 100  ",
            short_path(table),
        )
    )


def draw_reasons(console: Any, reasons: Iterable[tuple[str, str, str, str]]) -> None:  # noqa: ANN401 - a rich console
    """One line each, and what does not fit on it stands below its own beginning."""
    from rich.table import Table
    from rich.text import Text

    grid = Table.grid(padding=(0, 2))
    grid.add_column(no_wrap=True)
    grid.add_column(overflow="fold")
    for label, style, what, why in reasons:
        grid.add_row(Text(label, style=style), Text(_sentence(what, why), style="dim" if style == "dim" else ""))
    if grid.row_count:
        console.print(grid)


def plain_table(*left: str, right: tuple[str, ...]) -> Any:  # noqa: ANN401 - a rich table
    """A table without lines: columns of names, then columns of numbers."""
    from rich.table import Table

    table = Table(box=None, pad_edge=False, header_style="dim", show_edge=False)
    for name in left:
        table.add_column(name, overflow="fold")  # a name that is cut off is no name
    for name in right:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def name_text(partition: str) -> Any:  # noqa: ANN401 - a rich text, in which brackets are brackets
    """A name as it is, on one line."""
    from rich.text import Text

    return Text(plain_text(partition or "."))


def bar(count: int, most: int, *, cells: int) -> str:
    """A bar to the eighth of a cell; whatever is there at all can be seen."""
    eighths = round(8 * cells * count / most) if most else 0
    if count:
        eighths = max(1, eighths)
    drawn = "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()
    return f"{drawn:<{cells}}"


def score_colour(score: int) -> str:
    """The colour of a score."""
    if score >= _GOOD_SCORE:
        return "green"
    return "yellow" if score >= _FAIR_SCORE else "red"


def short_fingerprint(unit: UnitOutcome, verified: str) -> str:
    """The beginning of a fingerprint, or why there is none."""
    if unit.how == How.UPGRADE:
        return "same file"
    digits = unit.fingerprint.rpartition(" ")[2]
    if not digits:  # a merge that was split over tasks has one for each part
        return "counted" if verified == Verify.COUNT else "in parts"
    return f"{digits[:_FINGERPRINT_DIGITS]}…"


def _sentence(what: str, why: str) -> str:
    """Join a thing and its reason; a reason that begins with the thing's whole path does not name it twice."""
    what, why = plain_text(what), plain_text(why)
    if not what:
        return why
    before, found, rest = why.partition(what)
    if found and before.startswith("/") and before.endswith("/"):
        return f"{what}: {rest[1:]}" if rest.startswith("/") else f"{what}{rest}"
    return f"{what}: {why}"
