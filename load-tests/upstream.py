"""A geth that receives its blocks one by one over the engine API, as from a consensus client."""

import base64
import hashlib
import hmac
import http.client
import json
import shutil
import subprocess
import sys
import time

from chains import prepare_chain
from servers import GETH, GETH_COMMON, TARGET, WORK, Failure, Server, free_port, request

# Blocks that an upstream starts with: the window and two more.
BASE = 130


class Chain:
    """A profile of the dev chain as engine API payloads, and a data folder with its first blocks."""

    def __init__(self, profile, blocks):
        self.genesis, chain = prepare_chain(profile, BASE + blocks)
        payloads = chain.with_suffix(".payloads")
        self.folder = chain.with_suffix(".geth")
        if not payloads.exists() or payloads.stat().st_mtime < chain.stat().st_mtime:
            print(f"executing the {profile} chain", file=sys.stderr)
            unfinished = chain.with_suffix(".payloads-unfinished")
            with open(unfinished, "wb") as out:
                subprocess.run(
                    [str(TARGET / "release/examples/payloads"), str(self.genesis), str(chain)],
                    stdout=out,
                    check=True,
                )
            unfinished.rename(payloads)
        lines = payloads.read_text().splitlines()
        self.payloads = [json.loads(line) for line in lines]
        # Serialized once: a measured server may run on the same core.
        self.bodies = [(line[:-1] + ', "jsonrpc": "2.0", "id": 1}').encode() for line in lines]
        if not self.folder.exists() or self.folder.stat().st_mtime < payloads.stat().st_mtime:
            self.prepare()

    def prepare(self):
        """Creates the data folder with the genesis and the first blocks."""
        print("importing the first blocks into geth", file=sys.stderr)
        unfinished = self.folder.with_suffix(".geth-unfinished")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.rmtree(self.folder, ignore_errors=True)
        done = subprocess.run(
            [*Upstream.command(unfinished), "init", str(self.genesis)], capture_output=True, text=True
        )
        if done.returncode != 0:
            raise Failure(f"geth init failed:\n{done.stderr[-2000:]}")
        upstream = Upstream(self, unfinished, cores="", sent=0)
        try:
            upstream.send(BASE)
            upstream.set_head()
            upstream.wait_idle()
        finally:
            upstream.server.stop()
        unfinished.rename(self.folder)

    def start(self, cores, prefix=(), name="geth"):
        """Starts an idle upstream on a copy of the folder; `prefix` goes before its command. Those
        that run at the same time need names."""
        folder = WORK / name
        shutil.rmtree(folder, ignore_errors=True)
        shutil.copytree(self.folder, folder)
        upstream = Upstream(self, folder, cores, BASE, prefix, name)
        upstream.wait_idle()
        return upstream


def connect_patiently(connection, seconds=60):
    """Connects once the server listens: geth's engine API does so after its HTTP server."""
    deadline = time.monotonic() + seconds
    while True:
        try:
            return connection.connect()
        except ConnectionRefusedError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.1)


class Upstream:
    """A geth that is driven over its engine API."""

    @staticmethod
    def command(folder):
        return [
            str(GETH),
            "--datadir",
            str(folder),
            "--state.scheme",
            "hash",
            "--gcmode",
            "archive",
        ]

    def __init__(self, chain, folder, cores, sent, prefix=(), name="geth"):
        self.chain, self.sent = chain, sent
        port, engine = free_port(), free_port()
        self.server = Server(
            name,
            [
                *prefix,
                *self.command(folder),
                "--syncmode",
                "full",
                "--networkid",
                "1337",
                "--http",
                "--http.port",
                str(port),
                "--http.api",
                "eth,net,web3,debug",
                "--ws",
                "--ws.port",
                str(port),
                "--ws.api",
                "eth,web3,debug",
                "--authrpc.port",
                str(engine),
                *GETH_COMMON,
            ],
            port,
            "/",
            cores,
        ).wait(120)
        self.engine = http.client.HTTPConnection("127.0.0.1", engine, timeout=60)
        connect_patiently(self.engine)
        self.secret = bytes.fromhex(
            (folder / "geth/jwtsecret").read_text().strip().removeprefix("0x")
        )

    def authorization(self):
        """A JWT (HS256) with the time of issue, which geth accepts for a minute."""

        def encode(data):
            return base64.urlsafe_b64encode(data).rstrip(b"=")

        signed = (
            encode(b'{"alg":"HS256","typ":"JWT"}')
            + b"."
            + encode(json.dumps({"iat": int(time.time())}).encode())
        )
        return (
            "Bearer "
            + (signed + b"." + encode(hmac.digest(self.secret, signed, hashlib.sha256))).decode()
        )

    def begin(self, body):
        self.engine.request(
            "POST",
            "/",
            body,
            {"Content-Type": "application/json", "Authorization": self.authorization()},
        )

    def end(self):
        response = self.engine.getresponse()
        answer = json.loads(response.read())
        result = answer.get("result") or {}
        status = result.get("payloadStatus", result)
        if status.get("status") != "VALID":
            raise Failure(f"geth's engine answered {response.status} {answer}")

    @property
    def head(self):
        """The payload of the last block that was sent."""
        return self.chain.payloads[self.sent - 1]["params"][0]

    def send(self, blocks=1):
        """Sends the next blocks, which geth executes; its head does not change."""
        for _ in range(blocks):
            if self.sent == len(self.chain.payloads):
                raise Failure("the chain has no more blocks")
            self.begin(self.chain.bodies[self.sent])
            self.end()
            self.sent += 1

    def begin_set_head(self):
        """Makes the last block the head, which geth announces; `end` waits for the response."""
        zero = "0x" + "00" * 32
        state = {
            "headBlockHash": self.head["blockHash"],
            "safeBlockHash": zero,
            "finalizedBlockHash": zero,
        }
        self.begin(request("engine_forkchoiceUpdatedV3", [state, None]))

    def set_head(self):
        self.begin_set_head()
        self.end()

    def wait_idle(self, seconds=600):
        """Waits until geth is idle: it builds its snapshot and its log index in the background."""
        self.server.wait_idle(seconds)
