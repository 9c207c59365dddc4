"""A thousand clients that ask for 25 MB each and do not read, beside one that goes on."""

import select
import socket
import threading
import time

import vegeta
from figures import Phase
from servers import Failure, metrics, request
from tables import table
from workloads import Workload

CLIENTS = 1_000
# Of the answers to one batch: a block's logs, again and again.
BATCH_BYTES = 25_000_000
# Requests of a batch that nearhead answers.
ITEMS_MAX = 1_000
# Bytes that the kernel holds for a client that does not read, about.
RECEIVE_BYTES = 4 << 10
TIMEOUT_MS = 2_000
SAMPLE_SECONDS = 0.25

# What is required: of the clients, in seconds; and of the other client's p99, times that before.
EVICTED_MAX = 10
P99_MAX = 1.05


def batch(server, window):
    """A batch whose answers have so many bytes."""
    one = request("eth_getLogs", [{"blockHash": window.blocks[0]["hash"]}])
    answer, _ = server.post(one)
    count = BATCH_BYTES // len(answer)
    if count > ITEMS_MAX:
        raise Failure(f"{count} answers would be needed: use --chain mainnet, whose blocks have more logs")
    return "[" + ",".join([one] * count) + "]"


class Stalled:
    """Clients that send a batch and read nothing."""

    def __init__(self, server, body):
        head = f"POST {server.path} HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\n\r\n"
        self.poll, self.since, self.ended = select.poll(), {}, []
        for _ in range(CLIENTS):
            client = socket.socket()
            client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, RECEIVE_BYTES)
            client.connect(("127.0.0.1", server.port))
            client.sendall((head + body).encode())
            self.since[client.fileno()] = client, time.monotonic()
            self.poll.register(client, select.POLLRDHUP)

    def look(self):
        """Notes who has been disconnected."""
        for descriptor, _ in self.poll.poll(0):
            client, since = self.since.pop(descriptor)
            self.ended.append(time.monotonic() - since)
            self.poll.unregister(client)
            client.close()


class Memory(threading.Thread):
    """The most that was resident, and the most that was charged, while it ran."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.resident, self.charged, self.ends = server, 0, 0, threading.Event()

    def run(self):
        while not self.ends.wait(SAMPLE_SECONDS):
            self.resident = max(self.resident, self.server.resident_kib())
            used = metrics(self.server, "nearhead_reply_bytes")['nearhead_reply_bytes{kind="used"}']
            self.charged = max(self.charged, used)

    def most(self):
        self.ends.set()
        self.join()
        return self.resident / 1024, self.charged / (1 << 20)


def run(options, servers, window):
    """Prints one table, and returns what is wrong."""
    (server,) = servers
    material = window(server)
    workload, body = Workload("mix", server, material), batch(server, material)
    url = f"http://127.0.0.1:{server.port}{server.path}"
    budget = metrics(server, "nearhead_reply_bytes")['nearhead_reply_bytes{kind="max"}'] / (1 << 20)

    def measure(title):
        memory = Memory(server)
        memory.start()
        phase = Phase(title, workload, url, 0, options.seconds, options.rate, options.rate * 2, must_answer=True)
        vegeta.offer(f"stalled-{title}", [phase], TIMEOUT_MS, options.generator_cores)
        return phase, *memory.most()

    before = measure("before")
    stalled = Stalled(server, body)
    looking = threading.Thread(target=watch, args=(stalled, options.seconds), daemon=True)
    looking.start()
    during = measure("during")
    looking.join()
    after = measure("after")
    measured = [before, during, after]
    print(
        f"{CLIENTS} clients that do not read {BATCH_BYTES:,} bytes each; "
        f"the other: {options.rate} requests/s of the mix"
    )
    table(
        ("", "goodput/s", "refused", "late", "wrong", "p50 ms", "p99 ms", "resident MiB", "charged MiB"),
        [
            (
                phase.title,
                f"{phase.goodput:,.0f}",
                phase.refused,
                phase.late,
                phase.wrong,
                f"{phase.p50_ms:.2f}",
                f"{phase.p99_ms:.2f}",
                f"{resident:,.0f}",
                f"{charged:,.0f}",
            )
            for phase, resident, charged in measured
        ],
    )
    longest = max(stalled.ended, default=0)
    print(
        f"disconnected: {len(stalled.ended)}, the last after {longest:.1f} s; budget of replies {budget:,.0f} MiB; "
        f"resident in the end {server.resident_kib() / 1024:,.0f} MiB"
    )
    faults = [fault for phase, _, _ in measured for fault in phase.faults()]
    if len(stalled.ended) < CLIENTS:
        faults.append(f"{CLIENTS - len(stalled.ended)} clients that do not read are still connected")
    if longest > EVICTED_MAX:
        faults.append(f"the last of them was disconnected after {longest:.1f} s, at most {EVICTED_MAX}")
    if during[1] > before[1] + budget:
        faults.append(f"{during[1] - before[1]:.0f} MiB more are resident, at most {budget:.0f}")
    times = during[0].p99_ms / before[0].p99_ms
    if times > P99_MAX:
        faults.append(f"the other client's p99 is {times:.2f} times that before, at most {P99_MAX}")
    return faults


def watch(stalled, seconds):
    ends = time.monotonic() + max(seconds, EVICTED_MAX + 5)
    while stalled.since and time.monotonic() < ends:
        stalled.look()
        time.sleep(0.05)
