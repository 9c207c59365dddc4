"""A restart with a full mainnet-like window, beside a start with an empty folder."""

import shutil
import signal
import statistics
import time

from follow import WINDOW, begin_following, ready, wait_until
from servers import WORK, Failure, metrics
from tables import table
from upstream import Chain

# The goal for a start that finds a full window.
READY_MAX = 1.0


def restart(options):
    chain = Chain("mainnet", options.chain_blocks)
    upstream = chain.start(options.node_cores)
    data = WORK / "data-restart"
    shutil.rmtree(data, ignore_errors=True)
    # What the process before has left, and how the process that finds it ends.
    ends = {
        "an empty folder": signal.SIGTERM,
        "SIGTERM": signal.SIGKILL,
        "kill -9": signal.SIGTERM,
    }
    kinds = tuple(ends)
    took, spent, restored = ({kind: [] for kind in kinds} for _ in range(3))
    try:
        for _ in range(options.rounds):
            shutil.rmtree(data, ignore_errors=True)
            for kind in kinds:
                began = time.monotonic()
                # Verifying saved blocks uses every core, as an operator's machine lets it.
                server = begin_following(options, [upstream.server.port], "", data=data)
                wait_until("ready", lambda: ready(server)["ready"], pause=0.005)
                took[kind].append(time.monotonic() - began)
                spent[kind].append(server.cpu_seconds())
                counts = metrics(server, "nearhead_saved_blocks_total")
                restored[kind].append(counts['nearhead_saved_blocks_total{outcome="restored"}'])
                wait_until("saved", lambda: is_saved(server))
                server.process.send_signal(ends[kind])
                server.process.wait()
    finally:
        upstream.server.stop()
    print(f"\na start with {WINDOW} mainnet-like blocks, medians of {options.rounds} rounds")
    table(
        ("after", f"s until ready with a full window (goal <= {READY_MAX:g})", "CPU s", "blocks restored"),
        [
            (
                kind,
                f"{statistics.median(took[kind]):.2f}",
                f"{statistics.median(spent[kind]):.2f}",
                f"{statistics.median(restored[kind]):.0f}",
            )
            for kind in kinds
        ],
    )
    for kind in kinds[1:]:
        if statistics.median(took[kind]) > READY_MAX:
            raise Failure(f"after {kind}: ready after {statistics.median(took[kind]):.2f} s")


def is_saved(server):
    """Whether the file has had time to be written: nothing has been for two of its turns."""
    before = metrics(server, "nearhead_saved_writes_total")
    time.sleep(1.2)
    return before == metrics(server, "nearhead_saved_writes_total")
