"""The commands and manifests of deploy/, as tests read them, and the tools that check them."""

import os
import re
import shlex
import sys
from pathlib import Path

import pytest
import yaml
from needs import check_marked

DEPLOY = Path(__file__).parents[1] / "deploy"
_FENCE = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_SUBMIT = re.compile(r"(?:\w+=\S+ )*\S*spark-submit ")


def blocks(page: str) -> list[str]:
    """The shell scripts of a page, in order."""
    return _FENCE.findall((DEPLOY / page).read_text())


def submits(page: str) -> list[list[str]]:
    """The arguments of every ``spark-submit`` on a page, in order."""
    text = "\n".join(blocks(page)).replace("\\\n", " ")
    return [shlex.split(line[found.end() :]) for line in text.splitlines() if (found := _SUBMIT.match(line))]


def manifests(name: str) -> list[dict]:
    """The documents of a file of manifests."""
    return list(yaml.safe_load_all((DEPLOY / "kubernetes" / name).read_text()))


def cronjob_arguments() -> list[str]:
    """The arguments of ``spark-submit`` in the nightly job."""
    (job,) = manifests("cronjob.yaml")
    (driver,) = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]
    return [str(argument) for argument in driver["args"]]


def without_master(arguments: list[str]) -> list[str]:
    """The same arguments without where they run, so that they can run elsewhere."""
    kept, at = [], 0
    while at < len(arguments):
        if arguments[at] in {"--master", "--deploy-mode"}:
            at += 2
            continue
        kept.append(arguments[at])
        at += 1
    return kept


def swapped(arguments: list[str], names: dict[str, object]) -> list[str]:
    """The same arguments without their master, with names of this machine; each name must be there."""
    changed = "\0".join(without_master(arguments))
    for name, here in names.items():
        assert name in changed, f"{name} is not in the command any more"
        changed = changed.replace(name, str(here))
    return changed.split("\0")


def tool_folder(name: str) -> Path:
    """The folder of a tool of ``make test-servers``; where it could not be made, skip the test with the reason."""
    check_marked("deploy")
    venv = os.environ.get("PACKSTONE_SERVERS_VENV") or Path(sys.prefix).resolve().parent / ".venv-servers"
    folder = Path(venv) / name
    reason = folder / "why-not.txt"
    if reason.exists() or not folder.is_dir():
        pytest.skip(reason.read_text().strip() if reason.exists() else f"there is no {folder}; run `make test-servers`")
    return folder
