"""A thousand clients that ask for 25 MB each and do not read, beside one that goes on, or beside an overload."""

import contextlib
import http.client
import os
import select
import socket
import subprocess
import threading
import time

import k6
import vegeta
from cpu_quota import cpu_quota
from figures import Phase
from memory import resident_mib, wait_returned
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
# Connections of the other client, at least. Each is used in its turn, so all are open before the thousand come.
CONNECTIONS = 32
# Seconds for which all of them may have a request at the same time.
LONGEST_ANSWER = 0.16
# Of the thousand while they come: the other client must wait for the server, not for them.
NICENESS = 19
# An overload, as in overload.py. The share of a core that the server has.
SHARE = 0.05
# Connections that find the capacity, and for how long.
CAPACITY_CLIENTS = 16
CAPACITY_SECONDS = 4
# Connections at most.
OVERLOAD_CLIENTS_MAX = 4_000
# All clients of an overload connect when it begins: this is not counted.
SETTLES_SECONDS = 1
SAMPLE_SECONDS = 0.25

# What is required: of the clients, in seconds; and of the other client's p99 and goodput, times those before.
EVICTED_MAX = 10
P99_MAX = 1.05
GOODPUT_MIN = 0.8


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
            connect(client, server)
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


class Crowd(threading.Thread):
    """Clients that do not read. They come once the other client is connected: it has had so many answers.
    They share the cores of the load generator."""

    def __init__(self, server, body, answers, seconds, cores):
        super().__init__(daemon=True)
        self.server, self.body, self.seconds, self.stalled = server, body, seconds, None
        self.comes_at, self.cores = answered(server) + answers, cores
        self.newcomer = None

    def run(self):
        if self.cores:
            own = str(threading.get_native_id())
            subprocess.run(["taskset", "-cp", self.cores, own], check=True, stdout=subprocess.DEVNULL)
        while answered(self.server) < self.comes_at:
            time.sleep(SAMPLE_SECONDS)
        connecting = threading.Thread(target=self.connect, daemon=True)
        connecting.start()
        connecting.join()
        if not self.stalled:
            return
        one_more = threading.Thread(target=self.connect_one_more, daemon=True)
        one_more.start()
        ends = time.monotonic() + max(self.seconds, EVICTED_MAX + 5)
        while self.stalled.since and time.monotonic() < ends:
            self.stalled.look()
            time.sleep(0.05)
        one_more.join()

    def connect(self):
        # Of this thread alone.
        os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), NICENESS)
        self.stalled = Stalled(self.server, self.body)

    def connect_one_more(self):
        """Measures how long a client that comes right behind them waits for its answer."""
        came = time.monotonic()
        try:
            self.server.call("eth_blockNumber", [])
            self.newcomer = f"had its answer after {(time.monotonic() - came) * 1_000:.0f} ms"
        except (OSError, http.client.HTTPException, Failure):
            self.newcomer = "was refused"


def connect(client, server):
    """Connects, again and again if that is refused: beside an overload, it may be."""
    while True:
        with contextlib.suppress(ConnectionRefusedError):
            return client.connect(("127.0.0.1", server.port))
        time.sleep(0.01)


def answered(server):
    return sum(metrics(server, "nearhead_requests_total").values())


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
    with cpu_quota(server.pids(), SHARE) if options.load else contextlib.nullcontext():
        return attack(options, server, material)


def generator(options):
    """k6, or vegeta for more than k6 can offer."""
    return vegeta if options.load else k6


def load_of(options, server, workload, url):
    """What the other client sends: at --rate, or so many times the capacity."""
    if not options.load:
        clients = max(CONNECTIONS, round(options.rate * LONGEST_ANSWER))
        return {"rate": options.rate, "clients": clients, "must_answer": True}
    closed = Phase("alone", workload, url, 0, CAPACITY_SECONDS, None, CAPACITY_CLIENTS)
    vegeta.offer("stalled-capacity", [closed], TIMEOUT_MS, options.generator_cores)
    rate = max(1, round(closed.goodput * options.load))
    clients = min(rate * TIMEOUT_MS // 1_000 + 20, OVERLOAD_CLIENTS_MAX)
    return {"rate": rate, "clients": clients, "settles": SETTLES_SECONDS}


def attack(options, server, material):
    workload, body = Workload("mix", server, material), batch(server, material)
    url = f"http://127.0.0.1:{server.port}{server.path}"
    load = load_of(options, server, workload, url)
    budget = metrics(server, "nearhead_reply_bytes")['nearhead_reply_bytes{kind="max"}'] / (1 << 20)

    def measure(title):
        memory = Memory(server)
        memory.start()
        phase = Phase(title, workload, url, start=0, seconds=options.seconds, **load)
        name, cores = f"stalled-{title}", options.generator_cores
        # Most clients ask for it. vegeta always does.
        encoding = {} if options.load else {"encoding": "gzip"}
        generator(options).offer(name, [phase], TIMEOUT_MS, cores, **encoding)
        return phase, *memory.most()

    before = measure("before")
    calm = resident_mib(server)
    answers = load["rate"] // 2 if options.load else 2 * load["clients"]
    crowd = Crowd(server, body, answers, options.seconds, options.generator_cores)
    crowd.start()
    during = measure("during")
    crowd.join()
    stalled = crowd.stalled
    if not stalled:
        raise Failure("the thousand could not connect")
    ended = time.monotonic()
    after = measure("after")
    measured = [before, during, after]
    print(
        f"{CLIENTS} clients that do not read {BATCH_BYTES:,} bytes each; "
        f"the other: {load['rate']:,} requests/s of the mix"
        + (f", {options.load:g} times what {SHARE:.0%} of a core answers" if options.load else "")
    )
    # k6 compares all of them whole.
    whole = ("whole",) if options.load else ()
    table(
        ("", "goodput/s", "refused", "late", "wrong", *whole, "p50 ms", "p99 ms", "resident MiB", "charged MiB"),
        [
            (
                phase.title,
                f"{phase.goodput:,.0f}",
                phase.refused,
                phase.late,
                phase.wrong,
                *(phase.whole_said for _ in whole),
                f"{phase.p50_ms:.2f}",
                f"{phase.p99_ms:.2f}",
                f"{resident:,.0f}",
                f"{charged:,.0f}",
            )
            for phase, resident, charged in measured
        ],
    )
    print(f"a client that came behind them {crowd.newcomer}")
    longest = max(stalled.ended, default=0)
    print(
        f"disconnected: {len(stalled.ended)}, the last after {longest:.1f} s; budget of replies {budget:,.0f} MiB"
    )
    faults = wait_returned(server, calm, ended)
    faults += [fault for phase, _, _ in measured for fault in phase.faults()]
    if len(stalled.ended) < CLIENTS:
        faults.append(f"{CLIENTS - len(stalled.ended)} clients that do not read are still connected")
    if longest > EVICTED_MAX:
        faults.append(f"the last of them was disconnected after {longest:.1f} s, at most {EVICTED_MAX}")
    if during[1] > before[1] + budget:
        faults.append(f"{during[1] - before[1]:.0f} MiB more are resident, at most {budget:.0f}")
    return faults + compared(*(phase for phase, _, _ in measured))


def compared(before, during, after):
    """What is wrong with the other client's answers."""
    faults = [f"{one.title}: the other client has no good answer" for one in (before, during, after) if not one.good]
    if faults:
        return faults
    times, share = during.p99_ms / before.p99_ms, during.goodput / before.goodput
    if times > P99_MAX:
        faults.append(f"the other client's p99 is {times:.2f} times that before, at most {P99_MAX}")
    if share < GOODPUT_MIN:
        faults.append(f"the other client's goodput is {share:.2f} times that before, at least {GOODPUT_MIN}")
    return faults
