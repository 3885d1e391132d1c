"""Packstone's command on one table, and what has to hold before and after it, told by others."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from paimon_interop.client import Worker

PACKSTONE = Path(sys.executable).with_name("packstone")
TIMEOUT_SECONDS = 300


@dataclass(frozen=True)
class Readers:
    """Everyone who can read a table; Java only where it is at hand."""

    python: Worker
    java: Worker | None

    def rows(self, table: Path, names: tuple[str, ...], **at: Any) -> Any:
        """The rows that all of them read alike; ``at`` may be a snapshot or a tag."""
        found = {name: self._read(name, table, at) for name in names if not (name == "java" and self.java is None)}
        (first, rows), *others = found.items()
        for name, theirs in others:
            assert theirs == rows, f"{name} reads other rows than {first}"
        return rows

    def _read(self, name: str, table: Path, at: dict[str, Any]) -> Any:
        if name == "java":
            assert self.java
            return self.java.call("read", table, **at)
        if name == "pypaimon-rust" and at:  # it has no time travel through this interface
            return self.python.call("read", table, **at)
        return self.python.call("read", table, rust=name == "pypaimon-rust", **at)


def run_packstone(command: str, table: Path, *arguments: str, engine: str = "inline") -> dict[str, Any]:
    """One command in a process of its own; what it says as JSON."""
    environment = os.environ | {"PACKSTONE_ENGINE": engine, "PACKSTONE_HISTORY": f"sqlite:///{table.parent}/history.db"}
    done = subprocess.run(
        [PACKSTONE, command, str(table), *arguments, "--format", "json"],
        env=environment,
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )
    try:
        return json.loads(done.stdout)
    except json.JSONDecodeError:
        raise AssertionError(f"{command} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}") from None


@dataclass(frozen=True)
class Proof:
    """One table under test."""

    table: Path
    readers: Readers
    names: tuple[str, ...]

    def rows(self) -> Any:
        """What everybody reads."""
        return self.readers.rows(self.table, self.names)

    def snapshots(self) -> list[dict[str, Any]]:
        """The snapshots on disk."""
        return self.readers.python.call("snapshots", self.table)

    def live(self) -> list[dict[str, Any]]:
        """The live files."""
        return self.readers.python.call("live", self.table)

    def check(self) -> None:
        """Nothing is wrong with the files."""
        problems = self.readers.python.call("check", self.table)
        assert not problems, "\n".join(problems)

    def compact(
        self, *arguments: str, status: str = "committed", rows: Any = None, engine: str = "inline"
    ) -> dict[str, Any]:
        """Compact: everybody reads the same as before (or ``rows``), and all invariants hold."""
        before, history = self.rows(), self.snapshots()
        result = run_packstone("compact", self.table, *arguments, engine=engine)
        assert result["status"] == status, json.dumps(result, indent=2)
        self.check()
        after = self.snapshots()
        assert after[: len(history)] == history, "an older snapshot has changed"
        kinds = [snapshot["commitKind"] for snapshot in after[len(history) :]]
        assert set(kinds) == ({"COMPACT"} if status in {"committed", "partial"} else set()), kinds
        assert self.rows() == (before if rows is None else {**before, "rows": rows})
        return result

    def compact_twice(self, *arguments: str, rows: Any = None) -> dict[str, Any]:
        """Compact, then once more: there is nothing left to do."""
        result = self.compact(*arguments, rows=rows)
        self.compact(*arguments, status="nothing-to-do")
        return result
