"""A geth that is told its blocks one by one, as a consensus client does it, and plain clients of it."""

import base64
import collections
import hashlib
import hmac
import http.client
import json
import shutil
import socket
import subprocess
import sys
import time

from hostile import frame
from servers import GETH, GETH_COMMON, TARGET, WORK, Failure, Server, free_port, prepare_chain, request

# Blocks that a node begins with: the window and what is beside it.
BASE = 130


class Chain:
    """The dev chain of a profile, as a consensus client tells of it, and a node's folder that has its first blocks."""

    def __init__(self, profile, blocks):
        genesis, chain = prepare_chain(profile, BASE + blocks)
        payloads = chain.with_suffix(".payloads")
        self.folder = chain.with_suffix(".geth")
        if not payloads.exists() or payloads.stat().st_mtime < chain.stat().st_mtime:
            print(f"executing the {profile} chain", file=sys.stderr)
            unfinished = payloads.with_suffix(".unfinished")
            with open(unfinished, "wb") as out:
                subprocess.run([str(TARGET / "release/examples/payloads"), str(genesis), str(chain)], stdout=out, check=True)
            unfinished.rename(payloads)
        lines = payloads.read_text().splitlines()
        self.payloads = [json.loads(line) for line in lines]
        # Written once: whoever is measured may have the core on which this runs.
        self.bodies = [(line[:-1] + ', "jsonrpc": "2.0", "id": 1}').encode() for line in lines]
        if not self.folder.exists() or self.folder.stat().st_mtime < payloads.stat().st_mtime:
            self.prepare(genesis)

    def prepare(self, genesis):
        """A node that has taken the genesis and the first blocks, and was stopped."""
        print("a geth takes the genesis and the first blocks", file=sys.stderr)
        unfinished = self.folder.with_suffix(".unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        done = subprocess.run([*Node.command(unfinished), "init", str(genesis)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Failure(f"geth init failed:\n{done.stderr[-2000:]}")
        node = Node(self, unfinished, cores="", told=0)
        try:
            node.tell(BASE)
            node.choose()
            node.rest()
        finally:
            node.server.stop()
        unfinished.rename(self.folder)

    def node(self, cores, prefix=()):
        """Such a node at rest, started on a copy of the folder by a command with this prefix."""
        folder = WORK / "geth"
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        node = Node(self, folder, cores, told=BASE, prefix=prefix)
        node.rest()
        return node


class Node:
    """geth, led over its engine API."""

    @staticmethod
    def command(folder):
        return [str(GETH), "--datadir", str(folder), "--state.scheme", "hash", "--gcmode", "archive"]

    def __init__(self, chain, folder, cores, told, prefix=()):
        self.chain, self.told = chain, told
        port, engine = free_port(), free_port()
        self.server = Server("geth", [
            *prefix, *self.command(folder), "--syncmode", "full", "--networkid", "1337", "--http", "--http.port", str(port), "--http.api", "eth,net,web3",
            "--ws", "--ws.port", str(port), "--ws.api", "eth", "--authrpc.port", str(engine), *GETH_COMMON,
        ], port, "/", cores).wait(120)
        self.engine = http.client.HTTPConnection("127.0.0.1", engine, timeout=60)
        self.secret = bytes.fromhex((folder / "geth/jwtsecret").read_text().strip().removeprefix("0x"))

    def authorization(self):
        """HS256 over the time of issue: geth takes it for a minute."""
        def encode(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")
        signed = encode(b'{"alg":"HS256","typ":"JWT"}') + b"." + encode(json.dumps({"iat": int(time.time())}).encode())
        return "Bearer " + (signed + b"." + encode(hmac.digest(self.secret, signed, hashlib.sha256))).decode()

    def begin(self, body):
        self.engine.request("POST", "/", body, {"Content-Type": "application/json", "Authorization": self.authorization()})

    def end(self):
        response = self.engine.getresponse()
        answer = json.loads(response.read())
        result = answer.get("result") or {}
        status = result.get("payloadStatus", result)
        if status.get("status") != "VALID":
            raise Failure(f"geth's engine answered {response.status} {answer}")

    @property
    def head(self):
        """Of the last block that it was told of."""
        return self.chain.payloads[self.told - 1]["params"][0]

    def tell(self, blocks=1):
        """Hands blocks over, which it executes; the head stays."""
        for _ in range(blocks):
            if self.told == len(self.chain.payloads):
                raise Failure("the chain has no more blocks")
            self.begin(self.chain.bodies[self.told])
            self.end()
            self.told += 1

    def begin_choose(self):
        """Makes the last block that it was told of its head, which it announces; `end` waits for the answer."""
        zero = "0x" + "00" * 32
        state = {"headBlockHash": self.head["blockHash"], "safeBlockHash": zero, "finalizedBlockHash": zero}
        self.begin(request("engine_forkchoiceUpdatedV3", [state, None]))

    def choose(self):
        self.begin_choose()
        self.end()

    def rest(self, seconds=600):
        """Waits until it does nothing: it makes its snapshot of the state, and its index of logs, beside what it is asked."""
        deadline = time.monotonic() + seconds
        before = self.server.cpu_seconds()
        while time.monotonic() < deadline:
            time.sleep(1)
            now = self.server.cpu_seconds()
            if now - before < 0.05:
                return
            before = now
        raise Failure(f"geth was not at rest within {seconds} s")

    def url(self, transport):
        return f"{transport}://127.0.0.1:{self.server.port}"


class Session:
    """A WebSocket as a plain client has it: requests in one go, answers as bytes."""

    def __init__(self, server, path):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall((
            f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
            "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n").encode())
        self.stream = self.socket.makefile("rb", buffering=1 << 20)
        if not self.stream.readline().startswith(b"HTTP/1.1 101"):
            raise Failure(f"{server.name} refused a WebSocket")
        while self.stream.readline() != b"\r\n":
            pass

    def send(self, *texts):
        self.socket.sendall(b"".join(frame(1, text.encode()) for text in texts))

    def receive(self):
        message = []
        while True:
            first, second = self.stream.read(2)
            size = second & 0x7f
            if size >= 126:
                size = int.from_bytes(self.stream.read(2 if size == 126 else 8))
            payload = self.stream.read(size)
            if first & 0x0f == 9:
                self.socket.sendall(frame(10, payload))
            elif first & 0x0f > 2:
                raise Failure(f"a WebSocket was closed: {payload!r}")
            else:
                message.append(payload)
                if first & 0x80:
                    return message[0] if len(message) == 1 else b"".join(message)

    def result(self, text):
        self.send(text)
        answer = json.loads(self.receive())
        if "result" not in answer:
            raise Failure(f"{text}: {answer}")
        return answer["result"]

    def fetch(self, texts, at_once):
        """Asks all of it, so many requests at a time; the bytes of the answers."""
        waiting, under_way, read = collections.deque(texts), 0, 0
        while waiting or under_way:
            now = [waiting.popleft() for _ in range(min(at_once - under_way, len(waiting)))]
            if now:
                self.send(*now)
                under_way += len(now)
            answer = self.receive()
            if b'"error"' in answer[:64] or len(answer) < 1000:
                raise Failure(f"a block or its receipts were not given: {answer[:200]!r}")
            read += len(answer)
            under_way -= 1
        return read
