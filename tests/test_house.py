"""The house stays in order: each number here may fall and must not rise, so that every move makes the tree simpler."""

import ast
import json
import re
import subprocess
import sys
from collections import Counter, defaultdict
from pathlib import Path

import needs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from patience import patient

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "packstone"

# Ratchets: lower them with the change that lowers the number.
MODULES = 276
SINGLE_IMPORTERS = 35
NOQA = 82
HIVE_COMPACTION_MODULES = 102
COMPACT_OPTIONS = 28


@pytest.fixture(scope="module")
def modules():
    """Every module by its name, parsed; packages have only a docstring."""
    found = {}
    for path in SOURCE.rglob("*.py"):
        if path.name != "__init__.py":
            name = ".".join(path.relative_to(SOURCE.parent).with_suffix("").parts)
            found[name] = ast.parse(path.read_text())
    return found


def importers(modules):
    """Which modules import each module."""
    found = defaultdict(set)
    for name, tree in modules.items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ImportFrom) and node.module:
                for alias in node.names:
                    whole = f"{node.module}.{alias.name}"
                    found[whole if whole in modules else node.module].add(name)
            elif isinstance(node, ast.Import):
                for alias in node.names:
                    found[alias.name].add(name)
    return found


def test_modules_do_not_multiply(modules):
    """A module is an idea that somebody would look for by its name, not a helper of one other module."""
    by_module = importers(modules)
    single = [name for name in modules if len(by_module[name]) == 1]
    assert len(modules) <= MODULES
    assert len(single) <= SINGLE_IMPORTERS, sorted(single)


def test_a_public_type_name_exists_once(modules):
    """Nobody who reads a traceback or a log can tell two classes of one name apart."""
    names = Counter(node.name for tree in modules.values() for node in tree.body if isinstance(node, ast.ClassDef))
    twice = {name for name, count in names.items() if count > 1 and not name.startswith("_")}
    assert not twice


def test_rules_are_silenced_rarely():
    """A rule that is silenced again and again should leave the selection, with the reason."""
    text = "".join(path.read_text() for path in SOURCE.rglob("*.py"))
    assert text.count("# noqa") <= NOQA


def test_the_map_of_the_tree_is_the_tree():
    """CONTRIBUTING names every folder of the source, and none that does not exist; `web/` is to come."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    table = page[page.index("| Layer |") : page.index("pyspark is imported only")]
    named = set(re.findall(r"`([a-z_/]+)/`", table))
    folders = {str(path.parent.relative_to(SOURCE)) for path in SOURCE.rglob("__init__.py")} - {"."}
    assert named - {"src/packstone", "web"} == {folder for folder in folders if "migrations" not in folder}


def test_the_page_names_every_member_of_the_contract(modules):
    """Whoever adds a family finds all members of `FamilyTable` in CONTRIBUTING, and none that does not exist."""
    page = (ROOT / "CONTRIBUTING.md").read_text()
    rows = re.findall(r"^   \| [a-z ]+ \| (.*) \|$", page[page.index("| The contract requires") :], re.MULTILINE)
    named = {name for row in rows for name in re.findall(r"`([a-z_]+)`", row)}
    body = next(
        node.body for node in modules["packstone.pipeline.contract"].body if getattr(node, "name", "") == "FamilyTable"
    )
    members = {node.name for node in body if isinstance(node, ast.FunctionDef)}
    members |= {node.target.id for node in body if isinstance(node, ast.AnnAssign)}
    assert named == members


def test_a_hive_compaction_loads_few_modules(tmp_path):
    """Whoever compacts a Hive directory does not pay for the code of other families."""
    for at in range(6):
        pq.write_table(pa.table({"id": [at]}), tmp_path / f"{at}.parquet")
    program = """
import json, sys
from packstone.cli.main import run
run(["compact", sys.argv[1], "--engine", "inline", "--format", "json", "--history", f"sqlite:///{sys.argv[1]}.db"])
print(json.dumps(sorted(name for name in sys.modules if name.split(".")[0] == "packstone")))
"""
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True, check=True, timeout=patient(120)
    )
    loaded = json.loads(done.stdout.splitlines()[-1])
    assert len(loaded) <= HIVE_COMPACTION_MODULES


def read_targets():
    """The marker expression and the folder of every make target that runs tests."""
    recipes = re.findall(r"^([a-z0-9-]+):[^\n]*\n((?:\t[^\n]*\n)+)", (ROOT / "Makefile").read_text(), re.MULTILINE)
    run = re.compile(r'-m pytest\b.* -m "?([^"]+?)"? \$\(ARGS\) (tests\S*)')
    return {target: found.groups() for target, recipe in recipes if (found := run.search(recipe))}


def selects(expression, markers):
    """Whether pytest's ``-m`` with this expression takes a test with these markers."""
    names = set(re.findall(r"[a-z]\w*", expression)) - {"not", "and", "or"}
    return eval(expression, {}, {name: name in markers for name in names})  # noqa: S307 - out of our own Makefile


@pytest.fixture(scope="module")
def collected(request):
    """Every collected test of every target with its markers, also those that this run leaves out."""
    return {item.nodeid: {mark.name for mark in item.iter_markers()} for item in request.config.all_tests}


def test_every_test_is_in_one_target(collected):
    """No test falls between `make test`, `make test-servers` and `make soak`, and none is in two of them."""
    targets = {name: read_targets()[name][0] for name in ("test", "test-servers", "soak")}
    for test, markers in collected.items():
        assert len([name for name, expression in targets.items() if selects(expression, markers)]) == 1, test


def test_ci_runs_every_target():
    """CI is lint, test, test-servers and interop; all tests that are not long forms are in one of them."""
    steps = re.findall(r"^make ([a-z0-9-]+)", (ROOT / ".ci" / "run").read_text(), re.MULTILINE)
    assert steps == ["lint", "test", "test-servers", "interop"]
    assert {name: folder for name, (_, folder) in read_targets().items()} == {
        "test": "tests", "test-servers": "tests", "test-spark35": "tests", "interop": "tests/interop", "soak": "tests",
    }  # fmt: skip
    assert read_targets()["interop"][0] == "not soak"


def test_make_test_starts_no_server(collected):
    """A test with a need is not a test of `make test`, and that target sets up nothing of the servers' environment."""
    expression, _ = read_targets()["test"]
    for test, markers in collected.items():
        assert not (markers & needs.NEEDS and selects(expression, markers)), test
    (line,) = re.findall(r"^test: (.*?) ##", (ROOT / "Makefile").read_text(), re.MULTILINE)
    assert line.split() == ["install", "$(VENV)/.stamp-archive"]


def test_a_server_starts_for_marked_tests_only(request):
    """Whatever starts a server asks for the marker first; this test has none."""
    assert needs.marked(request.node) == frozenset()
    for need in needs.NEEDS:
        with pytest.raises(pytest.fail.Exception, match=f"`{need}`"):
            needs.check_marked(need)


def test_compact_has_few_options():
    """What few people need is a key of ``--set``; an option of the command line is worth a line of everybody's help."""
    from packstone.cli.commands.compact import compact

    names = [parameter.opts[0] for parameter in compact.params if parameter.opts[0].startswith("--")]
    assert len(names) <= COMPACT_OPTIONS, sorted(names)
