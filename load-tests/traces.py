"""What traces cost: nearhead with a collector beside one without, for `compare --only traces`.

The CPU time of a round differs by some percent from the next one's, the count of instructions does
not: the second part shows what the first one cannot tell from noise.
"""

import http.server
import statistics
import threading

from callgrind import Counted, require_valgrind
from chains import files_of, prepare_chain
from servers import TARGET, Failure, build, request, start_nearhead
from wrk import drive

# The goal for a hundredth of all requests.
COST_MAX = 0.03
SHARES = {"off": None, "none": "0", "1%": "0.01", "all": "1"}


class Collector(http.server.BaseHTTPRequestHandler):
    """Takes every export."""

    protocol_version = "HTTP/1.1"
    exports = 0

    def do_POST(self):
        self.rfile.read(int(self.headers["content-length"]))
        Collector.exports += 1
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_):
        pass


def requests_of(server):
    head = int(server.call("eth_blockNumber", []), 16)
    blocks = {"fromBlock": hex(max(head - 50, 0)), "toBlock": hex(head)}
    return {
        "chainId": ("eth_chainId", []),
        "block": ("eth_getBlockByNumber", [hex(head), False]),
        "logs, no match": ("eth_getLogs", [{**blocks, "address": "0x" + "de" * 20}]),
    }


def start_collector():
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    return collector


def traced(collector, share):
    """The options with which this share of requests is traced."""
    if share is None:
        return []
    url = f"http://127.0.0.1:{collector.server_port}"
    return ["--otlp-endpoint", url, "--otlp-sample-ratio", share]


def measure(options):
    """CPU of a request by the share of requests that is traced. Rounds are interleaved."""
    build()
    chain = files_of(*prepare_chain(options.chain))
    collector = start_collector()
    servers = {}
    try:
        for name, share in SHARES.items():
            servers[name] = start_nearhead(
                [*chain, *traced(collector, share)], options.server_cores, name=f"nearhead-{name}"
            )
        for title, (method, params) in requests_of(servers["off"]).items():
            body = request(method, params)
            rounds = {name: [] for name in servers}
            sizes = {name: server.post(body)[1] for name, server in servers.items()}
            for count in range(options.rounds + 1):
                for name, server in servers.items():
                    seconds = options.seconds if count else 1  # The first round warms up.
                    cpu = drive(
                        server, body, sizes[name], seconds, options.connections, options.wrk_cores
                    )[1]
                    if count:
                        rounds[name].append(cpu)
            medians = {name: statistics.median(cpus) for name, cpus in rounds.items()}
            figures = ", ".join(f"{name} {cpu:.2f} µs" for name, cpu in medians.items())
            cost = medians["1%"] / medians["off"] - 1
            print(f"{title}: {figures}; 1% costs {cost:+.1%} (goal <= {COST_MAX:.0%})", flush=True)
        if not Collector.exports:
            raise Failure("the collector got nothing")
    finally:
        for server in servers.values():
            server.stop()
        collector.shutdown()


# Enough that what the service does each second beside requests hardly counts.
COUNTED = 4000


def count(options):
    """Instructions of a request by the share of requests that is traced."""
    require_valgrind()
    build()
    chain = files_of(*prepare_chain(options.chain))
    collector = start_collector()
    counts = {}
    for name, share in SHARES.items():
        counted = Counted(str(TARGET / "release/nearhead"), [*chain, *traced(collector, share)])
        try:
            for title, (method, params) in requests_of(Answers(counted)).items():
                cost = counted.instructions(request(method, params), COUNTED)
                counts.setdefault(title, {})[name] = cost
        finally:
            counted.server.stop()
    collector.shutdown()
    for title, costs in counts.items():
        figures = ", ".join(f"{name} {cost:,.0f}" for name, cost in costs.items())
        cost = costs["1%"] / costs["off"] - 1
        print(f"{title}: instructions: {figures}; 1% costs {cost:+.1%} (goal <= {COST_MAX:.0%})")


class Answers:
    """Calls of a nearhead under callgrind."""

    def __init__(self, counted):
        self.counted = counted

    def call(self, method, params):
        return self.counted.post(request(method, params))


PARTS = {"traces, CPU": measure, "traces, instructions": count}
