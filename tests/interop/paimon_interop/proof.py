"""Packstone's command on one table, and what must hold before and after it, read by other projects."""

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from patience import patient

from paimon_interop.client import INTEROP, Worker

PACKSTONE = Path(sys.executable).with_name("packstone")
TIMEOUT_SECONDS = patient(300)


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


class Command:
    """Packstone's command: on the inline engine in forks of a warm process, on Spark as a person starts it."""

    def __init__(self, history: Path) -> None:
        self._env = {"PACKSTONE_HISTORY": f"sqlite:///{history}"}
        self._server = subprocess.Popen(
            [sys.executable, "-m", "paimon_interop.command_server"],
            cwd=INTEROP,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, command: str, table: Path, *arguments: str, engine: str = "inline") -> dict[str, Any]:
        """Run it; the answer is what it says as JSON."""
        line = [command, str(table), *arguments, "--format", "json"]
        done = self._installed(line) if engine == "spark" else self._forked(line)
        try:
            return json.loads(done["out"])
        except json.JSONDecodeError:
            raise AssertionError(f"{line} ended with {done['code']}:\n{done['out']}\n{done['err']}") from None

    def close(self) -> None:
        """End the server."""
        self._server.communicate(timeout=patient(60))

    def _forked(self, line: list[str]) -> dict[str, Any]:
        assert self._server.stdin
        assert self._server.stdout
        env = self._env | {"PACKSTONE_ENGINE": "inline"}
        self._server.stdin.write(json.dumps({"arguments": line, "env": env}) + "\n")
        self._server.stdin.flush()
        return json.loads(self._server.stdout.readline())

    def _installed(self, line: list[str]) -> dict[str, Any]:
        env = os.environ | self._env | {"PACKSTONE_ENGINE": "spark"}
        done = subprocess.run(
            [PACKSTONE, *line], env=env, capture_output=True, text=True, timeout=TIMEOUT_SECONDS, check=False
        )
        return {"code": done.returncode, "out": done.stdout, "err": done.stderr}


@dataclass(frozen=True)
class Proof:
    """One table under test."""

    table: Path
    readers: Readers
    names: tuple[str, ...]
    packstone: Command

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
        result = self.packstone("compact", self.table, *arguments, engine=engine)
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
