"""nearhead under callgrind: instructions of requests, and of the functions that they run."""

import http.client
import json
import re
import shutil
import subprocess

from servers import KEY, WORK, Failure, Server, free_port

# Requests before counting starts: allocator and branch caches are warm after a few.
WARM_UP = 20


def require_valgrind():
    if not shutil.which("valgrind"):
        raise Failure("valgrind is missing: apt-get install valgrind")


class Counted:
    """A nearhead under callgrind, with one connection to it."""

    def __init__(self, program, options, key=KEY, data=None):
        self.out = WORK / "callgrind.out"
        for dump in WORK.glob("callgrind.out*"):
            dump.unlink()
        port = free_port()
        command = ["valgrind", "--tool=callgrind", "--instr-atstart=no"]
        command += [f"--callgrind-out-file={self.out}", program, "--listen", f"127.0.0.1:{port}"]
        command += ["--api-key", KEY, "--workers", "1", "--pool-threads", "1", *options]
        self.server = Server("callgrind", command, port, f"/v3/{key}", "", data=data).wait(300)
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)

    def post(self, body):
        headers = {"Content-Type": "application/json"}
        self.connection.request("POST", self.server.path, body, headers)
        response = self.connection.getresponse()
        answer = response.read()
        if response.status != 200 or b'"error"' in answer[:64]:
            raise Failure(f"{body} was answered with {response.status} {answer[:200]!r}")
        return json.loads(answer)["result"]

    def control(self, *arguments):
        command = ["callgrind_control", *arguments, str(self.server.process.pid)]
        subprocess.run(command, check=True, capture_output=True)

    def instructions(self, body, count):
        """Instructions of one request, the mean of `count`."""
        return self.instructions_of(body, count, ())[0]

    def instructions_of(self, body, count, functions):
        """Instructions of one request, the mean of `count`, then those that each of these functions
        has of them, with all that it calls. A function is a regular expression of its name."""
        for _ in range(WARM_UP):
            self.post(body)
        self.control("--instr=on")
        self.control("--zero")
        for _ in range(count):
            self.post(body)
        self.control("--dump")
        self.control("--instr=off")
        dumps = list(WORK.glob("callgrind.out.*"))
        costs = [sum(map(total_of, dumps))]
        costs += [sum(inclusive_of(dump, name) for dump in dumps) for name in functions]
        for dump in dumps:
            dump.unlink()
        return [cost / count for cost in costs]


def total_of(dump):
    for line in dump.read_text(errors="replace").splitlines():
        if line.startswith("totals:"):
            return int(line.split()[1])
    raise Failure(f"{dump} has no total")


def inclusive_of(dump, function):
    """Instructions of the functions whose name matches, with all that they call."""
    command = ["callgrind_annotate", "--inclusive=yes", "--threshold=100", str(dump)]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    lines = re.findall(r"^\s*([\d,]+) \([^)]*\)\s+(.*)$", out, re.MULTILINE)
    return sum(int(cost.replace(",", "")) for cost, name in lines if re.search(function, name))
