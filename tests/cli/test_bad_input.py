"""What bad input gets: one clear sentence, the documented exit code, and a directory as it was."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hive_run import HiveRun

from packstone.storage.local import LocalFileIO
from packstone.tables.hive.journal import Journal
from packstone.tables.hive.layout import find_layout

NOBODY = 65534


def is_one_sentence(line: str) -> bool:
    """Begins with our name, ends like a sentence, shows no Python."""
    return bool(re.match(r"packstone: \S.*[.!?]$", line)) and "Traceback" not in line and "Errno" not in line


def break_in_the_middle(path: Path) -> None:
    """Spoil some data and leave the footer whole."""
    content = bytearray(path.read_bytes())
    middle = len(content) // 2
    content[middle : middle + 200] = b"\xff" * 200
    path.write_bytes(content)


class TestWrongCalls:
    """Exit code 2: fixing the call fixes it."""

    @pytest.mark.parametrize("command", ["health", "plan", "compact", "recover", "clean"])
    def test_missing_path(self, packstone, lake, command):
        """A path that is not there is named, whatever the command."""
        done = packstone(command, lake.root / "nowhere")
        assert (done.code, done.out) == (2, "")
        assert done.sentence == f"packstone: {lake.root}/nowhere does not exist."

    def test_missing_path_as_users_type_it(self, packstone_process, lake):
        """The real command ends with the same code, and with JSON on stdout where JSON was requested."""
        done = packstone_process("compact", lake.root / "nowhere", "--format", "json")
        assert done.code == 2
        assert is_one_sentence(done.sentence)
        assert done.json["status"] == "failed"
        assert done.json["message"] in done.sentence

    @pytest.mark.parametrize("command", ["health", "plan", "compact", "recover", "clean"])
    def test_file_instead_of_folder(self, packstone, lake, tree, command):
        """A data file is not a target; the sentence says what is."""
        lake.parquet(files=6)
        before = tree(lake.root)
        done = packstone(command, lake.table / "part-00000.parquet")
        assert done.code == 2
        assert done.sentence.endswith("is a file; give the folder of a table or of a partition.")
        assert tree(lake.root) == before

    @pytest.mark.parametrize(
        ("target", "scheme"),
        [("gs://b/t", "gs"), ("abfs://b/t", "abfs")],
    )
    @pytest.mark.parametrize("command", ["health", "plan", "compact", "recover", "clean"])
    def test_unsupported_scheme_is_named(self, packstone, command, target, scheme):
        """A storage we do not speak is refused by its name, before anything is looked for."""
        done = packstone(command, target)
        assert done.code == 2
        assert done.sentence.startswith(f"packstone: {scheme}: storage is not supported")

    def test_unsupported_scheme_of_the_classic_three_arguments(self, packstone):
        """``merge gs://bucket/ /data/t 120M`` says the same."""
        done = packstone("merge", "gs://bucket/", "/data/t/dt=20190101", "120M")
        assert done.code == 2
        assert "gs: storage is not supported" in done.sentence

    def test_table_name(self, packstone):
        """``db.table`` needs a metastore, and the sentence says what to give instead."""
        done = packstone("plan", "sales.orders")
        assert done.code == 2
        assert done.sentence.endswith("give the table's folder, a new one as ./sales.orders.")

    def test_host_in_a_file_uri(self, packstone):
        """``file://data`` names a host, which nobody means."""
        done = packstone("plan", "file://data/orders")
        assert done.code == 2
        assert "three slashes" in done.sentence

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--block-size", "big"),
            ("--block-size", "0"),
            ("--block-size", "-5M"),
            ("--block-size", "12Q"),
            ("--set", "threshold=1.5"),
            ("--set", "min-files=1"),
            ("--set", "min-files=-3"),
            ("--set", "min-files=many"),
            ("--header", "-1"),
            ("--codec", "lzo"),
            ("--where", "dt <"),
            ("--where", "dt = 'a"),
            ("--where", "colour = 'red'"),
            ("--where", "length(dt) > 3"),
            ("--min-age", "soon"),
            ("--set", "min-files"),
            ("--set", "=5"),
            ("--set", "colour=red"),
            ("--set", "min-files=3", "--set", "min-files=4"),
            ("--set", "target-size=1M", "--target-size", "2M"),
            ("--set", "strategy=small-files"),
            ("--set", "accept-invalid-text=perhaps"),
            ("--min-age", "-1h"),
            ("--between", "25:00-26:00"),
            ("--between", "noon-night"),
            ("--between", "19:00-19:00"),
            ("--between", "19:00-06:00 Mars/Olympus"),
            ("--strategy", "universal"),
            ("--format", "xml"),
            ("--no-such-option",),
            ("one-more-argument",),
        ],
        ids=" ".join,
    )
    @pytest.mark.parametrize("command", ["plan", "compact"])
    def test_bad_option(self, packstone, lake, tree, command, arguments):
        """A bad value is one sentence that names it, exit code 2, and nothing is touched."""
        lake.parquet("dt=1")
        before = tree(lake.root)
        done = packstone(command, lake.table, *arguments)
        assert (done.code, done.out) == (2, "")
        assert is_one_sentence(done.sentence), done.err
        assert tree(lake.root) == before

    @pytest.mark.parametrize(
        "arguments",
        [
            ("--keep-days", "-1"),
            ("--keep-days", "nan"),
            ("--keep-days", "inf"),
            ("--max-bytes", "lots"),
            ("--max-time", "-1"),
            ("--max-time", "-1m"),
            ("--max-time", "nan"),
            ("--parallel", "0"),
            ("--verify", "hope"),
            ("--history", "not a url"),
        ],
        ids=" ".join,
    )
    def test_bad_option_of_a_run(self, packstone, lake, tree, arguments):
        """The same for what only a run takes; a history that cannot exist is noticed before the work."""
        lake.parquet("dt=1")
        before = tree(lake.root)
        done = packstone("compact", lake.table, *arguments)
        assert (done.code, done.out) == (2, "")
        assert is_one_sentence(done.sentence), done.err
        assert tree(lake.root) == before

    @pytest.mark.parametrize("key", ["min-files", "num-levels", "commit-every"])
    def test_a_key_as_an_option(self, packstone, lake, key):
        """A key of --set, of any family, that is given as an option is answered by what to write."""
        done = packstone("compact", lake.parquet(), f"--{key}", "1")
        assert (done.code, done.out) == (2, "")
        said = f"packstone: --{key} is a key of --set: give --set {key}=VALUE; see `packstone compact --help`."
        assert done.sentence == said

    def test_a_misspelt_option(self, packstone, lake):
        """The option that was meant is suggested, and the question ends with its own mark."""
        done = packstone("compact", lake.parquet(), "--target-siz", "1")
        assert (done.code, done.out) == (2, "")
        assert done.sentence.endswith("Did you mean '--target-size'? See `packstone compact --help`.")

    def test_bad_option_with_json(self, packstone, lake):
        """Whoever reads JSON gets JSON for a wrong call too."""
        lake.parquet()
        done = packstone("compact", lake.table, "--codec", "lzo", "--format", "json")
        assert done.code == 2
        assert done.json["status"] == "failed"
        assert "lzo" in done.json["message"]

    def test_unknown_command(self, packstone):
        """A command that is none is named."""
        done = packstone("compress", "/data")
        assert done.code == 2
        assert is_one_sentence(done.sentence)
        assert "compress" in done.sentence

    @pytest.mark.parametrize(
        ("words", "meant"),
        [
            (("compat",), "compact"),
            (("CMPACT", "/data"), "compact"),
            (("segment", "show"), "segments"),
            (("segments", "sho"), "show"),
        ],
    )
    def test_misspelled_command(self, packstone, words, meant):
        """A command that is spelled almost right is suggested."""
        done = packstone(*words)
        where = " ".join(("packstone", *words[: words.index("sho")])) if "sho" in words else "packstone"
        assert (done.code, done.out) == (2, "")
        assert done.sentence.endswith(f". Did you mean {meant!r}? See `{where} --help`.")

    @pytest.mark.parametrize("command", ["verify", "restore"])
    def test_unknown_run(self, packstone, lake, command):
        """A run nobody knows is exit code 2, with and without the table."""
        lake.parquet()
        extra = ("--yes",) if command == "restore" else ()
        with_table = packstone(command, "20190101T000000-abcdef", lake.table, *extra)
        assert with_table.code == 2
        assert "There is no run 20190101T000000-abcdef" in with_table.sentence
        without = packstone(command, "20190101T000000-abcdef", *extra)
        assert without.code == 2
        assert "give its table as the second argument" in without.sentence


class TestNothingToDo:
    """Exit code 0: there is nothing wrong with having nothing to merge."""

    @pytest.mark.parametrize("command", ["plan", "compact"])
    def test_empty_directory(self, packstone, lake, tree, command):
        """An empty directory has nothing to merge, and stays empty."""
        lake.folder()
        done = packstone(command, lake.table, "--format", "json")
        assert (done.code, done.json["status"], done.json["run"]) == (0, "nothing-to-do", None)
        assert done.json["message"] == "There are no data files here."
        assert tree(lake.table) == {}

    def test_empty_directory_leaves_no_folder_of_ours(self, packstone, lake):
        """A run with nothing to do leaves nothing behind, beside the table either."""
        lake.folder()
        packstone("compact", lake.table)
        assert [path.name for path in lake.root.iterdir()] == ["orders"]

    def test_health_of_an_empty_directory(self, packstone, lake):
        """Nothing is as healthy as it can be."""
        lake.folder()
        done = packstone("health", lake.table, "--format", "json")
        assert (done.code, done.json["files"], done.json["score"]) == (0, 0, 100)

    def test_recover_and_clean_of_a_table_we_never_saw(self, packstone, lake, tree):
        """Both answer 0 and write nothing."""
        lake.parquet()
        before = tree(lake.root)
        assert packstone("recover", lake.table).code == 0
        assert packstone("clean", lake.table).code == 0
        assert tree(lake.root) == before


class TestBrokenFiles:
    """A broken file is blamed and left alone; the rest is merged; the exit code says partial."""

    def check_blamed(self, packstone, lake, tree, name):
        """Compact; the broken file is as it was, the good rows are all there, once."""
        broken = tree(lake.table)[name]
        good = sorted(n for n in lake.names() if n != name)
        ids = sorted(i for n in good for i in pq.read_table(lake.table / n)["id"].to_pylist())
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "partial")
        assert tree(lake.table)[name] == broken
        (merged,) = [n for n in lake.names() if n != name]
        assert sorted(pq.read_table(lake.table / merged)["id"].to_pylist()) == ids
        (skip,) = [skip for skip in done.json["skipped"] if skip["kind"] == "unreadable"]
        assert skip["what"] == name
        return skip["why"]

    def test_truncated_parquet(self, packstone, lake, tree):
        """The first half of a Parquet file has no footer."""
        lake.parquet(files=8)
        victim = lake.table / "part-00003.parquet"
        victim.write_bytes(victim.read_bytes()[:400])
        assert "footer" in self.check_blamed(packstone, lake, tree, victim.name)

    def test_nothing_but_broken_files(self, packstone, lake, tree):
        """Where only broken files are left, the answer is failed, not that there is nothing to do."""
        for path in lake.parquet("dt=1").iterdir():
            path.write_bytes(path.read_bytes()[:-20])
        before = tree(lake.table)
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "failed")
        assert "cannot be read" in done.json["message"]
        assert tree(lake.table) == before

    def test_truncated_to_the_magic(self, packstone, lake, tree):
        """Four bytes of magic are not a file either."""
        lake.parquet(files=8)
        (lake.table / "part-00003.parquet").write_bytes(b"PAR1")
        self.check_blamed(packstone, lake, tree, "part-00003.parquet")

    def test_text_called_parquet(self, packstone, lake, tree):
        """A name that lies is reported, and the file is not merged as what it is either."""
        lake.parquet(files=8)
        (lake.table / "part-00003.parquet").write_bytes(b"id,name\n1,a\n")
        why = self.check_blamed(packstone, lake, tree, "part-00003.parquet")
        assert why == "its name says parquet but its content is text"

    def test_parquet_called_csv(self, packstone, lake, tree):
        """Nor is a Parquet file called .csv joined to Parquet files or to text."""
        lake.parquet(files=8)
        (lake.table / "part-00003.parquet").rename(lake.table / "part-00003.csv")
        before = tree(lake.table)["part-00003.csv"]
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "partial")
        assert done.skipped("part-00003.csv") == "its name says text but its content is parquet"
        assert tree(lake.table)["part-00003.csv"] == before

    def test_empty_file(self, packstone, lake, tree):
        """A file of 0 bytes may be open for writing: it stays, and that alone is not a failure."""
        lake.parquet(files=8)
        (lake.table / "part-00003.parquet").write_bytes(b"")
        before = tree(lake.table)["part-00003.parquet"]
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "committed")
        assert done.skipped("part-00003.parquet") == "0 bytes: empty, or open for writing"
        assert tree(lake.table)["part-00003.parquet"] == before

    def test_broken_data_page_with_a_good_footer(self, packstone, lake, tree):
        """Bytes broken in the middle show only when they are read; the file is blamed by name."""
        lake.parquet(files=8, rows=3000)
        victim = lake.table / "part-00003.parquet"
        break_in_the_middle(victim)
        assert pq.ParquetFile(victim).metadata.num_rows == 3000
        assert victim.name in self.check_blamed(packstone, lake, tree, victim.name)

    def test_two_broken_files_in_one_unit(self, packstone, lake):
        """Files are ruled out one by one until the rest can be merged."""
        lake.parquet(files=9, rows=3000)
        for name in ("part-00002.parquet", "part-00006.parquet"):
            break_in_the_middle(lake.table / name)
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "partial")
        assert len(done.json["units"]) == 1
        assert len(done.json["units"][0]["inputs"]) == 7
        blamed = sorted(skip["what"] for skip in done.json["skipped"] if skip["kind"] == "unreadable")
        assert blamed == ["part-00002.parquet", "part-00006.parquet"]

    def test_nul_bytes_deep_in_a_text_file(self, packstone, lake, tree):
        """What turns out to be binary while it is read is blamed like a broken page."""
        lines = b"a line of text\n" * 10_000
        lake.text("", {f"log-{at}.txt": lines for at in range(7)})
        (lake.table / "log-3.txt").write_bytes(lines + b"\0binary" + lines)
        before = tree(lake.table)["log-3.txt"]
        done = packstone("compact", lake.table, "--header", "0", "--format", "json")
        assert (done.code, done.json["status"]) == (1, "partial")
        assert "NUL bytes" in done.skipped("log-3.txt")
        assert tree(lake.table)["log-3.txt"] == before

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
    def test_unreadable_file(self, quiet_env, lake, tree, tmp_path):
        """A file we may not open is blamed; what we may is merged. Run as a user for whom modes count."""
        lake.parquet("warm")
        lake.parquet("real", files=8)
        victim = sorted((lake.table / "real").iterdir())[3]
        for path in (tmp_path, lake.root, lake.table, *lake.table.rglob("*")):
            os.chown(path, NOBODY, NOBODY)
        victim.chmod(0)
        # The interpreter may lie where nobody else can read, so all is imported before we give up our rights.
        program = (
            "import os, sys\n"
            "from packstone.cli.main import run\n"
            "os.umask(0)\n"
            "sys.stdout = open(os.devnull, 'w')\n"
            "run(['compact', sys.argv[1] + '/warm', '--format', 'json'])\n"
            "sys.stdout = sys.__stdout__\n"
            "os.chmod(sys.argv[2], 0o666); os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "sys.exit(run(['compact', sys.argv[1] + '/real', '--format', 'json']))\n"
        )
        before = tree(lake.table)[f"real/{victim.name}"]
        parents = [path for path in tmp_path.parents if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001]
        for path in parents:
            path.chmod(path.stat().st_mode | 0o111)
        process = subprocess.run(
            [sys.executable, "-c", program, str(lake.table), str(tmp_path / "history.db")],
            env=quiet_env,
            capture_output=True,
            check=False,
        )
        outcome = json.loads(process.stdout)
        assert (process.returncode, outcome["status"]) == (1, "partial"), process.stderr.decode()
        (skip,) = outcome["skipped"]
        assert (skip["what"], skip["kind"]) == (victim.name, "unreadable")
        assert skip["why"] == "it cannot be read: permission denied"
        assert tree(lake.table)[f"real/{victim.name}"] == before
        assert len(lake.names("real")) == 2

    @pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody else")
    @pytest.mark.parametrize("mode", [0o700, 0o711], ids=oct)
    def test_folder_that_cannot_be_listed(self, quiet_env, lake, tmp_path, mode):
        """The sentence names the table's folder, and not a file in it that may not exist; no command guesses."""
        lake.parquet("warm")
        lake.parquet("real").chmod(mode)
        program = (
            "import os, sys\n"
            "from packstone.cli.main import run\n"
            "commands = ['health'], ['plan'], ['check'], ['clean'], ['segments', 'show']\n"
            "for command in commands:\n"
            "    run([*command, sys.argv[1] + '/warm'])\n"
            "sys.stderr.write('as nobody\\n')\n"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534)\n"
            "for command in commands:\n"
            "    assert run([*command, sys.argv[1] + '/real']) == 1\n"
        )
        parents = [path for path in tmp_path.parents if path.stat().st_uid == 0 and not path.stat().st_mode & 0o001]
        for path in (*parents, tmp_path):
            path.chmod(path.stat().st_mode | 0o111)
        command = [sys.executable, "-c", program, str(lake.table)]
        process = subprocess.run(command, env=quiet_env, capture_output=True, text=True, check=False)
        sentence = f"packstone: {lake.table}/real cannot be listed: permission denied.\n"
        assert (process.returncode, process.stderr.partition("as nobody\n")[2]) == (0, sentence * 5)

    def test_incompatible_types_of_a_column(self, packstone, lake):
        """Two schemas are two groups, never reconciled; ``health`` warns."""
        folder = lake.folder()
        for at in range(6):
            pq.write_table(pa.table({"id": pa.array([at], pa.int64())}), folder / f"a-{at}.parquet")
            pq.write_table(pa.table({"id": pa.array([str(at)])}), folder / f"b-{at}.parquet")
        health = packstone("health", lake.table, "--format", "json").json
        (warning,) = [hazard for hazard in health["hazards"] if hazard["hazard"] == "mixed-files"]
        assert "2 groups" in warning["evidence"]
        done = packstone("compact", lake.table, "--format", "json")
        assert (done.code, done.json["files_after"]) == (0, 2)
        types = {str(pq.read_schema(path).field("id").type) for path in folder.iterdir()}
        assert types == {"int64", "string"}


class TestInMotion:
    """Exit code 3: somebody else is at work; nothing was changed."""

    @pytest.mark.parametrize(
        "sign",
        [
            "_temporary/0/_temporary/attempt_1/part-0.parquet",
            ".hive-staging_hive_2019-07-01/-ext-10000/part-0",
            "_impala_insert_staging/x/part-0",
            ".spark-staging-7/part-0",
            ".part-0-0.inprogress.7d3f",
            "part-9.inprogress",
            "part-9.parquet._COPYING_",
            "part-9.tmp",
        ],
    )
    @pytest.mark.parametrize("command", ["plan", "compact"])
    def test_fresh_sign_of_a_writer(self, packstone, lake, tree, command, sign):
        """A writer's fresh file or folder refuses the partition, and is named."""
        folder = lake.parquet("dt=1")
        (folder / sign).parent.mkdir(parents=True, exist_ok=True)
        (folder / sign).write_bytes(b"x")
        before = tree(lake.table)
        done = packstone(command, folder, "--format", "json")
        assert (done.code, done.json["status"]) == (3, "refused")
        assert sign.split("/")[0] in done.skipped("dt=1")
        assert tree(lake.table) == before

    def test_sign_in_the_table_root(self, packstone, lake, tree):
        """A Spark job that fills a partition keeps its ``_temporary`` in the table's root."""
        folder = lake.parquet("dt=1")
        (lake.table / "_temporary" / "0").mkdir(parents=True)
        before = tree(lake.table)
        assert packstone("compact", folder).code == 3
        assert packstone("compact", lake.table).code == 3
        assert tree(lake.table) == before

    def test_old_sign_is_a_left_over(self, packstone, lake):
        """What nobody touched for days stops nobody."""
        folder = lake.parquet("dt=1")
        (folder / "_temporary" / "0").mkdir(parents=True)
        (folder / "part-9.inprogress").write_bytes(b"x")
        long_ago = time.time() - 3 * 86_400
        for path in (folder / "part-9.inprogress", folder / "_temporary" / "0", folder / "_temporary"):
            os.utime(path, (long_ago, long_ago))
        done = packstone("compact", folder, "--format", "json")
        assert (done.code, done.json["files_after"]) == (0, 1)
        assert (folder / "part-9.inprogress").read_bytes() == b"x"

    def test_one_partition_in_motion_stops_only_itself(self, packstone, lake, tree):
        """The others are merged; the one in motion is refused and named."""
        lake.parquet("dt=1")
        moving = lake.parquet("dt=2")
        (moving / "part-9.inprogress").write_bytes(b"x")
        before = tree(moving)
        done = packstone("compact", lake.table, "--format", "json")
        assert [unit["part"] for unit in done.json["units"]] == ["dt=1"]
        assert "part-9.inprogress" in done.skipped("dt=2")
        assert tree(moving) == before

    def test_a_second_packstone_on_the_partition(self, packstone, packstone_process, lake, tree):
        """A partition with a living owner is left alone, and the owner is named."""
        folder = lake.parquet("dt=1")
        before = tree(lake.table)
        io = LocalFileIO()
        layout, partition = find_layout(io, os.path.realpath(folder))
        with HiveRun(Journal(io=io, layout=layout), command="compact") as other:
            other.claim(partition)
            done = packstone_process("compact", folder, "--format", "json")
            assert (done.code, done.json["status"]) == (3, "conflict")
            assert done.skipped("dt=1").startswith(f"owned by run {other.id} (process {os.getpid()} on ")
            assert tree(lake.table) == before
        assert packstone("compact", folder).code == 0

    def test_the_owner_was_killed(self, packstone, lake):
        """An owner on this host whose process is gone is taken over at once."""
        folder = lake.parquet("dt=1")
        program = (
            "import os, signal, sys\n"
            "from hive_run import HiveRun\n"
            "from packstone.storage.local import LocalFileIO\n"
            "from packstone.tables.hive.journal import Journal\n"
            "from packstone.tables.hive.layout import find_layout\n"
            "layout, partition = find_layout(LocalFileIO(), sys.argv[1])\n"
            "session = HiveRun(Journal(io=LocalFileIO(), layout=layout), command='compact').__enter__()\n"
            "session.claim(partition)\n"
            "os.kill(os.getpid(), signal.SIGKILL)\n"
        )
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
        words = [sys.executable, "-c", program, os.path.realpath(folder)]
        killed = subprocess.run(words, env=environment, check=False)
        assert killed.returncode == -signal.SIGKILL
        done = packstone("compact", folder, "--format", "json")
        assert (done.code, done.json["status"]) == (0, "committed")

    def test_an_owner_on_another_host(self, packstone, lake, tree):
        """Its lease counts, not a process number that means nothing here; --take-over overrides."""
        folder = lake.parquet("dt=1")
        before = tree(lake.table)
        owners = lake.root / ".packstone" / "orders" / "owners" / "dt=1"
        runs = lake.root / ".packstone" / "orders" / "runs" / "20190101T000000-abcdef"
        owners.mkdir(parents=True)
        runs.mkdir(parents=True)
        process = {"host": "elsewhere", "boot_id": "b", "pid": os.getpid(), "started_ticks": 1}
        owner = {"format_version": 1, "run": runs.name, "process": process, "heartbeat_path": f"{runs}/heartbeat"}
        (owners / "000001.json").write_text(json.dumps(owner))
        (runs / "heartbeat").touch()
        done = packstone("compact", folder, "--format", "json")
        assert (done.code, done.json["status"]) == (3, "conflict")
        assert "elsewhere" in done.skipped("dt=1")
        assert tree(lake.table) == before
        assert packstone("compact", folder, "--take-over").code == 0


class TestNewerRecords:
    """A record in a format we do not know is not half understood."""

    def committed(self, packstone, lake) -> tuple[str, Path]:
        """A run, and the folder of its journal."""
        lake.parquet("dt=1")
        run = packstone("compact", lake.table, "--format", "json").json["run"]
        return run, lake.root / ".packstone" / "orders" / "runs" / run

    @pytest.mark.parametrize(
        ("command", "extra"), [("restore", ("--yes",)), ("verify", ()), ("compact", ()), ("clean", ("--yes",))]
    )
    def test_newer_intent(self, packstone, lake, tree, command, extra):
        """Every command that reads the journal refuses it by path and says: upgrade."""
        run, folder = self.committed(packstone, lake)
        lake.parquet("dt=1")
        (intent,) = folder.glob("*.intent.json")
        plain = json.loads(intent.read_bytes())
        intent.write_text(json.dumps({**plain, "format_version": 3}))
        before = tree(lake.table)
        target = (run, lake.table) if command in ("restore", "verify") else (lake.table,)
        done = packstone(command, *target, *extra)
        assert done.code == 3
        assert done.sentence.endswith("was written by a newer packstone (format 3); upgrade packstone.")
        assert tree(lake.table) == before

    def test_newer_owner(self, packstone, lake, tree):
        """An owner file of a newer packstone is an owner."""
        self.committed(packstone, lake)
        lake.parquet("dt=1")
        (owner,) = (lake.root / ".packstone" / "orders" / "owners" / "dt=1").iterdir()
        plain = json.loads(owner.read_bytes())
        owner.write_text(json.dumps({**plain, "format_version": 3}))
        before = tree(lake.table)
        done = packstone("compact", lake.table)
        assert done.code == 3
        assert "upgrade packstone" in done.err
        assert tree(lake.table) == before

    @pytest.mark.parametrize("content", ["{torn", "[]", '{"format_version": "two"}', '{"format_version": 1}', ""])
    def test_record_that_is_not_a_record(self, packstone, lake, tree, content):
        """A damaged record stops the command with its path: acting without it could lose rows."""
        run, folder = self.committed(packstone, lake)
        (intent,) = folder.glob("*.intent.json")
        intent.write_text(content)
        before = tree(lake.table)
        done = packstone("restore", run, lake.table, "--yes")
        assert done.code == 1
        assert str(intent) in done.sentence
        assert is_one_sentence(done.sentence)
        assert tree(lake.table) == before


def mount(folder: Path, size: str) -> bool:
    """Mount a file system of a few kilobytes; False where one may not."""
    folder.mkdir(parents=True, exist_ok=True)
    if os.geteuid() != 0 or shutil.which("mount") is None:
        return False
    command = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=755", "tmpfs", str(folder)]
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


@pytest.fixture
def small_disk(tmp_path):
    """A lake on a file system that is soon full."""
    folder = tmp_path / "small"
    if not mount(folder, "3m"):
        pytest.skip("a small file system can be mounted by root only, and only where mounts are allowed")
    yield folder
    subprocess.run(["umount", "-l", str(folder)], check=True)


class TestFullDisk:
    """No room is reported before staging where it can be known, and undone where it cannot."""

    def fill(self, disk: Path, leave: int) -> None:
        """Leave only this many bytes free."""
        free = shutil.disk_usage(disk).free
        (disk / "ballast").write_bytes(b"x" * max(0, free - leave))

    def table(self, disk: Path) -> Path:
        """A table of about 700 kB that does not get smaller when it is merged."""
        folder = disk / "orders"
        folder.mkdir()
        for at in range(8):
            values = [f"{at}-{n}-{n * 7919 % 104729}" for n in range(5000)]
            pq.write_table(pa.table({"v": values}), folder / f"p{at}.parquet", compression="none")
        return folder

    def test_refused_before_anything_is_staged(self, packstone, small_disk, tree):
        """Staging needs as much as is read; if that is not free, the partition is refused with both numbers."""
        folder = self.table(small_disk)
        self.fill(small_disk, 300_000)
        before = tree(folder)
        done = packstone("compact", folder, "--format", "json")
        assert (done.code, done.json["status"]) == (3, "refused")
        assert re.search(r"its merged files need .* and .* are free", done.skipped("orders"))
        assert tree(folder) == before

    def test_disk_fills_up_while_writing(self, packstone, small_disk, tree, monkeypatch):
        """A real ENOSPC in the middle of a merge: failed, nothing published, staging gone."""
        folder = self.table(small_disk)
        self.fill(small_disk, 300_000)
        before = tree(folder)
        # Somebody else takes the room between the check and the writing.
        monkeypatch.setattr(LocalFileIO, "free_bytes", lambda self, path: 1 << 40)
        done = packstone("compact", folder, "--format", "json")
        assert (done.code, done.json["status"]) == (1, "failed")
        assert "No space left" in done.skipped("orders")
        assert tree(folder) == before
        assert not (small_disk / ".packstone" / "orders" / "staging").exists()

    @pytest.mark.parametrize("leave", [0, 4096, 12_288, 24_576])
    def test_no_room_for_the_journal(self, packstone, small_disk, tree, monkeypatch, leave):
        """Not even a record fits, at whichever step: one sentence, exit code 1, the table as it was."""
        folder = self.table(small_disk)
        self.fill(small_disk, leave)
        before = tree(folder)
        monkeypatch.setattr(LocalFileIO, "free_bytes", lambda self, path: 1 << 40)
        done = packstone("compact", folder)
        assert done.code == 1
        told = done.err + done.out
        assert "o space left" in told, told
        assert "Unexpected" not in told
        assert tree(folder) == before
        (small_disk / "ballast").unlink()
        assert packstone("compact", folder).code == 0


@pytest.mark.parametrize("option", ["--between", "--max-time", "--max-bytes", "--min-age", "--engine"])
def test_an_empty_value_is_a_mistake(lake, packstone, option):
    """`--between "$WINDOW"` with a variable that is not set must not work at any hour."""
    lake.parquet("dt=1", files=6)
    done = packstone("compact", lake.table, option, "")
    assert (done.code, len(lake.names("dt=1"))) == (2, 6), done
