"""S3 servers on free ports of this machine, started once for those tests that ask, and a proxy that breaks things.

SeaweedFS is a real server on a disk, moto one in memory, and ``rclone serve s3`` one that takes no notice of the
condition of a put. ``make test-servers`` installs them into an environment of their own
(``scripts/make-servers-venv``).
"""

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.request
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import unquote, urlsplit

from needs import check_marked
from patience import patient
from pyarrow import fs

KEY, SECRET, REGION, BUCKET = "packstone-tests", "packstone-tests-secret", "us-east-1", "lake"
UP_SECONDS = patient(60)
HANG_SECONDS = 40


@dataclass(frozen=True)
class S3Server:
    """Where a server answers."""

    endpoint: str

    @property
    def env(self) -> dict[str, str]:
        """What a process needs to know to use it."""
        return {
            "AWS_ENDPOINT_URL": self.endpoint,
            "AWS_ACCESS_KEY_ID": KEY,
            "AWS_SECRET_ACCESS_KEY": SECRET,
            "AWS_REGION": REGION,
        }

    def other_client(self) -> fs.S3FileSystem:
        """A client that is not ours: PyArrow's own."""
        address = urlsplit(self.endpoint)
        return fs.S3FileSystem(
            access_key=KEY,
            secret_key=SECRET,
            region=REGION,
            scheme=address.scheme,
            endpoint_override=address.netloc,
            allow_bucket_creation=True,
        )

    def fetch(self, path: str, folder: Path) -> Path:
        """Copy all objects below a path to a local folder, with a client that is not ours."""
        folder.mkdir(parents=True, exist_ok=True)
        fs.copy_files(path.removeprefix("s3://"), str(folder), source_filesystem=self.other_client())
        return folder

    def send(self, folder: Path, path: str) -> str:
        """Copy a local folder to a path, with a client that is not ours."""
        target = self.other_client()
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                with target.open_output_stream(f"{path.removeprefix('s3://')}/{file.relative_to(folder)}") as out:
                    out.write(file.read_bytes())
        return path


def start_seaweed(folder: Path) -> tuple[S3Server, subprocess.Popen]:
    """A real server with a bucket."""
    identity = {
        "name": "tests",
        "credentials": [{"accessKey": KEY, "secretKey": SECRET}],
        "actions": ["Admin", "Read", "Write", "List", "Tagging"],
    }
    config = folder / "s3.json"
    config.write_text(json.dumps({"identities": [identity]}), encoding="utf-8")
    (folder / "data").mkdir()
    ports = _free_ports(8)
    names = ("master", "volume", "filer", "s3")
    settings = [f"-{name}.port={ports[at]}" for at, name in enumerate(names)]
    settings += [f"-{name}.port.grpc={ports[4 + at]}" for at, name in enumerate(names)]
    settings += ["-s3.port.iceberg=0", "-s3.port.lance=0", "-master.telemetry=false", "-volume.max=50"]
    settings += [f"-dir={folder}/data", "-ip=127.0.0.1", "-ip.bind=127.0.0.1", "-filer", "-s3", f"-s3.config={config}"]
    server = S3Server(f"http://127.0.0.1:{ports[3]}")
    process = _start("weed", "-logtostderr=true", "server", *settings, log=folder / "weed.log")
    _make_bucket(server, process, log=folder / "weed.log")
    return server, process


def start_moto(folder: Path) -> tuple[S3Server, subprocess.Popen]:
    """A server in memory with a bucket."""
    (port,) = _free_ports(1)
    server = S3Server(f"http://127.0.0.1:{port}")
    process = _start("moto_server", "-H", "127.0.0.1", "-p", str(port), log=folder / "moto.log")
    _make_bucket(server, process, log=folder / "moto.log")
    return server, process


def start_rclone(folder: Path) -> tuple[S3Server, subprocess.Popen]:
    """A server that overwrites whatever the condition of a put, with a bucket."""
    (port,) = _free_ports(1)
    (folder / "data" / BUCKET).mkdir(parents=True)
    server = S3Server(f"http://127.0.0.1:{port}")
    settings = ("--addr", f"127.0.0.1:{port}", "--auth-key", f"{KEY},{SECRET}")
    process = _start("rclone", "serve", "s3", *settings, str(folder / "data"), log=folder / "rclone.log")
    _wait_for(server, process, log=folder / "rclone.log")
    return server, process


def stop(process: subprocess.Popen) -> None:
    """End a server that we started; it owns nothing that anybody will miss."""
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=patient(30))


@dataclass
class Fault:
    """What the proxy does to requests of a method whose path holds a text, and to how many of them.

    "refuse": 503 without asking the server; "hide": the server does it, and the answer is a 500; "cut": it does it, and
    there is no answer; "hang": as that, but the connection stays open for longer than a client waits.
    """

    method: str
    path: str
    how: str
    times: int = 1
    seen: int = 0


@dataclass
class FaultyProxy:
    """A loopback proxy before a server; it is between client and server for as long as the ``with`` block lasts."""

    server: S3Server
    faults: list[Fault] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def __enter__(self) -> S3Server:
        proxy = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = 1 << 16  # in one packet: two of them wait for each other
            disable_nagle_algorithm = True

            def handle_request(self) -> None:
                proxy.answer(self)

            do_GET = do_PUT = do_POST = do_DELETE = do_HEAD = handle_request  # noqa: N815 - as the library wants it

            def log_message(self, *_: object) -> None:
                """Nobody reads it."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.05})
        self._thread.start()
        return S3Server(f"http://127.0.0.1:{self._http.server_port}")

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def answer(self, request: BaseHTTPRequestHandler) -> None:
        """Pass a request on, or not, and its answer back, or not."""
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        self.requests.append(f"{request.command} {unquote(request.path)}")
        fault = next((f for f in self.faults if self._hits(f, request)), None)
        if fault is not None and fault.how == "refuse":
            _reply(request, 503, {}, b"<Error><Code>SlowDown</Code></Error>")
            return
        try:
            status, headers, content = self._ask_server(request, body)
        except (OSError, http.client.HTTPException):  # the client went away, and so did the server's interest
            request.close_connection = True
            return
        if fault is not None and fault.how == "hide":
            _reply(request, 500, {}, b"<Error><Code>InternalError</Code></Error>")
        elif fault is not None:
            time.sleep(HANG_SECONDS if fault.how == "hang" else 0)
            request.close_connection = True
        else:
            _reply(request, status, headers, content)

    def _hits(self, fault: Fault, request: BaseHTTPRequestHandler) -> bool:
        if fault.method != request.command or fault.path not in unquote(request.path) or fault.seen >= fault.times:
            return False
        fault.seen += 1
        return True

    def _ask_server(self, request: BaseHTTPRequestHandler, body: bytes) -> tuple[int, dict[str, str], bytes]:
        upstream = http.client.HTTPConnection(urlsplit(self.server.endpoint).netloc, timeout=patient(60))
        upstream.putrequest(request.command, request.path, skip_host=True, skip_accept_encoding=True)
        for name, value in request.headers.items():  # with the Host that was signed
            upstream.putheader(name, value)
        upstream.endheaders(body)
        answer = upstream.getresponse()
        content = answer.read()
        upstream.close()
        return answer.status, dict(answer.getheaders()), content


def _reply(request: BaseHTTPRequestHandler, status: int, headers: dict[str, str], content: bytes) -> None:
    request.send_response_only(status)
    for name, value in headers.items():
        if name.lower() not in ("transfer-encoding", "connection", "content-length"):
            request.send_header(name, value)
    is_head = request.command == "HEAD"
    length = next((v for n, v in headers.items() if n.lower() == "content-length"), "0") if is_head else len(content)
    request.send_header("Content-Length", str(length))
    request.end_headers()
    if not is_head:
        request.wfile.write(content)


def _programs() -> Path:
    venv = os.environ.get("PACKSTONE_SERVERS_VENV") or Path(sys.prefix).resolve().parent / ".venv-servers"
    return Path(venv) / "bin"


def _start(program: str, *arguments: str, log: Path) -> subprocess.Popen:
    check_marked("s3")
    path = _programs() / program
    if not path.exists():
        raise FileNotFoundError(f"{path} is not there; `make test-servers` installs it.")
    with log.open("wb") as out:
        return subprocess.Popen([path, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=out, cwd=log.parent)


def _make_bucket(server: S3Server, process: subprocess.Popen, *, log: Path) -> None:
    _wait_for(server, process, log=log)
    end = time.monotonic() + UP_SECONDS
    while True:
        try:
            server.other_client().create_dir(BUCKET)
            with server.other_client().open_output_stream(f"{BUCKET}/up") as out:
                out.write(b"up")
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.2)
        else:
            return


def _wait_for(server: S3Server, process: subprocess.Popen, *, log: Path) -> None:
    end = time.monotonic() + UP_SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            urllib.request.urlopen(server.endpoint, timeout=patient(5)).close()  # noqa: S310 - a server of ours
        except urllib.error.HTTPError:
            return  # it answers
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise TimeoutError(f"No server at {server.endpoint}: {log.read_text(encoding='utf-8', errors='replace')[-2000:]}")


def _free_ports(count: int) -> list[int]:
    """Ports that nobody had a moment ago; held all at once, so that they differ."""
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
