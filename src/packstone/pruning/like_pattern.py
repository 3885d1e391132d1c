"""SQL's LIKE without backtracking: ``%`` is any text, ``_`` any one character, a backslash makes the next one plain.

A regular expression with many ``.*`` tries every way to divide the text among them, which takes for ever for
``%a%a%a%b`` on a long run of ``a``. Here all ways are followed at once: the set of reached places in the pattern is one
integer, a bit for each place, and every character of the text moves all of them by one shift. The time is the length of
the text times the length of the pattern over 64.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from packstone.errors import InvalidInputError

MAX_PATTERN: Final = 10_000  # characters; building the masks takes time by the square of it


@dataclass(frozen=True, slots=True, kw_only=True)
class LikePattern:
    """A pattern ready for matching."""

    steps: tuple[tuple[str, int], ...]  # character -> the places that it leads on from, underscores included
    other: int  # the places that any other character leads on from: the underscores
    stays: int  # the places where a % stands before: the text may go on there without moving
    end: int  # the place after the last character

    def matches(self, text: str) -> bool:
        """Whether the whole text is of this pattern."""
        steps, places = dict(self.steps), 1
        for character in text:
            places = ((places & steps.get(character, self.other)) << 1) | (places & self.stays)
            if not places:
                return False
        return bool(places & self.end)


def parse_like(pattern: str, *, escape: str = "\\") -> LikePattern:
    """Read a pattern; InvalidInputError if it is too long or an escape stands before no wildcard."""
    if len(pattern) > MAX_PATTERN:
        raise InvalidInputError(
            f"A LIKE pattern has {len(pattern):,} characters; at most {MAX_PATTERN:,} are allowed.", pattern=pattern
        )
    steps: defaultdict[str, int] = defaultdict(int)
    other, stays, at = 0, 0, 0
    for character, is_wildcard in split_like(pattern, escape=escape):
        if is_wildcard and character == "%":
            stays |= 1 << at
            continue
        if is_wildcard:
            other |= 1 << at
        else:
            steps[character] |= 1 << at
        at += 1
    made = tuple((character, places | other) for character, places in steps.items())
    return LikePattern(steps=made, other=other, stays=stays, end=1 << at)


def split_like(pattern: str, *, escape: str) -> Iterator[tuple[str, bool]]:
    """The characters of a pattern, each with whether it is a wildcard."""
    characters = iter(pattern)
    for character in characters:
        if character != escape:
            yield character, character in {"%", "_"}
            continue
        escaped = next(characters, "")
        if escaped not in {"%", "_", escape}:
            raise InvalidInputError(f"The LIKE pattern {pattern!r} has a {escape!r} that stands before no % or _.")
        yield escaped, False
