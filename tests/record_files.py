"""Change a record on disk as somebody would who knows its digest."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from packstone.model.codec import seal


def edit_record(path: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    """Apply a change to the parsed record, and seal what comes out."""
    plain = json.loads(path.read_bytes())
    plain.pop("digest", None)
    change(plain)
    path.write_bytes(seal(json.dumps(plain, separators=(",", ":")).encode()))
