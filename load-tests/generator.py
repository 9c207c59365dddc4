"""The load generator of WebSocket sessions, load-tests/sessions.rs, as a child process."""

import json
import subprocess

from servers import TARGET, WORK, Failure, pinned

# The generator connects from these addresses in turn, so that none runs out of ports.
SOURCES = [f"127.0.0.{n}" for n in range(1, 9)]


class Generator:
    """The load generator: one line of JSON for each command and each result."""

    def __init__(self, server, path, cores):
        self.name, self.address, self.path = server.name, f"127.0.0.1:{server.port}", path
        self.log = open(WORK / "sessions.log", "w+")
        self.process = subprocess.Popen(
            pinned([str(TARGET / "release/examples/sessions")], cores),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self.log,
            text=True,
            bufsize=1,
        )

    def begin(self, name, **options):
        self.process.stdin.write(json.dumps({name: options} if options else name) + "\n")

    def end(self):
        line = self.process.stdout.readline()
        if not line:
            self.process.wait()
            self.log.seek(0)
            raise Failure(f"sessions of {self.name}: {self.log.read()[-2000:]}")
        return json.loads(line)

    def do(self, name, **options):
        self.begin(name, **options)
        return self.end()

    def open(self, count):
        return self.do(
            "open", server=self.address, path=self.path, count=count, **{"from": SOURCES}
        )

    def heads(self, count, messages, after=0):
        return self.do(
            "heads", after=after, count=count, messages=messages, seconds=count * 3 + 20
        )["heads"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()
