"""A Kerberos KDC, and a NameNode and a DataNode that demand its tickets; real processes on 127.0.0.1.

``make test-servers`` brings the programs (``scripts/ensure-kerberos``) and the jars (``scripts/fetch-hdfs-jars``).
There is one ordinary user, ``alice``; the servers run as ``hdfs/localhost``.
"""

import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from hdfs_cluster import UP_SECONDS, HdfsCluster, find_jars, free_ports, listens, write_settings
from needs import check_marked
from patience import patient

REALM = "PACKSTONE.TEST"
SERVICE = "lakes"  # a name service in the clients' configuration: this NameNode, and an address where nothing listens
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))
_PROGRAMS = ("krb5kdc", "kdb5_util", "kadmin.local", "kinit")
_KRB5 = """[libdefaults]
default_realm = {realm}
dns_lookup_kdc = false
dns_lookup_realm = false
dns_canonicalize_hostname = false
rdns = false
udp_preference_limit = 1
[realms]
{realm} = {{
  kdc = 127.0.0.1:{port}
}}
[domain_realm]
localhost = {realm}
"""
_KDC = """[kdcdefaults]
kdc_listen = 127.0.0.1:{port}
kdc_tcp_listen = 127.0.0.1:{port}
[realms]
{realm} = {{
  database_name = {folder}/principals
  key_stash_file = {folder}/stash
  acl_file = {folder}/acl
}}
[logging]
kdc = FILE:{folder}/kdc.log
"""


class Kdc:
    """A key distribution centre with one keytab for everybody."""

    def __init__(self, folder: Path) -> None:
        check_marked("kerberos")
        folder.mkdir()
        self._folder, self.keytab, self.krb5_conf = folder, folder / "all.keytab", folder / "krb5.conf"
        (self.port,) = free_ports(1)
        self.krb5_conf.write_text(_KRB5.format(realm=REALM, port=self.port))
        (folder / "kdc.conf").write_text(_KDC.format(realm=REALM, port=self.port, folder=folder))
        self.env = {"KRB5_CONFIG": str(self.krb5_conf), "KRB5_KDC_PROFILE": str(folder / "kdc.conf")}
        self._run("kdb5_util", "create", "-s", "-r", REALM, "-P", "not-a-secret")
        for principal in ("hdfs/localhost", "HTTP/localhost", "alice"):
            self._run("kadmin.local", "-q", f"addprinc -randkey {principal}")
            self._run("kadmin.local", "-q", f"ktadd -k {self.keytab} {principal}")
        with (folder / "kdc.out").open("wb") as out:
            self._process = subprocess.Popen(
                [_program("krb5kdc"), "-n"], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=self._environment()
            )
        until = time.monotonic() + UP_SECONDS
        while not listens(self.port):
            said = (folder / "kdc.out").read_text(errors="replace")
            assert self._process.poll() is None, f"the KDC ended: {said}"
            assert time.monotonic() < until, f"the KDC does not serve: {said}"
            time.sleep(0.05)

    def ticket(self, principal: str, *options: str) -> dict[str, str]:
        """``kinit``; returns the variables by which a process finds the ticket."""
        cache = f"FILE:{self._folder}/{principal.partition('/')[0]}-{len(list(self._folder.iterdir()))}.cache"
        self._run("kinit", "-k", "-t", str(self.keytab), "-c", cache, *options, principal)
        return {"KRB5_CONFIG": str(self.krb5_conf), "KRB5CCNAME": cache}

    def no_ticket(self) -> dict[str, str]:
        """The variables of a process that knows the KDC and has no ticket."""
        return {"KRB5_CONFIG": str(self.krb5_conf), "KRB5CCNAME": f"FILE:{self._folder}/no-such.cache"}

    def stop(self) -> None:
        """End it."""
        self._process.send_signal(signal.SIGTERM)
        self._process.wait(patient(30))

    def _environment(self) -> dict[str, str]:
        return {**os.environ, **self.env}

    def _run(self, name: str, *arguments: str) -> None:
        command = [_program(name), *arguments]
        done = subprocess.run(
            command, env=self._environment(), capture_output=True, text=True, timeout=patient(60), check=False
        )
        assert done.returncode == 0, (command, done.stdout, done.stderr)


class SecureHdfs(HdfsCluster):
    """One NameNode and one DataNode of a realm, at ``hdfs://localhost:PORT`` and as ``hdfs://lakes``."""

    def __init__(self, folder: Path) -> None:
        find_kdc()
        if any(jar.name.startswith("hadoop-hdfs-2") for jar in find_jars()):  # asked before a process is started
            pytest.skip("Kerberos is tested with a current Hadoop, which only Maven brings")
        self.kdc = Kdc(folder / "kdc")
        self._patch = pytest.MonkeyPatch()
        try:
            super().__init__(folder, **self._secured())
        except BaseException:
            self.kdc.stop()
            raise
        self.proxy.close()
        self.url = self.direct_url = f"hdfs://localhost:{self.port}"
        self.service_url = f"hdfs://{SERVICE}"
        (dead_port,) = free_ports(1)
        addresses = f"dfs.namenode.rpc-address.{SERVICE}"
        provider = "org.apache.hadoop.hdfs.server.namenode.ha.ConfiguredFailoverProxyProvider"
        self._client_settings = {
            "fs.defaultFS": self.url,
            "hadoop.security.authentication": "kerberos",
            "dfs.namenode.kerberos.principal": f"hdfs/localhost@{REALM}",
            "dfs.data.transfer.protection": "authentication",
            "dfs.nameservices": SERVICE,
            f"dfs.ha.namenodes.{SERVICE}": "live,dead",
            f"{addresses}.live": f"localhost:{self.port}",
            f"{addresses}.dead": f"localhost:{dead_port}",
            f"dfs.client.failover.proxy.provider.{SERVICE}": provider,
        }
        write_settings(self.conf / "core-site.xml", self._client_settings)

    def stop(self, *names: str, kill: bool = False) -> None:
        """Stop the servers, and the KDC after them."""
        super().stop(*names, kill=kill)
        if not names:
            self.kdc.stop()
            self._patch.undo()

    def client(self):
        """The library's own client, by a ticket of alice."""
        if self._client is None:
            self._client = self._client_as(self.kdc.ticket("alice"))
        return self._client

    def token(self, url: str, file: Path) -> dict[str, str]:
        """Fetch a delegation token of alice; returns the variables of a process that has nothing else."""
        fetcher = "org.apache.hadoop.hdfs.tools.DelegationTokenFetcher"
        command = [*self._command(self.conf), fetcher, "-fs", url, "--renewer", "alice", str(file)]
        env = {**os.environ, **self.kdc.ticket("alice")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=patient(120), check=False)
        assert file.exists(), (done.stdout, done.stderr)
        return {**self.env, **self.kdc.no_ticket(), "HADOOP_TOKEN_FILE_LOCATION": str(file)}

    def _client_as(self, ticket: dict[str, str]):
        from hdfs_native import Client

        for name, value in ticket.items():
            self._patch.setenv(name, value)
        client = Client(self.url, self._client_settings)
        client.get_file_info("/")  # connects, while the variables are set
        return client

    def _takes_a_file(self) -> bool:
        try:
            self._client_as(self.kdc.ticket("hdfs/localhost")).set_permission("/", 0o777)
            self.put("/.ready", b"yes")
        except (OSError, RuntimeError):
            return False
        return True

    def _secured(self) -> dict[str, str]:
        principal, keytab = f"hdfs/localhost@{REALM}", str(self.kdc.keytab)
        servers = {
            f"dfs.{name}.{what}": value
            for name in ("namenode", "datanode")
            for what, value in (("kerberos.principal", principal), ("keytab.file", keytab))
        }
        return {
            **servers,
            "hadoop.security.authentication": "kerberos",
            "hadoop.security.authorization": "true",
            "dfs.web.authentication.kerberos.principal": f"HTTP/localhost@{REALM}",
            "dfs.web.authentication.kerberos.keytab": keytab,
            "dfs.block.access.token.enable": "true",
            "dfs.data.transfer.protection": "authentication",
            "ignore.secure.ports.for.testing": "true",  # a DataNode would want ports of root, or TLS
        }

    def _command(self, *more_paths: Path) -> list[str]:
        java, *rest = super()._command(*more_paths)
        return [java, f"-Djava.security.krb5.conf={self.kdc.krb5_conf}", *rest]


def find_kdc() -> None:
    """Skip the test where there is no KDC."""
    for name in _PROGRAMS:
        _program(name)


def _program(name: str) -> str:
    found = shutil.which(name, path=_PATH)
    if found is None:
        pytest.skip(f"{name} is not installed (scripts/ensure-kerberos says how)")
    return found
