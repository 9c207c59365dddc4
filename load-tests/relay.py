"""Relays between servers and their clients that can hold back what the servers send.

A client sees a server behind a relay as one on another machine: whatever the servers do at the same
time on one core, their messages arrive when the relays are released.
"""

import contextlib
import multiprocessing
import os
import selectors
import socket
import time

CHUNK = 1 << 18


class Relays:
    """One process with a relay for each of these servers. They hold nothing back at first."""

    def __init__(self, servers, cores):
        listeners = []
        for _ in servers:
            listener = socket.create_server(("127.0.0.1", 0))
            listeners.append(listener)
        self.ports = [listener.getsockname()[1] for listener in listeners]
        self.pipe, there = multiprocessing.Pipe()
        ports = [server.port for server in servers]
        self.process = multiprocessing.Process(
            target=relay, args=(there, listeners, ports, cores), daemon=True
        )
        self.process.start()
        there.close()
        for listener in listeners:
            listener.close()

    def hold(self):
        """From now on, nothing that the servers send reaches a client."""
        return self.ask("hold", range(len(self.ports)))

    def release(self, places):
        """Lets these servers' messages through; returns when, in ns since the epoch."""
        return self.ask("release", places)

    def ask(self, what, places):
        self.pipe.send((what, list(places)))
        return self.pipe.recv()

    def stop(self):
        self.process.kill()
        self.process.join()


def relay(pipe, listeners, ports, cores):
    if cores:
        os.sched_setaffinity(0, {int(core) for core in cores.split(",")})
    # A network does not wait for the servers' core. Setting a real-time class needs a privilege.
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
    Relay(pipe, listeners, ports).run()


class Relay:
    def __init__(self, pipe, listeners, ports):
        self.pipe, self.ports = pipe, ports
        self.held = set()
        # By place: the connections to the server, each with the client's.
        self.pairs = [{} for _ in ports]
        self.selector = selectors.DefaultSelector()
        self.selector.register(pipe, selectors.EVENT_READ, self.obey)
        for place, listener in enumerate(listeners):
            accept = lambda place=place, listener=listener: self.accept(place, listener)
            self.selector.register(listener, selectors.EVENT_READ, accept)

    def run(self):
        while True:
            for key, _ in self.selector.select():
                # An earlier one of these events may have closed its connection.
                if key.fileobj in self.selector.get_map():
                    key.data()

    def obey(self):
        what, places = self.pipe.recv()
        now = time.time_ns()
        for place in places:
            if what == "hold" and place not in self.held:
                self.held.add(place)
                for server in self.pairs[place]:
                    self.selector.unregister(server)
            elif what == "release" and place in self.held:
                self.held.remove(place)
                for server, client in list(self.pairs[place].items()):
                    self.forward(place, server, client)
        self.pipe.send(now)

    def accept(self, place, listener):
        client = listener.accept()[0]
        server = socket.create_connection(("127.0.0.1", self.ports[place]))
        for one in (client, server):
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.pairs[place][server] = client
        pump = lambda: self.pump(client, server) or self.close(place, server)
        self.selector.register(client, selectors.EVENT_READ, pump)
        if place not in self.held:
            self.forward(place, server, client)

    def forward(self, place, server, client):
        """Passes on what the server sends, beginning with what is there."""
        pump = lambda: self.pump(server, client) or self.close(place, server)
        self.selector.register(server, selectors.EVENT_READ, pump)
        pump()

    def pump(self, source, target):
        """Whether the connection is still open."""
        try:
            data = source.recv(CHUNK, socket.MSG_DONTWAIT)
            target.sendall(data)
            return bool(data)
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self, place, server):
        client = self.pairs[place].pop(server)
        for one in (client, server):
            with contextlib.suppress(KeyError):
                self.selector.unregister(one)
            one.close()
