"""What traces cost: nearhead with a collector beside one without, for `compare --only traces`."""

import http.server
import statistics
import threading

from chains import files_of, prepare_chain
from servers import Failure, build, request, start_nearhead
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


def measure(options):
    """CPU of a request by the share of requests that is traced. Rounds are interleaved."""
    build()
    chain = files_of(*prepare_chain(options.chain))
    collector = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=collector.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{collector.server_port}"
    servers = {}
    try:
        for name, share in SHARES.items():
            traced = ["--otlp-endpoint", url, "--otlp-sample-ratio", share] if share else []
            servers[name] = start_nearhead(
                [*chain, *traced], options.server_cores, name=f"nearhead-{name}"
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


PARTS = {"traces": measure}
