"""A bundle: Python, its standard library, Packstone and its packages in one archive, for nodes that have none of them.

YARN unpacks it into every container (``--archives FILE#env``), and ``./env/bin/python`` runs there under any user. A
virtual environment cannot do that: its ``bin/python`` is a link to an interpreter that the nodes do not have.

The packages are copied from the running environment, by the file lists of their installer (``RECORD``). So making a
bundle needs no network, and executors run exactly the versions that the driver runs. PySpark is left out, because Spark
ships its own. Nodes need the same processor architecture, and a C library at least as new as that of this machine.
"""

from __future__ import annotations

import gzip
import importlib.metadata
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packstone.errors import InvalidInputError, UnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from importlib.metadata import Distribution

# The optional extras of a driver or an executor, each with the module that shows whether it is installed.
EXTRAS: Final = {"hdfs": "hdfs_native", "s3": "obstore", "mysql": "pymysql", "postgres": "psycopg"}
_ALWAYS: Final = "spark"  # pandas: PySpark refuses mapInArrow without it
_MODULES: Final = (
    *("ssl", "sqlite3", "lzma", "ctypes", "numpy", "pandas", "pyarrow.parquet", "pyarrow.compute", "fastavro"),
    *(
        "packstone.cli.commands.compact",
        "packstone.tables.hive.table",
        "packstone.pipeline.open",
        "packstone.history.store",
    ),
)
_OURS: Final = "packstone"
_FROM_SPARK: Final = frozenset({"pyspark", "py4j"})
_REQUIREMENT: Final = re.compile(r"\s*([A-Za-z0-9][\w.-]*)\s*(?:\[([^\]]*)\])?[^;]*(?:;(.*))?", re.DOTALL)
_EXTRA: Final = re.compile(r"extra\s*==\s*['\"]([^'\"]+)['\"]")
_EDITABLE: Final = re.compile(r'"editable":\s*true')
# Parts of the standard library, of packages, and kinds of files that no job uses.
_NO_STDLIB: Final = frozenset({"test", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3"})
_NO_FOLDERS: Final = frozenset({"__pycache__", "tests", "site-packages", "dist-packages"})
_NO_ENDINGS: Final = (".a", ".h", ".hpp", ".pth", ".pxd", ".pyc", ".pyx")
# Compiled modules for terminals and tests, or that need the libraries of X11 and NIS.
_NO_MODULES: Final = re.compile(r"_tkinter|nis|_?curses|_curses_panel|readline|_test|_?g?dbm|ossaudiodev|xxlimited")
# Libraries to take from the node: the C library and compiler runtimes must match its loader and kernel, Kerberos its
# configuration.
_OF_THE_NODE: Final = re.compile(
    r"linux-vdso|ld-(linux|musl)|lib(c|m|dl|rt|pthread|util|resolv|nsl|anl|mvec|gcc_s|stdc\+\+)\."
    r"|lib(gssapi_krb5|krb5|krb5support|k5crypto|com_err|keyutils)\."
)
_FOUND_LIBRARY: Final = re.compile(r"(\S+) => (/\S+) \(")
_ENDINGS: Final = (".tar.gz", ".tgz")  # YARN detects archives by their name
_SAME_TIME: Final = 315532800  # 1980: the same files make the same archive, whenever it is made
_COMPRESSION: Final = 6
_TRY_SECONDS: Final = 300
_LAUNCHER: Final = """#!/bin/sh
# The interpreter looks for its libraries where it was built, so this sets where they are now.
here=$(dirname "$(dirname "$(readlink -f "$0")")")
LD_LIBRARY_PATH="$here/lib${{LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}}" exec "$here/bin/{python}" {arguments}"$@"
"""
_COMMAND: Final = "-c 'from packstone.cli.main import main; main()' "
_TRIAL: Final = """
import os, py_compile, sys, {modules}
files = {{getattr(module, "__file__", None) or sys.prefix for module in sys.modules.values()}}
outside = [file for file in (sys.prefix, *files) if not file.startswith({tree!r})]
if outside:
    sys.exit(f"{{outside[0]}} is outside the bundle")
for file in files:
    if file.endswith(".py"):
        # Valid without checking the source, and without the path of this folder: unpacking changes both.
        never = py_compile.PycInvalidationMode.UNCHECKED_HASH
        py_compile.compile(file, dfile=os.path.relpath(file, sys.prefix), doraise=True, invalidation_mode=never)
"""
_JOB_NAME: Final = "packstone_merge.py"
_JOB: Final = '''\
"""The classic job: ``spark-submit packstone_merge.py FS PARTITION BLOCKSIZE``; options of ``packstone merge``."""

import sys

from packstone.cli.main import run

if __name__ == "__main__":
    sys.exit(run(["merge", *sys.argv[1:]]))
'''
_EXAMPLE: Final = "hdfs://nameservice1/ /data/orders/dt=20190101 120M"


@dataclass(frozen=True, slots=True, kw_only=True)
class Bundle:
    """A bundle that was written, and the job for ``spark-submit`` beside it."""

    path: str
    job: str
    size_bytes: int
    python: str
    platform: str
    packages: tuple[tuple[str, str], ...]

    def submit_lines(self, mode: str) -> tuple[str, ...]:
        """The ``spark-submit`` command of client or cluster mode, split where a shell script breaks its lines."""
        driver = {
            "client": (f"--conf spark.pyspark.driver.python={shlex.quote(sys.executable)}",),
            "cluster": (
                "--conf spark.yarn.maxAppAttempts=1",
                "--conf spark.yarn.appMasterEnv.HADOOP_CONF_DIR=./__spark_conf__/__hadoop_conf__",
            ),
        }
        conf = shlex.quote(os.environ.get("HADOOP_CONF_DIR", "/etc/hadoop/conf"))
        return (
            f"HADOOP_CONF_DIR={conf} {_find_submit()} --master yarn --deploy-mode {mode}",
            f"--archives {shlex.quote(self.path)}#env",
            *driver[mode],
            "--conf spark.pyspark.python=./env/bin/python",
            "--conf spark.executor.memoryOverhead=1g",
            "--conf spark.ui.enabled=false",
            f"{shlex.quote(self.job)} {_EXAMPLE}",
        )

    def to_json(self) -> dict[str, Any]:
        """The keys of ``packstone bundle --format json``."""
        return {
            "format_version": 1,
            "status": "written",
            "file": self.path,
            "bytes": self.size_bytes,
            "job": self.job,
            "python": self.python,
            "platform": self.platform,
            "packages": dict(self.packages),
            "submit": {mode: " ".join(self.submit_lines(mode)) for mode in ("client", "cluster")},
        }


def write_bundle(target: Path, *, extras: Sequence[str] = ()) -> Bundle:
    """Write a bundle and the job beside it; the archive is tested first, and gets its name only when it is complete."""
    _check_target(target)
    extras = tuple(extras) or tuple(extra for extra, module in EXTRAS.items() if importlib.util.find_spec(module))
    chosen = find_distributions(extras)
    with tempfile.TemporaryDirectory(prefix=".packstone-bundle-", dir=target.parent) as work:
        tree, packed = Path(work) / "env", Path(work) / "packed"
        packages = _copy_interpreter(tree)
        for distribution in chosen:
            _copy_distribution(distribution, packages)
        _try_out(tree, (*_MODULES, *(EXTRAS[extra] for extra in extras)))
        _pack(tree, packed)
        packed.replace(target)
    job = target.with_name(_JOB_NAME)
    job.write_text(_JOB)
    return Bundle(
        path=str(target),
        job=str(job),
        size_bytes=target.stat().st_size,
        python=".".join(map(str, sys.version_info[:3])),
        platform=sysconfig.get_platform(),
        packages=tuple((distribution.name, distribution.version) for distribution in chosen),
    )


def find_distributions(extras: Sequence[str]) -> tuple[Distribution, ...]:
    """Find Packstone and its installed dependencies with these extras, sorted by name.

    Conditions such as ``python_version < "3.13"`` are not evaluated: the installer did that, so a package that it left
    out is not needed.
    """
    found: dict[str, Distribution] = {}
    done: set[tuple[str, tuple[str, ...]]] = set()
    wanted = [(_OURS, (_ALWAYS, *extras))]
    while wanted:
        name, chosen = wanted.pop()
        if (name, chosen) not in done:
            done.add((name, chosen))
            found[name] = importlib.metadata.distribution(name) if name != _OURS else _own_distribution()
            wanted += _needs(found[name], chosen)
    return tuple(found[name] for name in sorted(found))


def _own_distribution() -> Distribution:
    try:
        return importlib.metadata.distribution(_OURS)
    except importlib.metadata.PackageNotFoundError:
        raise UnavailableError(
            "Packstone is not installed in this Python, so its dependencies are not known; install it with pip, from a "
            "checkout: pip install CHECKOUT."
        ) from None


def _needs(distribution: Distribution, extras: Sequence[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Yield the installed packages that a package needs, each with its extras."""
    for text in distribution.requires or ():
        match = _REQUIREMENT.match(text)
        name, with_extras, condition = match.groups(default="") if match else ("", "", "")
        of_extra, name = _EXTRA.search(condition), _normal(name)
        if (of_extra is not None and of_extra.group(1) not in extras) or name in _FROM_SPARK:
            continue
        if _is_installed(name):
            yield name, tuple(sorted(extra.strip() for extra in with_extras.split(",") if extra.strip()))
        elif not _EXTRA.sub("", condition).strip(" ()"):
            raise InvalidInputError(
                f"{distribution.name} needs {name}, which is not installed here; install it with: pip install {name}",
                package=name,
            )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _is_installed(name: str) -> bool:
    try:
        importlib.metadata.distribution(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


def _check_target(target: Path) -> None:
    if sys.platform != "linux":
        raise InvalidInputError("A bundle is for Linux nodes; make it on a Linux machine like them.")
    if not target.name.endswith(_ENDINGS):
        raise InvalidInputError(f"{target} must end with {' or '.join(_ENDINGS)}: YARN unpacks archives by name.")
    if not target.parent.is_dir():
        raise InvalidInputError(f"There is no folder {target.parent}; make it, or name another file.")
    if target.is_dir():
        raise InvalidInputError(f"{target} is a folder; name a file.")


def _copy_interpreter(tree: Path) -> Path:
    """Copy Python, its standard library and the shared libraries of both; return the folder for packages."""
    stdlib = Path(sysconfig.get_path("stdlib"))
    inside = tree / sys.platlibdir / stdlib.name
    for source in _files_below(stdlib):
        if _is_useful(source):
            _copy(stdlib / source, inside / source)
    python = Path(getattr(sys, "_base_executable", "") or sys.executable).resolve()
    _copy(python, tree / "bin" / stdlib.name)
    for name, library in _find_libraries((python, *inside.glob("lib-dynload/*.so"))):
        _copy(library, tree / "lib" / name)
    for name, arguments in (("python", ""), ("python3", ""), (_OURS, _COMMAND)):
        launcher = tree / "bin" / name
        launcher.write_text(_LAUNCHER.format(python=stdlib.name, arguments=arguments))
        launcher.chmod(0o755)
    # Debian's Python looks for packages in `dist-packages`, every other one in `site-packages`.
    return inside / ("dist-packages" if "deb_system" in sysconfig.get_scheme_names() else "site-packages")


def _is_useful(inside: Path) -> bool:
    """Whether a file of the standard library can be needed by a job."""
    if inside.parts[0].startswith("config-") or _NO_STDLIB.intersection(inside.parts):
        return False
    return inside.parts[0] != "lib-dynload" or not _NO_MODULES.match(inside.name)


def _files_below(folder: Path) -> Iterator[Path]:
    for path in sorted(folder.rglob("*")):
        inside = path.relative_to(folder)
        if path.is_file() and _is_wanted(inside):
            yield inside


def _is_wanted(inside: Path) -> bool:
    return not _NO_FOLDERS.intersection(inside.parts) and not inside.name.endswith(_NO_ENDINGS)


def _find_libraries(programs: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    """Yield the shared libraries that programs load, except those that every node has."""
    try:
        done = subprocess.run(  # noqa: S603 - a program of the system
            ["ldd", *map(str, programs)],  # noqa: S607 - its path depends on the system
            capture_output=True,
            text=True,
            check=False,
            timeout=_TRY_SECONDS,
        )
    except FileNotFoundError:
        raise UnavailableError("`ldd` is missing, which names the libraries of Python; install libc-bin.") from None
    found = dict(_FOUND_LIBRARY.findall(done.stdout))
    yield from ((name, Path(path)) for name, path in sorted(found.items()) if not _OF_THE_NODE.match(name))


def _copy_distribution(distribution: Distribution, packages: Path) -> None:
    if distribution.name == _OURS:  # an editable install has no list of its files
        _copy_ours(distribution, packages)
        return
    if distribution.files is None or _EDITABLE.search(distribution.read_text("direct_url.json") or ""):
        raise UnavailableError(
            f"{distribution.name} is an editable install, or has no list of its files; install a copy with: "
            f"pip install --force-reinstall {distribution.name}=={distribution.version}",
            package=distribution.name,
        )
    for file in distribution.files:
        source = Path(str(distribution.locate_file(file)))
        if ".." not in file.parts and _is_wanted(Path(file)) and source.is_file():  # scripts are outside the packages
            _copy(source, packages / file)


def _copy_ours(distribution: Distribution, packages: Path) -> None:
    for name in (_OURS, "pyspark_packstone"):
        found = importlib.util.find_spec(name)
        if found is None or found.origin is None or not Path(found.origin).is_file():
            raise UnavailableError("This Packstone runs from an archive; make a bundle where it is installed.")
        origin = Path(found.origin)
        for file in _files_below(origin.parent) if found.submodule_search_locations else (Path(origin.name),):
            _copy(origin.parent / file, packages / (name if found.submodule_search_locations else "") / file)
    described = packages / f"{_OURS}-{distribution.version}.dist-info"
    described.mkdir()
    for name in ("METADATA", "entry_points.txt"):
        (described / name).write_text(distribution.read_text(name) or "")


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(source, target)


def _try_out(tree: Path, modules: Sequence[str]) -> None:
    """Test the copy without any variable of this environment; no module may come from outside it.

    The imported modules are compiled at the same time. Containers often may not write beside the modules, and would
    compile them every time.
    """
    program = _TRIAL.format(modules=", ".join(modules), tree=str(tree))
    command = [str(tree / "bin" / "python"), "-B", "-c", program]
    done = subprocess.run(  # noqa: S603 - what we have just made
        command, env={"PATH": os.defpath}, cwd="/", capture_output=True, text=True, check=False, timeout=_TRY_SECONDS
    )
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise UnavailableError(f"The bundle does not work and was not written: {last}")


def _pack(tree: Path, target: Path) -> None:
    """Pack a folder, readable by every user, so that the same files make the same bytes."""

    def plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
        entry.uid = entry.gid = 0
        entry.uname = entry.gname = ""
        entry.mtime = _SAME_TIME
        entry.mode = 0o755 if entry.isdir() or entry.mode & 0o100 else 0o644
        return entry

    with (
        target.open("wb") as file,
        gzip.GzipFile("", "wb", _COMPRESSION, file, mtime=0) as zipped,
        tarfile.open(fileobj=zipped, mode="w") as archive,
    ):
        for path in sorted(tree.iterdir()):
            archive.add(path, path.name, filter=plain)


def _find_submit() -> str:
    """Return ``spark-submit`` of SPARK_HOME, else of the PySpark that is installed here, else by its name alone."""
    home = os.environ.get("SPARK_HOME")
    if not home:
        found = importlib.util.find_spec("pyspark")
        home = str(Path(found.origin).parent) if found is not None and found.origin else ""
    return shlex.quote(f"{home}/bin/spark-submit") if home else "spark-submit"
