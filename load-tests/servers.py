"""What `compare`, `compare-ws` and `compare-node` measure: servers as child processes, their CPU and memory; and chains for them."""

import http.client
import json
import os
import pathlib
import re
import shutil
import socket
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
WORK = ROOT / "load-tests" / ".work"
VECTORS = ROOT / "tests" / ".tools" / "vectors"
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
GETH = ROOT / "tests" / ".tools" / "bin" / "geth"
KEY = "compare"


class Failure(Exception):
    """The run cannot give figures; the text says why."""


def build(*examples):
    """Builds what is measured."""
    WORK.mkdir(parents=True, exist_ok=True)
    named = [word for example in examples for word in ("--example", example)]
    subprocess.run(["cargo", "build", "--release", "--workspace", "--quiet", "--bin", "nearhead", *named], cwd=ROOT, check=True)


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
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}, separators=(",", ":"))


class Server:
    """A child process that answers JSON-RPC on a port of its own."""

    def __init__(self, name, command, port, path, cores):
        self.name, self.port, self.path = name, port, path
        self.log = open(WORK / f"{name}.log", "wb")
        self.process = subprocess.Popen(pinned(command, cores), stdout=self.log, stderr=self.log)

    def wait(self, seconds):
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.process.poll() is not None:
                raise Failure(f"{self.name} exited with {self.process.returncode}: see {self.log.name}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return self
            except OSError:
                time.sleep(0.05)
        raise Failure(f"{self.name} did not listen within {seconds} s: see {self.log.name}")

    def cpu_seconds(self):
        """User and system time of the whole process, in nanoseconds' steps: its clock, as clock_getcpuclockid(3) names it."""
        return time.clock_gettime(~self.process.pid << 3 | 2)

    def resident_kib(self):
        status = pathlib.Path(f"/proc/{self.process.pid}/status").read_text()
        return int(re.search(r"VmRSS:\s+(\d+)", status).group(1))

    def ask(self, verb, path, body=None):
        """The answer's payload, and the bytes of the whole answer."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request(verb, path, body, {"Content-Type": "application/json"} if body else {})
        response = connection.getresponse()
        payload = response.read()
        head = sum(len(k) + len(v) + 4 for k, v in response.getheaders()) + len(f"HTTP/1.1 200 {response.reason}\r\n\r\n")
        connection.close()
        if response.status != 200:
            raise Failure(f"{self.name} answered {response.status}: {payload[:200]!r}")
        return payload, head + len(payload)

    def post(self, body):
        return self.ask("POST", self.path, body)

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
    """The samples whose name and labels begin so, by name and labels."""
    text = server.ask("GET", "/metrics")[0].decode()
    return {name: float(value) for name, value in re.findall(r"^(\S+) (\S+)$", text, re.MULTILINE) if name.startswith(prefix)}


def readable_at(server):
    """When the newest head became readable: the metric says how long ago, to the millisecond that asking takes."""
    asked = time.time_ns()
    age = metrics(server)["nearhead_head_age_seconds"]
    return (asked + time.time_ns()) // 2 - int(age * 1e9)


def start_nearhead(options, cores, prefix=()):
    port = free_port()
    return Server("nearhead", [
        *prefix, str(TARGET / "release/nearhead"), "--listen", f"127.0.0.1:{port}", "--api-key", KEY, "--workers", "1", *options,
    ], port, f"/v3/{KEY}", cores).wait(300)


def files_of(genesis, chain):
    """nearhead's options for an imported chain."""
    return ["--source", "files", "--genesis", str(genesis), "--chain", str(chain)]


def prepare_chain(name, blocks=140):
    """The genesis and the blocks of a chain: that of execution-apis, or the dev chain's of a profile."""
    if name == "execution-apis":
        subprocess.run([str(ROOT / "tests/setup"), "vectors"], check=True)
        return VECTORS / "genesis.json", VECTORS / "chain.rlp"
    stem = name if blocks == 140 else f"{name}-{blocks}"
    genesis, chain = WORK / f"{stem}.genesis.json", WORK / f"{stem}.chain.rlp"
    program = TARGET / "release/nearhead"
    # Another program may make another chain.
    if not chain.exists() or chain.stat().st_mtime < program.stat().st_mtime:
        print(f"exporting the {name} chain", file=sys.stderr)
        subprocess.run([str(program), "export", "--profile", name, "--blocks", str(blocks),
                        "--genesis", str(genesis), "--chain", str(chain)], check=True)
    return genesis, chain


GETH_COMMON = ["--nodiscover", "--maxpeers", "0", "--port", "0", "--ipcdisable", "--verbosity", "1"]


def geth_data():
    """An empty folder for geth."""
    shutil.rmtree(WORK / "geth", ignore_errors=True)
    return str(WORK / "geth")


# --- driving ---------------------------------------------------------------------------------------------------------


def require_wrk():
    if not shutil.which("wrk"):
        raise Failure("wrk is missing: apt-get install wrk")


# wrk itself prints three digits of each figure.
REQUEST_LUA = """
wrk.method = 'POST'
wrk.body = [==[%s]==]
wrk.headers['Content-Type'] = 'application/json'
function done(summary, latency)
  local errors = summary.errors
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('exactly %%d %%d %%d %%d %%d\\n',
    summary.requests, summary.bytes, failed, summary.duration, latency:percentile(99)))
end
"""


def drive(server, body, size, seconds, connections, cores):
    """One round: (requests/s, CPU microseconds a request, p99 milliseconds, bytes/s)."""
    script = WORK / "request.lua"
    script.write_text(REQUEST_LUA % body)
    pin = ["taskset", "-c", cores] if cores else []
    before = server.cpu_seconds()
    out = subprocess.run(
        [*pin, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script),
         f"http://127.0.0.1:{server.port}{server.path}"], capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_seconds() - before
    exactly = re.search(r"^exactly (\d+) (\d+) (\d+) (\d+) (\d+)$", out, re.MULTILINE)
    requests, read, failed, duration, p99 = map(int, exactly.groups())
    if requests == 0 or failed > 0:
        raise Failure(f"{server.name}: {out}")
    # Bytes of answers that were under way at the end are counted, the answers are not. An error is shorter than the
    # answer, so that more of them than there are connections cannot be missed.
    if not 0 <= read - requests * size <= connections * size:
        raise Failure(f"{server.name}: {requests} answers of {read} bytes, {read / requests:.1f} each, expected {size}")
    elapsed = duration / 1e6
    return requests / elapsed, cpu / requests * 1e6, p99 / 1e3, read / elapsed


def table(head, rows):
    widths = [max(len(str(row[column])) for row in [head, *rows]) for column in range(len(head))]
    for row in [head, *rows]:
        print("  ".join(str(c).ljust(w) if i == 0 else str(c).rjust(w) for i, (c, w) in enumerate(zip(row, widths))), flush=True)
