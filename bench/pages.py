"""Figures of a benchmark in a page of the documentation."""

from __future__ import annotations

import re
from pathlib import Path


def replace_block(place: str, text: str) -> None:
    """Put text between the markers of a block, `<!-- bench:NAME -->`; the place is PATH#NAME."""
    path, _, name = place.partition("#")
    begin, end = f"<!-- bench:{name} -->", f"<!-- /bench:{name} -->"
    page, count = re.subn(
        f"{re.escape(begin)}.*{re.escape(end)}",
        lambda _: f"{begin}\n{text}\n{end}",
        Path(path).read_text(encoding="utf-8"),
        flags=re.DOTALL,
    )
    if count != 1:
        raise SystemExit(f"{path} has {count} blocks {begin}")
    Path(path).write_text(page, encoding="utf-8")
