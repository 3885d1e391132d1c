"""Packstone's command in processes of their own, without the second that a fresh interpreter takes to import it.

Run with Packstone's Python: ``python -m paimon_interop.command_server``. A line ``{"arguments": [...], "env": {...}}``
in; the command runs in a fork of this process, which has imported everything and started nothing; a line with
``code``, ``out`` and ``err`` out.
"""

import importlib
import json
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

from packstone.cli.main import main as packstone

# What a command imported when it ran is imported here afterwards, so that the next fork has it.
OURS = ("alembic", "fastavro", "numpy", "packstone", "pyarrow", "rich", "sqlalchemy", "sqlglot", "zstandard")


def run(request: dict[str, Any], folder: Path) -> dict[str, Any]:
    """Run one command in a fork and wait for it."""
    out, err, modules = folder / "out", folder / "err", folder / "modules"
    pid = os.fork()
    if pid == 0:
        os._exit(in_child(request, out, err, modules))
    _, status = os.waitpid(pid, 0)
    for name in modules.read_text(encoding="utf-8").split() if modules.exists() else ():
        importlib.import_module(name)
    return {
        "code": os.waitstatus_to_exitcode(status),
        "out": out.read_text(encoding="utf-8"),
        "err": err.read_text(encoding="utf-8"),
    }


def in_child(request: dict[str, Any], out: Path, err: Path, modules: Path) -> int:
    """Be the command: its arguments, its environment, its output."""
    before = set(sys.modules)
    for path, descriptor in ((out, 1), (err, 2)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), descriptor)
    os.environ |= request["env"]
    sys.argv = ["packstone", *request["arguments"]]
    try:
        code = packstone()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - as the interpreter would
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    new = sorted(name for name in set(sys.modules) - before if name.split(".")[0] in OURS)
    modules.write_text("\n".join(new), encoding="utf-8")
    return code or 0


def main() -> None:
    """Answer requests until stdin ends."""
    with tempfile.TemporaryDirectory() as folder:
        for line in sys.stdin:
            print(json.dumps(run(json.loads(line), Path(folder))), flush=True)  # noqa: T201 - the answer


if __name__ == "__main__":
    main()
