"""A fleet: a Redis, and nearheads that share what one of them follows."""

import contextlib
import multiprocessing
import os
import re
import secrets
import signal
import socket
import subprocess
import threading

from servers import ROOT, WORK, Failure, Server, free_port, start_nearhead

REDIS = ROOT / "tests" / ".tools" / "bin" / "redis-server"


class Redis(Server):
    """A Redis as a fleet needs it."""

    def __init__(self, cores):
        if not REDIS.exists():
            subprocess.run([str(ROOT / "tests/setup"), "redis"], check=True)
        port = free_port()
        folder = WORK / f"redis-{port}"
        folder.mkdir(parents=True, exist_ok=True)
        command = [str(REDIS), "--port", str(port), "--bind", "127.0.0.1", "--dir", str(folder)]
        command += ["--save", "", "--appendonly", "yes"]
        super().__init__("redis", command, port, "/", cores)
        self.wait(20)

    def info(self, name):
        """A number that Redis states of itself."""
        with socket.create_connection(("127.0.0.1", self.port)) as connection:
            connection.sendall(b"INFO\r\n")
            stream = connection.makefile("rb")
            size = int(stream.readline()[1:])
            text = stream.read(size).decode()
        return int(re.search(rf"^{name}:(\d+)", text, re.MULTILINE).group(1))


class Link:
    """A way to a node or a Redis that counts the calls of JSON-RPC and can be cut: one process, whose
    time is not that of the fleet."""

    def __init__(self, port):
        listener = socket.create_server(("127.0.0.1", 0))
        self.port = listener.getsockname()[1]
        self.calls = multiprocessing.Value("q", 0)
        arguments = (listener, port, self.calls)
        self.process = multiprocessing.Process(target=count, args=arguments, daemon=True)
        self.process.start()
        listener.close()

    def cut(self):
        """From now on, nothing passes in either direction, and nothing is refused."""
        os.kill(self.process.pid, signal.SIGSTOP)

    def stop(self):
        self.process.kill()
        self.process.join()


def count(listener, port, calls):
    while True:
        client = listener.accept()[0]
        node = socket.create_connection(("127.0.0.1", port))
        for one in (client, node):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for pair in ((client, node, calls), (node, client, None)):
            threading.Thread(target=pass_on, args=pair, daemon=True).start()


def pass_on(source, target, calls):
    # What ends a piece of bytes may begin the next word.
    word, rest = b'"method"', b""
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 18):
            if calls is not None:
                found = (rest + data).count(word)
                rest = data[-len(word) + 1 :]
                with calls.get_lock():
                    calls.value += found
            target.sendall(data)
        target.shutdown(socket.SHUT_WR)


class Fleet:
    """Processes over one Redis: those with nodes, and those without."""

    def __init__(self, genesis, redis, cores, further=()):
        self.genesis, self.redis, self.cores, self.further = genesis, redis, cores, further
        self.secret = secrets.token_hex(32)
        self.servers = []

    def join(self, name, node=None, link=None):
        """Starts a process, and waits until it serves. A link is its way to Redis."""
        options = ["--source", "node", "--genesis", str(self.genesis), *self.further]
        port = (link or self.redis).port
        options += ["--fleet", f"redis://127.0.0.1:{port}", "--fleet-key", self.secret]
        if node:
            options += ["--node", f"http://127.0.0.1:{node}"]
        server = start_nearhead(options, self.cores, name=name)
        self.servers.append(server)
        return server

    def leave(self, server):
        """Kills a process."""
        server.process.kill()
        server.process.wait()
        self.servers.remove(server)

    def stop(self):
        for server in self.servers:
            server.stop()


def role(server, metrics):
    """What a process is in its fleet."""
    for name, value in metrics(server).items():
        if value == 1 and (found := re.match(r'nearhead_fleet_role\{role="(\w+)"\}', name)):
            return found.group(1)
    raise Failure(f"{server.name} has no role")
