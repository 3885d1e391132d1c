"""The worker's other end: pypaimon and pypaimon-rust as calls, from Packstone's Python."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any, Self

ROOT = Path(__file__).resolve().parents[3]
PYTHON = Path(os.environ.get("PACKSTONE_INTEROP_VENV", ROOT / ".venv-interop")) / "bin/python"


class WorkerError(Exception):
    """pypaimon refused or failed; ``trace`` is its own traceback."""

    def __init__(self, kind: str, message: str, trace: str) -> None:
        super().__init__(f"{kind}: {message}")
        self.kind = kind
        self.trace = trace


class Worker:
    """One process with pypaimon; it lives as long as the object is open, so that it starts once."""

    def __init__(self, log: Path | None = None) -> None:
        self._log = log.open("a", encoding="utf-8") if log else None
        self._process = subprocess.Popen(
            [PYTHON, "-m", "paimon_interop.worker"],
            cwd=Path(__file__).resolve().parents[1],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log or subprocess.DEVNULL,
            text=True,
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def call(self, do: str, table: Path | str, **arguments: Any) -> Any:
        """Ask and wait for the answer."""
        self.send(do, table, **arguments)
        return self.answer()

    def send(self, do: str, table: Path | str, **arguments: Any) -> None:
        """Ask; the answer is fetched by ``answer``."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps({"do": do, "table": str(table), **arguments}) + "\n")
        self._process.stdin.flush()

    def answer(self) -> Any:
        """The answer to the oldest open question."""
        assert self._process.stdout
        line = self._process.stdout.readline()
        if not line:
            raise WorkerError("WorkerDied", f"exit code {self._process.wait(10)}", "")
        answer = json.loads(line)
        if "error" in answer:
            raise WorkerError(answer["kind"], answer["error"], answer["trace"])
        return answer["ok"]

    def close(self) -> None:
        """Let the process end; a second call does nothing."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        if self._log:
            self._log.close()
