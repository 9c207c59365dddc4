"""A plain WebSocket client: masked frames, requests in one write, responses as bytes."""

import collections
import json
import socket
import struct

from servers import Failure


def frame(opcode, payload):
    size = len(payload)
    short = struct.pack("!BB", 0x80 | opcode, 0x80 | min(size, 126 if size < 1 << 16 else 127))
    wide = (
        b""
        if size < 126
        else struct.pack("!H", size)
        if size < 1 << 16
        else struct.pack("!Q", size)
    )
    return short + wide + bytes(4) + payload


class Session:
    """One WebSocket connection to a server."""

    def __init__(self, server, path):
        self.socket = socket.create_connection(("127.0.0.1", server.port), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.socket.sendall(
            (
                f"GET {path} HTTP/1.1\r\nhost: x\r\nconnection: Upgrade\r\nupgrade: websocket\r\n"
                "sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
            ).encode()
        )
        self.stream = self.socket.makefile("rb", buffering=1 << 20)
        if not self.stream.readline().startswith(b"HTTP/1.1 101"):
            raise Failure(f"{server.name} refused the WebSocket handshake")
        while self.stream.readline() != b"\r\n":
            pass

    def send(self, *texts):
        self.socket.sendall(b"".join(frame(1, text.encode()) for text in texts))

    def frame(self):
        """Its first byte and its payload, of the next one that is no ping. Pings are answered."""
        while True:
            first, second = self.stream.read(2)
            size = second & 0x7F
            if size >= 126:
                size = int.from_bytes(self.stream.read(2 if size == 126 else 8))
            payload = self.stream.read(size)
            if first & 0x0F != 9:
                return first, payload
            self.socket.sendall(frame(10, payload))

    def receive(self):
        message = []
        while True:
            first, payload = self.frame()
            if first & 0x0F > 2:
                raise Failure(f"the WebSocket was closed: {payload!r}")
            message.append(payload)
            if first & 0x80:
                return message[0] if len(message) == 1 else b"".join(message)

    def close_code(self):
        """Waits until the server closes the session, and returns the code that it gives."""
        while True:
            first, payload = self.frame()
            if first & 0x0F == 8:
                return int.from_bytes(payload[:2])

    def result(self, text):
        self.send(text)
        response = json.loads(self.receive())
        if "result" not in response:
            raise Failure(f"{text}: {response}")
        return response["result"]

    def fetch(self, texts, at_once):
        """Sends all requests, at most `at_once` in flight; returns the bytes of the responses."""
        waiting, in_flight, read = collections.deque(texts), 0, 0
        while waiting or in_flight:
            now = [waiting.popleft() for _ in range(min(at_once - in_flight, len(waiting)))]
            if now:
                self.send(*now)
                in_flight += len(now)
            response = self.receive()
            if b'"error"' in response[:64] or len(response) < 1000:
                raise Failure(f"a block or its receipts are missing: {response[:200]!r}")
            read += len(response)
            in_flight -= 1
        return read
