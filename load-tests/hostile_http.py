"""Hostile clients over HTTP, for `load-tests/hostile.py`: clients that read slowly, strangers without a key, and floods
of the most expensive requests, as in tests/it (replies.rs, strangers.rs, admission.rs).

Half-done TLS handshakes are not among them, because the soak serves no TLS: tests/it/tls has those.
"""

import contextlib
import http.client
import json
import re
import select
import socket
import sys
import threading
import time

# Until a client that waits for the server gives up.
PATIENCE_SECONDS = 20


class Target:
    """The server that is attacked, and what came of it: connections, and requests or handshakes that were answered or
    refused, as far as an attack reads that."""

    def __init__(self, port, path):
        self.port, self.path, self.connected, self.answered, self.refused = port, path, 0, 0, 0

    def connect(self, host=None, receive_bytes=None):
        """A connection from 127.0.0.`host`, whose kernel buffers about so many bytes."""
        client = socket.socket()
        client.settimeout(PATIENCE_SECONDS)
        try:
            if receive_bytes:
                client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
            if host:
                client.bind((f"127.0.0.{host}", 0))
            client.connect(("127.0.0.1", self.port))
        except OSError:
            client.close()
            raise
        self.connected += 1
        return client


def post(path, body):
    head = f"POST {path} HTTP/1.1\r\nhost: a\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return (head + body).encode()


def call(method, params):
    return json.dumps({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})


# --- clients that read slowly --------------------------------------------------------------------

READERS = 26
# The most calls that a batch may have. Each answer has 24 KB on the dev chain.
BATCH = "[" + ",".join([call("eth_getLogs", [{"fromBlock": "earliest"}])] * 1_000) + "]"
RECEIVE_BYTES = 4 << 10
# Of a response's head, at most; and of a response that no buffer of the kernel has room for.
HEAD_BYTES = 1 << 10
LARGE_BYTES_MIN = 10_000_000


def never_read_large_batches(target):
    read_large_batches(target, read=0)


def read_large_batches_slowly(target):
    read_large_batches(target, read=1)


def read_large_batches(target, read):
    """Clients that ask for 25 MB each and read this many bytes a second. Who is refused or cut off asks again."""
    request, readers = post(target.path, BATCH), []
    while True:
        for _ in range(READERS - len(readers)):
            # One that fails leaves the others as they are.
            with contextlib.suppress(OSError):
                readers.append(Reader(target, request, read))
        time.sleep(1)
        for reader in readers:
            reader.go_on(target)
        readers = [reader for reader in readers if reader.is_open]


class Reader:
    """A client that has asked for a large answer."""

    def __init__(self, target, request, read):
        self.client, self.read = target.connect(receive_bytes=RECEIVE_BYTES), read
        self.is_open, self.is_answered = True, False
        try:
            self.client.sendall(request)
        except OSError:
            self.client.close()
            raise
        self.client.setblocking(False)
        self.poll = select.poll()
        self.poll.register(self.client, select.POLLRDHUP)

    def go_on(self, target):
        """Looks whether there is an answer, and reads a little of it. It leaves the head unread until then."""
        if not self.is_answered:
            self.look(target)
        has_ended = bool(self.poll.poll(0))
        if has_ended or self.is_answered and self.read and not is_read(self.client, self.read):
            self.is_open = False
        if not self.is_open:
            self.client.close()

    def look(self, target):
        """Counts the answer or the refusal that has arrived."""
        try:
            head = self.client.recv(HEAD_BYTES, socket.MSG_PEEK)
        except BlockingIOError:
            return
        except OSError:
            self.is_open = False
            return
        if is_large(head):
            self.is_answered = True
            target.answered += 1
            return
        # A refusal, or the end of the connection.
        self.is_open = False
        target.refused += head[9:12] in (b"429", b"503")


def is_large(head):
    """Whether this is the head of a large response: a large one comes in chunks, without its length."""
    length = re.search(rb"content-length: (\d+)", head, re.IGNORECASE)
    return head[9:12] == b"200" and (not length or int(length.group(1)) >= LARGE_BYTES_MIN)


def is_read(client, count):
    """Reads so many bytes of what is there; whether the connection is open."""
    client.setblocking(False)
    try:
        return bool(client.recv(count))
    except BlockingIOError:
        return True
    except OSError:
        return False


# --- strangers -----------------------------------------------------------------------------------

STRANGERS = 230
ADDRESSES = 23
# So few that they are throttled.
GUESSING_ADDRESSES = 4
# Slow enough that a new connection sends its key before two such crowds displace it.
CONNECT_EVERY = 0.01


def strangers_stay_idle(target):
    stay(target, b"", b"")


def strangers_drip_their_headers(target):
    stay(target, b"GET /health HTTP/1.1\r\n", b"x")


def stay(target, first, each_second):
    """Strangers who send `first`, then `each_second`. Who is displaced connects again."""
    strangers = {}
    while True:
        for at in range(STRANGERS):
            if at not in strangers:
                time.sleep(CONNECT_EVERY)
                # One that fails leaves the others as they are.
                with contextlib.suppress(OSError):
                    strangers[at] = target.connect(host=2 + at % ADDRESSES)
                    strangers[at].sendall(first)
        time.sleep(1)
        for at, stranger in list(strangers.items()):
            if not is_read(stranger, 4_096) or not is_sent(stranger, each_second):
                strangers.pop(at).close()


def is_sent(client, data):
    try:
        client.send(data)
        return True
    except BlockingIOError:
        return True
    except OSError:
        return False


def strangers_guess_keys(target):
    """Also from the address of clients that have a key: those are not to be throttled for it."""
    while True:
        time.sleep(CONNECT_EVERY)
        guess = target.connected
        with target.connect(host=1 + guess % GUESSING_ADDRESSES) as stranger:
            stranger.sendall(post(f"/v3/guess-{guess}", call("eth_chainId", [])))
            status = stranger.recv(4_096)[9:12]
        # Nothing: this stranger was displaced.
        target.answered += status == b"401"
        if status not in (b"401", b"429", b""):
            wrong(f"a guess of a key: {status}")
        target.refused += status == b"429"


# --- floods --------------------------------------------------------------------------------------

FLOODING = 64
TOKEN = "0xde00000000000000000000000000000000000001"


def floods_proofs(target):
    """The largest proof that one request may ask for."""
    keys = [hex(key) for key in range(1_024)]
    flood(target, call("eth_getProof", [TOKEN, keys, "latest"]), lambda result: len(result["storageProof"]) == 1_024)


def floods_filters(target):
    """The largest log filter, which matches nothing."""
    topics = [f"0x{topic:064x}" for topic in range(1, 5_001)]
    flood(target, call("eth_getLogs", [{"fromBlock": "earliest", "topics": [topics]}]), lambda result: result == [])


def flood(target, body, holds):
    """Clients that send this again as soon as they have the answer or the refusal."""
    faults = []
    for _ in range(FLOODING):
        threading.Thread(target=ask_forever, args=(target, body, holds, faults), daemon=True).start()
    while not faults:
        time.sleep(1)
    wrong(faults[0])


def ask_forever(target, body, holds, faults):
    # Parsing each answer would slow the flood down, and the same answer comes again and again.
    seen = set()
    while not faults:
        try:
            client = http.client.HTTPConnection("127.0.0.1", target.port, timeout=PATIENCE_SECONDS)
            client.connect()
            target.connected += 1
            while not faults:
                client.request("POST", target.path, body, {"Content-Type": "application/json"})
                response = client.getresponse()
                answer = response.read()
                target.answered += response.status == 200
                if response.status in (429, 503):
                    target.refused += 1
                elif response.status != 200:
                    faults.append(f"status {response.status}: {answer[:200]!r}")
                elif hash(answer) not in seen:
                    if not is_right(answer, holds):
                        faults.append(f"a wrong answer: {answer[:200]!r}")
                    seen = {hash(answer)}
        except (OSError, http.client.HTTPException):
            # The server closed the connection: connect again.
            time.sleep(0.01)


def is_right(answer, holds):
    try:
        return holds(json.loads(answer)["result"])
    except (ValueError, KeyError, TypeError):
        return False


def wrong(what):
    print(what, file=sys.stderr)
    raise SystemExit(1)


# Readers and floods have the paths of two keys that nobody else has.
OF_READERS = {attack.__name__: attack for attack in (never_read_large_batches, read_large_batches_slowly)}
OF_FLOODS = {attack.__name__: attack for attack in (floods_proofs, floods_filters)}
OF_STRANGERS = {
    attack.__name__: attack
    for attack in (strangers_stay_idle, strangers_drip_their_headers, strangers_guess_keys)
}
# Strangers that send no whole request, so nobody answers them.
UNANSWERED = {strangers_stay_idle.__name__, strangers_drip_their_headers.__name__}
# The attack whose requests are all refused, in one way or another.
GUESSES = strangers_guess_keys.__name__


def was_made(attack, connected, answered, refused):
    """Whether these counts show that the attack reached the server."""
    if attack in UNANSWERED:
        return connected > 0
    return answered + refused > 0 if attack == GUESSES else answered > 0
