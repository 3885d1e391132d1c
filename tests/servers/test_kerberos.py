"""The command line on an HDFS that requires Kerberos: by ticket, by delegation token, and with neither."""

import errno
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path

import pytest
from hdfs_lake import HdfsLake
from kerberos_hdfs import SERVICE, SecureHdfs

from packstone.storage.hdfs import HdfsFileIO
from packstone.storage.hdfs_connection import HdfsSettings, client_url, refusal


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    """A KDC, a NameNode and a DataNode."""
    cluster = SecureHdfs(tmp_path_factory.mktemp("secure"))
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def tokens(secure, tmp_path_factory):
    """The variables of processes with a delegation token and no ticket: one for the address, one for the service."""
    folder = tmp_path_factory.mktemp("tokens")
    return {
        "address": secure.token(secure.url, folder / "address.tokens"),
        "service": secure.token(secure.service_url, folder / "service.tokens"),
    }


@pytest.fixture
def table(secure, request):
    """A table that belongs to alice."""
    name = request.node.name.replace("[", "-").rstrip("]")
    return HdfsLake(secure, f"{secure.url}/{name}/orders", formats=("parquet",))


@pytest.fixture
def health(packstone, monkeypatch):
    """``packstone health`` in this process with these variables."""

    def call(address, *, env):
        for name, value in env.items():
            monkeypatch.setenv(name, value)
        return packstone("health", address)

    return call


def merge(packstone_process, url, table, *options, env):
    """``packstone merge`` with the classic three arguments."""
    return packstone_process(
        "merge", f"{url}/", f"{table.inside}/f=parquet", "120M", "--format", "json", *options, env=env, timeout=300
    )


def test_a_ticket_is_enough(secure, table, packstone_process):
    """With a ticket a partition is merged, and the new file belongs to the user of the ticket."""
    done = merge(packstone_process, secure.url, table, env={**secure.env, **secure.kdc.ticket("alice")})
    assert (done.code, done.json.get("status"), done.json.get("files_after")) == (0, "committed", 1), done
    table.check_rows()
    (new,) = secure.client().list_status(f"{table.inside}/f=parquet")
    assert new.owner == "alice"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1", SERVICE])
def test_a_delegation_token_is_enough(secure, table, tokens, packstone_process, name):
    """With only a token, as executors have it, a host name, an IP address and a name service all work."""
    is_service = name == SERVICE
    url = f"hdfs://{name}" if is_service else f"hdfs://{name}:{secure.port}"
    done = merge(packstone_process, url, table, env=tokens["service" if is_service else "address"])
    assert (done.code, done.json.get("status"), done.json.get("files_after")) == (0, "committed", 1), done
    table.check_rows()


@pytest.mark.spark
def test_a_ticket_here_and_tokens_in_spark_workers(secure, table, tokens, packstone_process):
    """The driver has a ticket; Spark's Python workers have a token and no ticket, and find it by a host name."""
    of_java = f"{os.environ.get('PACKSTONE_JVM_OPTIONS', '')} -Djava.security.krb5.conf={secure.kdc.krb5_conf}"
    settings = {
        "spark.executorEnv.KRB5CCNAME": tokens["address"]["KRB5CCNAME"],
        "spark.executorEnv.HADOOP_TOKEN_FILE_LOCATION": tokens["address"]["HADOOP_TOKEN_FILE_LOCATION"],
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
    }
    options = [word for name, value in settings.items() for word in ("--conf", f"{name}={value}")]
    env = {**secure.env, **secure.kdc.ticket("alice"), "PACKSTONE_JVM_OPTIONS": of_java, "SPARK_LOCAL_IP": "127.0.0.1"}
    options += ["--engine", "local[1]"]
    done = merge(packstone_process, secure.url, table, *options, env=env)
    assert (done.code, done.json.get("status"), done.json.get("files_after")) == (0, "committed", 1), done
    table.check_rows()


def test_no_ticket(secure, packstone_process):
    """Without a ticket and a token, one sentence says what to run, by address and by name service."""
    for url in (secure.url, secure.service_url):
        done = packstone_process("health", f"{url}/data", env={**secure.env, **secure.kdc.no_ticket()})
        assert done.code == 1, done
        assert f"{url} cannot be used: no Kerberos ticket: run kinit" in done.sentence
        assert "GSS" not in done.sentence


def test_no_ticket_in_the_middle_of_a_run(secure, tokens, monkeypatch):
    """A store that is in use already, as on an executor, raises an error that says so, and not a PermissionError."""
    address = f"{secure.url}/data"
    cases = (secure.kdc.no_ticket(), "no Kerberos ticket: run kinit"), (tokens["service"], "holds no delegation token")
    for at, (env, says) in enumerate(cases):
        for name, value in {**secure.env, **env}.items():
            monkeypatch.setenv(name, value)
        settings = HdfsSettings.from_environment(address, os.environ)
        own = replace(settings, client=(*settings.client, ("own.client", str(at))))  # clients are kept by settings
        with pytest.raises(OSError, match=says) as caught:
            HdfsFileIO(own).stat(address)
        assert (caught.value.errno, caught.value.filename) == (errno.ENOKEY, address)


def test_an_expired_ticket(secure, health):
    """A ticket that has expired is reported as none, with that reason."""
    ticket = secure.kdc.ticket("alice", "-l", "1s")
    while subprocess.run(["klist", "-s"], env={**os.environ, **ticket}, check=False).returncode == 0:
        time.sleep(0.1)
    done = health(f"{secure.url}/data", env={**secure.env, **ticket})
    assert done.code == 1, done
    assert "no Kerberos ticket: run kinit" in done.sentence
    assert "xpired" in done.sentence


def test_the_kdc_is_away(secure, tmp_path, health):
    """Another failure of Kerberos is reported with its cause, not as a missing ticket."""
    text = secure.kdc.krb5_conf.read_text().replace(f"127.0.0.1:{secure.kdc.port}", "127.0.0.1:1")
    (tmp_path / "krb5.conf").write_text(text)
    env = {**secure.env, **secure.kdc.ticket("alice"), "KRB5_CONFIG": str(tmp_path / "krb5.conf")}
    done = health(f"{secure.url}/data", env=env)
    assert done.code == 1, done
    assert "Kerberos fails: Cannot contact any KDC" in done.sentence


def test_a_token_of_another_hdfs(secure, tokens, health):
    """A token file without a token for this HDFS is named, with what the token would be for."""
    done = health(f"{secure.url}/data", env=tokens["service"])
    assert done.code == 1, done
    file = tokens["service"]["HADOOP_TOKEN_FILE_LOCATION"]
    lacks = f"{file} (HADOOP_TOKEN_FILE_LOCATION) holds no delegation token for localhost:{secure.port} or 127.0.0.1:"
    assert lacks in done.sentence
    done = health(f"{secure.service_url}/data", env=tokens["address"])
    assert f"holds no delegation token for ha-hdfs:{SERVICE};" in done.sentence


def test_a_file_that_holds_no_tokens(secure, tokens, tmp_path, health):
    """A token file that is absent, or is something else, is named."""
    other = tmp_path / "other"
    other.write_text("something else")
    for path in (tmp_path / "absent", other):
        env = {**tokens["address"], "HADOOP_TOKEN_FILE_LOCATION": str(path)}
        done = health(f"{secure.url}/data", env=env)
        assert done.code == 1, done
        assert f"names {path}, which is not a readable file of tokens" in done.sentence
    other.write_bytes(b"")
    done = health(f"{secure.url}/data", env=env)
    assert f"names {other}, which is empty" in done.sentence


def test_a_token_that_is_rejected(secure, tokens, tmp_path, health):
    """A token that the NameNode rejects is named with the NameNode's reason."""
    data = bytearray(Path(tokens["address"]["HADOOP_TOKEN_FILE_LOCATION"]).read_bytes())
    data[data.index(b"HDFS_DELEGATION_TOKEN") - 2] ^= 1  # the last byte of its password
    (tmp_path / "changed").write_bytes(data)
    env = {**tokens["address"], "HADOOP_TOKEN_FILE_LOCATION": str(tmp_path / "changed")}
    done = health(f"{secure.url}/data", env=env)
    assert done.code == 1, done
    assert f"rejects the delegation token of {tmp_path / 'changed'} (DIGEST-MD5" in done.sentence


def test_a_client_without_configuration(secure, health):
    """Where the Hadoop configuration is not found, the sentence says which setting is missing."""
    done = health(f"{secure.url}/data", env=secure.kdc.ticket("alice"))
    assert done.code == 1, done
    assert "if it requires Kerberos, set HADOOP_CONF_DIR" in done.sentence


def test_a_machine_without_the_library_of_kerberos():
    """What the client library says where libgssapi_krb5 is missing becomes the names of the packages."""
    why = refusal('OperationFailed("Failed to load libgssapi_krb")', "hdfs://nn:8020", {})
    assert "install libgssapi-krb5-2" in why
    assert refusal('RPCError("java.io.IOException", "disk")', "hdfs://nn:8020", {}) is None


def test_tokens_that_begin_alike(tmp_path):
    """A token is found by its whole service: nn:8020 is neither nn:802 nor the end of bnn:8020."""
    file = tmp_path / "tokens"
    env = {"HADOOP_TOKEN_FILE_LOCATION": str(file)}
    for service, is_found in (("127.0.0.1:8020", True), ("127.0.0.1:80201", False), ("1127.0.0.1:8020", False)):
        file.write_bytes(b"HDTS\x00\x01" + bytes((len(service),)) + service.encode())
        assert client_url("hdfs://localhost:8020", env) == f"hdfs://{'127.0.0.1' if is_found else 'localhost'}:8020"
    assert client_url("hdfs://localhost:8020", {}) == "hdfs://localhost:8020"
