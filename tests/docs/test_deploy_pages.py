"""The instructions in deploy/ name what exists; tests/spark/cluster runs their commands."""

import re
import shlex
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import click
import pyspark
import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # tests are imported by path, not as packages

from deploy_pages import DEPLOY, cronjob_arguments, manifests, submits, tool_folder
from patience import patient

from packstone.cli.main import cli

ROOT = DEPLOY.parent
JARS = Path(pyspark.__file__).parent / "jars"
COMMANDS = {
    "standalone": submits("standalone/README.md")[0],
    "yarn client": submits("yarn/README.md")[0],
    "yarn cluster": submits("yarn/README.md")[1],
    "kubernetes": submits("kubernetes/README.md")[0],
    "cronjob": cronjob_arguments(),
}
OF_PROCESSES = ("spark.executorEnv.", "spark.yarn.appMasterEnv.")  # what follows is the name of a variable


def strings_of(jar, pattern):
    """The classes of one of Spark's jars as bytes, which contain the names unchanged."""
    (path,) = JARS.glob(f"spark-{jar}_*.jar")
    with zipfile.ZipFile(path) as archive:
        return b"".join(archive.read(name) for name in archive.namelist() if re.search(pattern, name))


@pytest.fixture(scope="module")
def known_settings():
    """Where Spark defines its settings."""
    return b"".join(strings_of(jar, r"config|Config|package|Constants") for jar in ("core", "kubernetes", "yarn"))


@pytest.fixture(scope="module")
def known_options():
    """Where Spark defines the options of ``spark-submit``."""
    return strings_of("launcher", "SparkSubmitOptionParser")


def split_at_job(arguments):
    """What is for ``spark-submit``, and what is for our job."""
    at = next(at for at, argument in enumerate(arguments) if argument.endswith("packstone_merge.py"))
    return arguments[:at], arguments[at + 1 :]


@pytest.mark.parametrize("where", COMMANDS)
def test_options_and_settings_exist(where, known_settings, known_options):
    """Every option is one of spark-submit, every setting one that Spark reads."""
    theirs, _ = split_at_job(COMMANDS[where])
    for argument in theirs:
        if argument.startswith("--"):
            assert argument.encode() in known_options, argument
    for name in (argument.partition("=")[0] for argument in theirs if argument.startswith("spark.")):
        if not name.startswith(OF_PROCESSES):
            front, _, end = name.rpartition(".")  # Spark puts some names together from two parts
            parts = front.encode() in known_settings and f".{end}".encode() in known_settings
            assert name.encode() in known_settings or parts, name


@pytest.mark.parametrize("where", COMMANDS)
def test_our_options_exist(where):
    """The job has its three arguments, and every option behind them is one of `packstone merge`."""
    _, ours = split_at_job(COMMANDS[where])
    merge = cli.get_command(click.Context(cli), "merge")
    known = {option for parameter in merge.params for option in parameter.opts}
    assert len([argument for argument in ours[:3] if not argument.startswith("-")]) == 3
    assert {argument for argument in ours if argument.startswith("--")} <= known


def test_manifests_agree_with_each_other():
    """Accounts, claims, config maps, files and images are named alike wherever they are named."""
    (job,), (template,), (whole,) = map(manifests, ("cronjob.yaml", "executor-pod.yaml", "kustomization.yaml"))
    account, role, binding = manifests("service-account.yaml")
    pod = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (driver,) = pod["containers"]
    names = {account["metadata"]["name"], binding["subjects"][0]["name"], pod["serviceAccountName"]}
    assert len(names) == 1
    assert binding["roleRef"]["name"] == role["metadata"]["name"]
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    assert {mount["name"] for mount in driver["volumeMounts"]} == set(volumes)
    (generated,) = whole["configMapGenerator"]
    assert volumes["executor-pod"]["configMap"]["name"] == generated["name"]
    (lake,) = template["spec"]["volumes"]
    assert lake == volumes["lake"]
    assert template["spec"]["containers"][0]["volumeMounts"][0] in driver["volumeMounts"]
    settings = dict(argument.split("=", 1) for argument in driver["args"] if argument.startswith("spark."))
    assert settings["spark.kubernetes.container.image"] == driver["image"]
    assert settings["spark.kubernetes.namespace"] == whole["namespace"]
    assert settings["spark.kubernetes.executor.podTemplateFile"] == f"/etc/packstone/{generated['files'][0]}"
    assert all((DEPLOY / "kubernetes" / name).exists() for name in (*whole["resources"], *generated["files"]))
    assert pod["restartPolicy"] == "Never"  # podFailurePolicy asks for it


def check_manifests(folder):
    """Validate the manifests of a folder by Kubernetes' own code, as an API server does before it stores them."""
    tool = tool_folder("manifest-check") / "check-manifests"
    command = [tool, folder, folder / "executor-pod.yaml"]
    return subprocess.run(command, capture_output=True, text=True, timeout=patient(60), check=False)


@pytest.mark.deploy
def test_kubernetes_accepts_the_manifests():
    """All that `kubectl apply --kustomize` would send decodes strictly and is valid, and so is Spark's template."""
    done = check_manifests(DEPLOY / "kubernetes")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "ServiceAccount packstone",
        "Role packstone",
        "RoleBinding packstone",
        "Role packstone-submitter",
        "CronJob packstone-orders",
        "ConfigMap packstone-executor-pod",
        "template executor-pod.yaml",
    ]


@pytest.mark.deploy
@pytest.mark.parametrize(
    ("file", "text", "instead", "says"),
    [
        ("cronjob.yaml", "concurrencyPolicy:", "concurrencyPolicies:", 'unknown field "spec.concurrencyPolicies"'),
        ("cronjob.yaml", "backoffLimit: 1", "backoffLimit: one", "backoffLimit"),
        ("cronjob.yaml", "restartPolicy: Never", "restartPolicy: OnFailure", "podFailurePolicy"),
        ("cronjob.yaml", "30 1 * * *", "30 25 * * *", "spec.schedule"),
        ("cronjob.yaml", "Europe/Berlin", "Europe/Nowhere", "spec.timeZone"),
        (
            "cronjob.yaml",
            "- name: lake\n              persistent",
            "- name: sea\n              persistent",
            "volumeMounts",
        ),
        (
            "cronjob.yaml",
            "memory: 2Gi}\n                limits",
            "memory: 3Gi}\n                limits",
            "less than or equal",
        ),
        ("service-account.yaml", "verbs: [", "verb: [", 'unknown field "rules[0].verb"'),
        ("service-account.yaml", "kind: Role\n  name", "kind: Rule\n  name", "roleRef.kind"),
        ("executor-pod.yaml", "mountPath: /mnt/lake", "mountPath: ''", "mountPath"),
        ("executor-pod.yaml", "runAsUser: 185", "runAsUsers: 185", 'unknown field "spec.securityContext.runAsUsers"'),
        ("kustomization.yaml", "resources:", "resource:", "resource"),
    ],
)
def test_kubernetes_refuses_a_mistake(tmp_path, file, text, instead, says):
    """The check can fail: a misspelled field, a wrong type, a rule between fields, each is found."""
    folder = shutil.copytree(DEPLOY / "kubernetes", tmp_path / "kubernetes")
    before = (folder / file).read_text()
    assert text in before
    (folder / file).write_text(before.replace(text, instead, 1))
    done = check_manifests(folder)
    assert done.returncode == 1
    assert says in done.stderr


def test_the_image_is_made_of_what_is_here():
    """Every file that the Dockerfile copies is in the repository, and every extra that it installs is one of ours."""
    text = (DEPLOY / "kubernetes" / "Dockerfile").read_text().replace("\\\n", " ")
    copied = [shlex.split(line)[1:-1] for line in text.splitlines() if line.startswith("COPY ")]
    ours = [name for names in copied if not names[0].startswith("--from=") for name in names]
    assert ours
    assert [name for name in ours if not (ROOT / name).exists()] == []
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (extras,) = re.findall(r"source\[([\w,]+)\]", text)
    assert set(extras.split(",")) <= set(project["optional-dependencies"])
    assert cronjob_arguments()[0] == "--master"
    (job,) = [argument for argument in cronjob_arguments() if argument.endswith(".py")]
    assert f"COPY packstone_merge.py {Path(job).parent}/" in text
