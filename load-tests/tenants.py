"""Keys of a store: what they cost beside one key by flag, and how soon changes of them hold.

`load-tests/compare --only tenants` runs all parts. They serve the chain of execution-apis, except
the last one, which needs blocks that arrive.
"""

import concurrent.futures
import http.client
import json
import os
import shutil
import statistics
import subprocess
import threading
import time

from callgrind import Counted, require_valgrind
from chains import files_of, prepare_chain
from generator import Generator
from servers import KEY, ROOT, TARGET, WORK, Failure, request, start_nearhead
from tables import table
from websocket import Session
from wrk import command as wrk_command
from wrk import drive, exact_figures

KEYS, TENANTS = 100_000, 1_000
# Lets the load generator administer.
TOKEN = "compare-tenants-token"
# A key by flag that is as long as those of the store, so that requests have the same size.
FLAG = f"{KEY:0<43}"
BY_FLAG = ["--api-key", f"flag={FLAG}"]
CHAIN_ID = request("eth_chainId", [])
# How often each server is started, in turns.
STARTS = 5
ONE_KEY = f"one of {KEYS:,} keys"
# Usage is written every seven seconds.
FLUSHES_SECONDS = 20
# Longer than a minute, so that the usage of two minutes is in memory at once.
USED_SECONDS = 75
# Requests that callgrind counts.
COUNTED = 500
# What counts a request for the usage of its key.
RECORDING = r"usage_meter.*UsageMeter.*request"
# What writes usage, every seven seconds: whether that falls among the counted requests is chance.
WRITING = r"nearhead_tenants::administration::Administration::add_usage"
# Of each kind.
REVOCATIONS = 10
REVOKED_UNTIL = ("the call is answered", "a request is refused", "the last session is closed")
CLOSED_UNAUTHORIZED = 4401
# Sessions of the key that is revoked, which send nothing, and of the driven key.
IDLE_SESSIONS, LOAD_SESSIONS = 10, 20
LOAD_SECONDS = 3
# Keys that are changed at once.
AT_ONCE = 50


class Store:
    """A data folder with the keys of `KEYS`."""

    def __init__(self, name, options):
        """`options` are those of the chain."""
        self.data, self.options = WORK / f"tenants-{name}", options
        shutil.rmtree(self.data, ignore_errors=True)
        # nearhead makes the chain's folder.
        self.start("0").stop()
        (folder,) = (path for path in self.data.iterdir() if path.is_dir())
        program = str(TARGET / "release/examples/fill_store")
        command = [program, str(folder), str(KEYS), str(TENANTS), TOKEN]
        out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
        # What clients present, and the id.
        self.keys = [tuple(line.split()) for line in out.splitlines()]
        # Every second key asks for an origin, and no other.
        self.open_keys = self.keys[::2]

    def start(self, cores):
        return start_tenants("full", self.options, cores, data=self.data)


def start_tenants(name, options, cores, **more):
    """A nearhead with the key by flag."""
    return start_nearhead([*options, *BY_FLAG], cores, name=name, **more)


def path_of(key):
    return f"/v3/{key}"


# --- what keys cost ------------------------------------------------------------------------------


def seconds_to_answer(start):
    """Starts a server: it, the seconds until it answers a request, and its CPU seconds until then."""
    began = time.monotonic()
    server = start()
    server.path = path_of(FLAG)
    server.call("eth_chainId", [])
    return server, time.monotonic() - began, server.cpu_seconds()


def cost(options):
    """Start, memory and CPU of a cheap request, with one key by flag and with a full store."""
    chain = files_of(*prepare_chain("execution-apis"))
    store = Store("files", chain)
    starts = {
        "one key by flag": lambda: start_tenants("flag", chain, options.server_cores),
        f"{KEYS:,} keys in the store": lambda: store.start(options.server_cores),
    }
    (one, full), running = list(starts), {}
    times, memory = {name: [] for name in starts}, {name: [] for name in starts}
    try:
        for _ in range(STARTS):
            for name, start in starts.items():
                if name in running:
                    running.pop(name).stop()
                running[name], *taken = seconds_to_answer(start)
                time.sleep(1)
                times[name].append(taken)
                memory[name].append(running[name].resident_kib() / 1024)
        print_start(times, memory)
        before = [running[name].resident_kib() / 1024 for name in (one, full)]
        print_cheap_requests(options, running, store)
        after = [running[name].resident_kib() / 1024 for name in (one, full)]
        print(
            f"memory of these two before and after the requests: by flag {before[0]:.0f} and {after[0]:.0f} MiB, "
            f"full {before[1]:.0f} and {after[1]:.0f} MiB; difference after them "
            f"{(after[1] - after[0]) * 1.048576:.0f} MB (goal <= 100)"
        )
    finally:
        for server in running.values():
            server.stop()


def print_start(times, memory):
    rows = []
    for name, taken in times.items():
        wall, cpu = (list(column) for column in zip(*taken))
        median, mib = statistics.median(wall), statistics.median(memory[name])
        rows.append((name, median, max(wall), statistics.median(cpu), mib))
    print(f"\nstart until a request is answered, {STARTS} times in turns")
    table(
        ("server", "s, median", "s, longest", "CPU s", "resident MiB"),
        [
            (name, f"{median:.2f}", f"{most:.2f}", f"{cpu:.2f}", f"{mib:.1f}")
            for name, median, most, cpu, mib in rows
        ],
    )
    (_, _, _, cpu, mib), (_, _, most, full_cpu, full_mib) = rows
    print(f"longest start with the full store: {most:.2f} s (goal <= 2), {full_cpu - cpu:.2f} s of CPU more")
    print(f"memory: {(full_mib - mib) * 1.048576:.0f} MB more (goal <= 100)")


def print_cheap_requests(options, running, store):
    """CPU of eth_chainId: the key by flag and one key of the store in turns, then many keys."""
    flag, full = running.values()
    in_turn = [path_of(key) for key, _ in store.open_keys]
    rows = {"one key by flag": (flag, path_of(FLAG), ()), ONE_KEY: (full, in_turn[0], ())}
    if options.before:
        before = start_tenants("before", store.options, options.server_cores, program=options.before)
        running["before"] = before
        rows["one key by flag, before"] = (before, path_of(FLAG), ())
    print_in_turns(options, rows, options.seconds)
    print(f"goal of {ONE_KEY} / one key by flag: <= 1.03")
    # Whole rounds have what it costs to write the usage of these keys, which later rounds of
    # another row would have to bear.
    print_in_turns(
        options,
        {
            "one key by flag": (flag, path_of(FLAG), ()),
            f"{len(in_turn):,} of {KEYS:,} keys in turn": (full, in_turn[0], in_turn),
        },
        FLUSHES_SECONDS,
    )


def print_in_turns(options, rows, seconds):
    """CPU of eth_chainId with each of these keys, in rounds; the first row is the baseline."""
    figures = {name: [] for name in rows}
    for number in range(options.rounds + 1):
        for name, (server, path, paths) in rows.items():
            server.path = path
            _, size = server.post(CHAIN_ID)
            wrk = (options.connections, options.wrk_cores, paths)
            figures[name].append(drive(server, CHAIN_ID, size, seconds if number else 1, *wrk))
    # The first round warms up.
    figures = {name: rounds[1:] for name, rounds in figures.items()}
    base = next(iter(figures.values()))
    print(f"\neth_chainId, medians of {options.rounds} rounds of {seconds} s in turns")
    table(
        ("key", "req/s", "CPU µs", "/ the first", "of each round", "p99 ms"),
        [
            (
                name,
                f"{statistics.median(one[0] for one in rounds):.0f}",
                f"{statistics.median(one[1] for one in rounds):.2f}",
                f"{statistics.median(ratios):.3f}",
                ", ".join(f"{ratio:.2f}" for ratio in ratios),
                f"{statistics.median(one[2] for one in rounds):.2f}",
            )
            for name, rounds in figures.items()
            for ratios in [[one[1] / other[1] for one, other in zip(rounds, base)]]
        ],
    )


# --- what used keys cost -------------------------------------------------------------------------


class Largest(threading.Thread):
    """The largest resident memory of a server since `start`, in MiB."""

    def __init__(self, server):
        super().__init__(daemon=True)
        self.server, self.mib, self.ended = server, 0, threading.Event()

    def run(self):
        while not self.ended.wait(0.2):
            self.mib = max(self.mib, self.server.resident_kib() / 1024)

    def end(self):
        self.ended.set()
        self.join()
        return self.mib


def use(server, paths):
    """Sends requests to each path in turn, for some flushes of usage; the largest memory in MiB."""
    largest = Largest(server)
    largest.start()
    command = wrk_command(server, CHAIN_ID, USED_SECONDS, 32, "", paths)
    out = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    requests, _, failed, *_ = exact_figures(out)
    if failed or requests < 2 * len(paths):
        raise Failure(f"{server.name}: {requests} requests, {failed} failed")
    return largest.end(), requests / USED_SECONDS


def memory(options):
    """Resident memory as keys are used, listed and read at a start."""
    store = Store("memory", files_of(*prepare_chain("execution-apis")))
    in_turn = [path_of(key) for key, _ in store.open_keys]
    flag = start_tenants("flag", store.options, options.server_cores)
    full = store.start(options.server_cores)
    servers, rows = [flag, full], []

    def add(moment, mib=None):
        rows.append((moment, *(mib or [server.resident_kib() / 1024 for server in servers])))

    try:
        flag.path = full.path = path_of(FLAG)
        for server in servers:
            server.post(CHAIN_ID)
        time.sleep(5)
        add("after the start")
        (flag_mib, flag_rate), (full_mib, full_rate) = use(flag, [path_of(FLAG)]), use(full, in_turn)
        add(f"largest while {len(in_turn):,} of the keys are used", [flag_mib, full_mib])
        # Longer than the allocator keeps what is freed.
        time.sleep(70)
        for server in servers:
            server.post(CHAIN_ID)
        add("70 s later")
        admin = Admin(full)
        taken = []
        for sort in ("name", "requests24h", "requests24h"):
            began = time.monotonic()
            admin.call("GET", f"/keys?sort={sort}&descending=true&limit=100")
            taken.append((time.monotonic() - began) * 1e3)
        add("after lists of keys")
        for server in servers:
            server.stop()
        servers = [start_tenants("flag", store.options, options.server_cores), store.start(options.server_cores)]
        for server in servers:
            server.path = path_of(FLAG)
            server.post(CHAIN_ID)
        time.sleep(5)
        add("after the next start")
    finally:
        for server in servers:
            server.stop()
    print(f"\nresident MiB, {KEYS:,} keys; {flag_rate:.0f} and {full_rate:.0f} requests/s")
    table(
        ("moment", "by flag", "full", "MB more"),
        [
            (moment, f"{one:.1f}", f"{other:.1f}", f"{(other - one) * 1.048576:.1f}")
            for moment, one, other in rows
        ],
    )
    print("goal: at most 100 MB more")
    print(f"ms of lists by name, by requests, and by requests again: {', '.join(f'{ms:.0f}' for ms in taken)}")


# --- what recording usage costs ------------------------------------------------------------------


def usage(options):
    """Instructions of eth_chainId: by flag, with a full store, and those that record its usage."""
    require_valgrind()
    chain = files_of(*prepare_chain("execution-apis"))
    store = Store("counted", chain)
    program = str(TARGET / "release/nearhead")
    rows = []
    for name, key, data in (
        ("one key by flag", FLAG, None),
        (ONE_KEY, store.open_keys[0][0], store.data),
    ):
        counted = Counted(program, [*chain, *BY_FLAG], key, data)
        try:
            functions = [RECORDING, WRITING]
            total, recording, writing = counted.instructions_of(CHAIN_ID, COUNTED, functions)
            rows.append((name, total - writing, recording, writing))
        finally:
            counted.server.stop()
    print(f"\ninstructions of eth_chainId, counted by callgrind over {COUNTED} requests")
    table(
        ("key", "a request", "/ by flag", "record its usage", "of the request", "left out: writes"),
        [
            (
                name,
                f"{total:,.0f}",
                f"{total / rows[0][1]:.3f}",
                f"{recording:,.0f}",
                f"{recording / total:.2%}",
                f"{writing:,.0f}",
            )
            for name, total, recording, writing in rows
        ],
    )
    if not all(recording for _, _, recording, _ in rows):
        raise Failure(f"the program has no function {RECORDING}")
    print(f"goals: {ONE_KEY} / by flag <= 1.03; usage <= 1% of a request")


# --- how soon a revocation holds -----------------------------------------------------------------


class Admin:
    """The admin API of a server, on a connection of its own."""

    def __init__(self, server):
        self.connection = http.client.HTTPConnection("127.0.0.1", server.admin_port, timeout=60)

    def call(self, verb, path, body=None):
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        text = None if body is None else json.dumps(body)
        self.connection.request(verb, f"/admin/api/v1{path}", text, headers)
        response = self.connection.getresponse()
        answer = response.read()
        if response.status // 100 != 2:
            raise Failure(f"{verb} {path} was answered with {response.status} {answer[:300]!r}")
        return json.loads(answer) if answer else None


class Load:
    """Requests to one key in a closed loop, by wrk and over WebSocket sessions."""

    def __init__(self, server, key, options):
        server.path = path_of(key)
        self.program = wrk_command(
            server, CHAIN_ID, LOAD_SECONDS, options.connections, options.wrk_cores
        )
        self.sessions = Generator(server, f"/ws{server.path}", options.wrk_cores)
        self.sessions.open(LOAD_SESSIONS)
        self.sessions.begin("ask", texts=[CHAIN_ID] * LOAD_SESSIONS * 200)
        self.wrk = subprocess.Popen(self.program, stdout=subprocess.PIPE, text=True)

    def end(self, may_fail):
        """Waits for wrk; returns requests/s."""
        requests, _, failed, duration, *_ = exact_figures(self.wrk.communicate()[0])
        if not may_fail:
            self.sessions.end()
            if failed or not requests:
                raise Failure(f"{failed} of {requests} requests of another key failed")
        self.sessions.stop()
        return requests / duration * 1e6


def refused_at(server, key):
    """When the first request with this key is answered with 401."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    while True:
        connection.request("POST", path_of(key), CHAIN_ID, {"Content-Type": "application/json"})
        response = connection.getresponse()
        response.read()
        if response.status == 401:
            return time.monotonic()
        if response.status != 200:
            raise Failure(f"a request was answered with {response.status}")


def closed_at(session):
    """When a session is closed because its key was revoked."""
    code = session.close_code()
    if code != CLOSED_UNAUTHORIZED:
        raise Failure(f"a session of a revoked key was closed with {code}")
    return time.monotonic()


def revoke_under_load(server, options, driven, revoked):
    """Milliseconds from the call that revokes a key until it is answered, until a request with the
    key is refused, and until the last of its sessions is closed; and requests/s."""
    (key, key_id), is_driven = revoked, revoked == driven
    sessions = [Session(server, f"/ws{path_of(key)}") for _ in range(IDLE_SESSIONS)]
    load = Load(server, driven[0], options)
    # Until the load is there.
    time.sleep(1)
    admin = Admin(server)
    with concurrent.futures.ThreadPoolExecutor(IDLE_SESSIONS + 1) as pool:
        refused = pool.submit(refused_at, server, key)
        closed = [pool.submit(closed_at, session) for session in sessions]
        began = time.monotonic()
        admin.call("POST", f"/keys/{key_id}/revoke")
        ends = [time.monotonic(), refused.result(), max(one.result() for one in closed)]
    return [(end - began) * 1e3 for end in ends] + [load.end(may_fail=is_driven)]


def revocation(options):
    """How soon a revocation holds while another key, or the same, is driven as fast as possible."""
    store = Store("revocation", files_of(*prepare_chain("execution-apis")))
    keys = iter(store.open_keys)
    driven = next(keys)
    server = store.start(options.server_cores)
    rounds = {"another key": [], "the driven key": []}
    try:
        for _ in range(REVOCATIONS):
            for name, measured in rounds.items():
                revoked = next(keys) if name == "another key" else driven
                measured.append(revoke_under_load(server, options, driven, revoked))
                driven = next(keys) if revoked == driven else driven
    finally:
        server.stop()
    print(
        f"\ntime from the call that revokes a key, in ms, {REVOCATIONS} times each, {KEYS:,} keys in the store, "
        f"wrk -c{options.connections} and {LOAD_SESSIONS} sessions that send requests"
    )
    table(
        ("revoked", "until", "median", "longest"),
        [
            (name, until, f"{statistics.median(column):.1f}", f"{max(column):.1f}")
            for name, measured in rounds.items()
            for until, column in zip(REVOKED_UNTIL, zip(*measured))
        ],
    )
    rates = [f"{name} {statistics.median(row[3] for row in m):.0f}" for name, m in rounds.items()]
    print(f"requests/s of wrk meanwhile: {', '.join(rates)}; goal: longest <= 1,000 ms")


# --- keys that come and go while others are served -----------------------------------------------


def change_keys(server, stop):
    """Creates, rotates and revokes keys, `AT_ONCE` at a time, until `stop` is set; returns how long
    each call took, in ms."""
    admins = [Admin(server) for _ in range(AT_ONCE)]
    taken = {"create": [], "rotate": [], "revoke": []}

    def each(pool, step, call, things):
        def timed(admin, thing):
            began = time.monotonic()
            answer = call(admin, thing)
            taken[step].append((time.monotonic() - began) * 1e3)
            return answer

        return list(pool.map(timed, admins, things))

    def create(admin, name):
        return admin.call("POST", "/keys", {"tenant": "tenant 0", "name": name})

    def rotate(admin, key):
        return admin.call("POST", f"/keys/{key['id']}/rotate", {})

    def revoke(admin, key):
        return admin.call("POST", f"/keys/{key['id']}/revoke")

    def check(key, status):
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
        headers = {"Content-Type": "application/json"}
        connection.request("POST", path_of(key["key"]), CHAIN_ID, headers)
        found = connection.getresponse().status
        if found != status:
            raise Failure(f"a changed key was answered with {found}, not {status}")

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        while not stop.is_set():
            first = each(pool, "create", create, [f"changing {n}" for n in range(AT_ONCE)])
            second = each(pool, "rotate", rotate, first)
            list(pool.map(check, second, [200] * AT_ONCE))
            each(pool, "revoke", revoke, first)
            each(pool, "revoke", revoke, second)
            list(pool.map(check, [*first, *second], [401] * AT_ONCE * 2))
    return taken


def changes(options):
    """Keys are created, rotated and revoked while k6 drives another; none of its requests fails."""
    store = Store("changes", ["--source", "dev", "--reorg-every", "20", "--reorg-depth", "3"])
    server = store.start("")
    summary = WORK / "smoke.json"
    try:
        server.path = path_of(FLAG)
        driven = {**os.environ, "NEARHEAD_URL": f"http://127.0.0.1:{server.port}{server.path}"}
        command = [str(ROOT / "load-tests/run"), "smoke", "--summary-export", str(summary)]
        stop = threading.Event()
        with concurrent.futures.ThreadPoolExecutor(1) as pool:
            changed = pool.submit(change_keys, server, stop)
            k6 = subprocess.run(command, env=driven, capture_output=True, text=True)
            stop.set()
            taken = changed.result()
    finally:
        server.stop()
    # 99: a threshold was crossed; which one is read below, latencies are not asserted here.
    if k6.returncode not in (0, 99):
        raise Failure(f"k6 failed:\n{k6.stdout[-2000:]}{k6.stderr[-2000:]}")
    print_changes(json.loads(summary.read_text())["metrics"], taken)


def print_changes(k6, taken):
    print(f"\n{AT_ONCE} keys at once, {KEYS:,} others in the store, while load-tests/run drives another key")
    table(
        ("call", "calls", "ms, median", "ms, longest"),
        [
            (step, len(times), f"{statistics.median(times):.0f}", f"{max(times):.0f}")
            for step, times in taken.items()
        ],
    )
    failed = int(k6["http_req_failed"]["passes"]) + int(k6["checks"]["fails"])
    print(
        f"k6: {k6['http_reqs']['count']:.0f} requests, {k6['checks']['passes']:.0f} checks passed, longest request "
        f"{k6['http_req_duration']['max']:.0f} ms; failed requests and checks: {failed} (goal 0)"
    )
    if failed:
        raise Failure("requests of another key failed")


PARTS = {
    "tenants, cost": cost,
    "tenants, memory": memory,
    "tenants, usage": usage,
    "tenants, revocation": revocation,
    "tenants, changes": changes,
}
