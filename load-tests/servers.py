"""Servers as child processes, with their CPU time and memory: what the load tests measure."""

import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "load-tests" / ".work"
RESULTS = ROOT / "load-tests" / "results"
VECTORS = ROOT / "tests" / ".tools" / "vectors"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GETH = ROOT / "tests" / ".tools" / "bin" / "geth"
KEY = "compare"


class Failure(Exception):
    """The run cannot give figures; the message says why."""


class Refused(Failure):
    """The server had no room for the request: 429 or 503."""


def build(*examples):
    """Builds nearhead and these examples in release mode."""
    WORK.mkdir(parents=True, exist_ok=True)
    named = [word for example in examples for word in ("--example", example)]
    subprocess.run(
        ["cargo", "build", "--release", "--quiet", "--bin", "nearhead", *named],
        cwd=ROOT,
        check=True,
    )


def install_geth():
    if not GETH.exists():
        subprocess.run([str(ROOT / "tests/setup")], check=True)


def pinned(command, cores):
    return ["taskset", "-c", cores, *command] if cores else command


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def request(method, params):
    return json.dumps(
        {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, separators=(",", ":")
    )


def same_answer(ours, theirs):
    """Whether both are equal, except for totalDifficulty, which geth no longer sends."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = (ours.keys() | theirs.keys()) - {"totalDifficulty"}
        return all(k in ours and k in theirs and same_answer(ours[k], theirs[k]) for k in keys)
    if isinstance(ours, list) and isinstance(theirs, list):
        return len(ours) == len(theirs) and all(map(same_answer, ours, theirs))
    return ours == theirs


class Server:
    """A child process that answers JSON-RPC on a port of its own."""

    def __init__(self, name, command, port, path, cores, admin_port=None, data=None):
        if data is None:
            # Never in the home folder, and nothing of an earlier run.
            data = WORK / f"data-{name}-{port}"
            shutil.rmtree(data, ignore_errors=True)
        self.name, self.port, self.path, self.admin_port = name, port, path, admin_port
        self.scheme = "http"
        # What it cannot answer without: its CPU time counts, and it shares a quota.
        self.behind = []
        environment = {**os.environ, "NEARHEAD_DATA_DIR": str(data)}
        if admin_port:
            # Not as a flag: an older build, to compare with, does not know it.
            environment["NEARHEAD_ADMIN_LISTEN"] = f"127.0.0.1:{admin_port}"
            # Metrics of the moment, not of the last page.
            environment["NEARHEAD_METRICS_MAX_AGE"] = "0s"
        self.log = open(WORK / f"{name}.log", "wb")
        self.process = subprocess.Popen(
            pinned(command, cores),
            stdout=self.log,
            stderr=self.log,
            env=environment,
        )

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(
                    f"{self.name} exited with {self.process.returncode}: see {self.log.name}"
                )
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise Failure(f"{self.name} did not listen within {seconds} s: see {self.log.name}")

    def cpu_seconds(self):
        """User and system time of the process and those behind it, by their CPU clocks (clock_getcpuclockid(3))."""
        return sum(time.clock_gettime(~pid << 3 | 2) for pid in self.pids())

    def wait_idle(self, seconds):
        """Waits until it has used less than a twentieth of a core for a second."""
        deadline = time.monotonic() + seconds
        before = self.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(1)
            now = self.cpu_seconds()
            if now - before < 0.05:
                return
            before = now
        raise Failure(f"{self.name} was not idle within {seconds} s")

    def pids(self):
        return [self.process.pid, *(pid for server in self.behind for pid in server.pids())]

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def fetch(self, verb, path, body=None, port=None, encoding=None):
        """The response's body as it was sent, in this encoding if one is given, and the size of the whole response in
        bytes, without the framing of chunks."""
        connection = http.client.HTTPConnection("127.0.0.1", port or self.port, timeout=60)
        headers = {"Content-Type": "application/json"} if body else {}
        connection.request(verb, path, body, headers | ({"Accept-Encoding": encoding} if encoding else {}))
        response = connection.getresponse()
        payload = response.read()
        if response.getheader("Content-Encoding") != encoding:
            raise Failure(f"{self.name} answered in encoding {response.getheader('Content-Encoding')}")
        head = sum(len(k) + len(v) + 4 for k, v in response.getheaders()) + len(
            f"HTTP/1.1 200 {response.reason}\r\n\r\n"
        )
        connection.close()
        if response.status != 200:
            kind = Refused if response.status in (429, 503) else Failure
            raise kind(f"{self.name} answered {response.status}: {payload[:200]!r}")
        return payload, head + len(payload)

    def post(self, body, encoding=None):
        return self.fetch("POST", self.path, body, encoding=encoding)

    def call(self, method, params):
        payload, _ = self.post(request(method, params))
        answer = json.loads(payload)
        if "error" in answer:
            raise Failure(f"{self.name} answered {method} with {answer['error']}")
        return answer["result"]

    def stop(self):
        self.process.terminate()
        try:
            self.process.wait(20)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


def metrics(server, prefix="nearhead_"):
    """Samples of /metrics whose name begins with `prefix`, by name and labels."""
    try:
        text = server.fetch("GET", "/metrics", port=server.admin_port)[0].decode()
    except ConnectionRefusedError:
        # An older build has them on its only port.
        text = server.fetch("GET", "/metrics")[0].decode()
    return {
        name: float(value)
        for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE)
        if name.startswith(prefix)
    }


def readable_at(server):
    """When the newest head became readable, in ns; as accurate as one request to /metrics."""
    before = time.time_ns()
    age = metrics(server)["nearhead_head_age_seconds"]
    return (before + time.time_ns()) // 2 - int(age * 1e9)


def start_nearhead(
    options, cores, prefix=(), name="nearhead", program=None, data=None, workers=1
):
    """Starts nearhead, or this other build of it. Those that run at the same time need names.
    Without `data`, its data folder is a new one; without `workers`, it has one a core."""
    port, admin_port = free_port(), free_port()
    return Server(
        name,
        [
            *prefix,
            str(program or TARGET / "release/nearhead"),
            "--listen",
            f"127.0.0.1:{port}",
            "--api-key",
            KEY,
            *(["--workers", str(workers)] if workers else []),
            *options,
        ],
        port,
        f"/v3/{KEY}",
        cores,
        admin_port,
        data,
    ).wait(300)


GETH_COMMON = ["--nodiscover", "--maxpeers", "0", "--port", "0", "--ipcdisable", "--verbosity", "1"]


def geth_data():
    """The path of geth's data folder, which does not exist."""
    shutil.rmtree(WORK / "geth", ignore_errors=True)
    return str(WORK / "geth")


def start_geth(genesis, chain, cores):
    """Imports a chain and starts a geth that serves it from an archive."""
    common = [str(GETH), "--datadir", geth_data(), "--state.scheme", "hash", "--gcmode", "archive"]
    # A large genesis is that of the dev chain, and not worth parsing for its chain id.
    network = (
        str(json.loads(genesis.read_text())["config"]["chainId"])
        if genesis.stat().st_size < 1 << 26
        else "1337"
    )
    for step in (["init", str(genesis)], ["import", str(chain)]):
        done = subprocess.run([*common, *step], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"geth {step[0]} failed:\n{done.stderr[-2000:]}")
    port = free_port()
    return Server(
        "geth",
        [
            *common,
            "--networkid",
            network,
            "--http",
            "--http.port",
            str(port),
            "--http.api",
            "eth,net,web3",
            "--authrpc.port",
            str(free_port()),
            *GETH_COMMON,
        ],
        port,
        "/",
        cores,
    ).wait(120)
