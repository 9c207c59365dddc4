"""State that stays current: reads of keys that were read before, and what keeping them costs.

After each block come reads of keys that were read at a head before, in odd blocks at the head and
in even ones at any block since then, then reads of keys that are drawn.
"""

import bisect
import dataclasses
import itertools
import os
import random
import statistics
import time

from announced import Delays
from follow import WINDOW, Heads, followed, percentile, wait_until
from servers import Failure, metrics, request
from tables import table
from upstream import Chain
from wrk import drive

# The bound of the run that shows what memory the state takes, and by how much it may be exceeded.
BOUND, OVER = 128 << 20, 1 / 8
# The run with many reads: blocks, reads after each, and how many of a thousand may be fetched.
MANY_BLOCKS, MANY_READS, MANY_FETCHES = 40, 1_000, 70


class Zipf:
    """Picks items; the n-th with a probability in proportion to 1/n."""

    def __init__(self, items, random_source):
        self.items, self.random_source = items, random_source
        self.sums = list(itertools.accumulate(1 / rank for rank in range(1, len(items) + 1)))

    def pick(self):
        return self.items[bisect.bisect(self.sums, self.random_source.random() * self.sums[-1])]


def keys_of_window(server, random_source):
    """The accounts and slots that the transactions of the window name, in a random order."""
    accounts, slots = set(), set()
    head = int(server.call("eth_blockNumber", []), 16)
    for number in range(head - WINDOW + 1, head + 1):
        for transaction in server.call("eth_getBlockByNumber", [hex(number), True])["transactions"]:
            accounts.update(filter(None, [transaction["from"], transaction["to"]]))
            slots.update(
                (item["address"], slot)
                for item in transaction.get("accessList") or []
                for slot in item["storageKeys"]
            )
    accounts, slots = sorted(accounts), sorted(slots)
    random_source.shuffle(accounts)
    random_source.shuffle(slots)
    return Zipf(accounts, random_source), Zipf(slots, random_source)


class Reader:
    """Reads of accounts (60%), slots (30%) and account proofs (10%)."""

    def __init__(self, server, session):
        self.random_source = random.Random(1)
        self.server, self.session = server, session
        self.accounts, self.slots = keys_of_window(server, self.random_source)
        self.known, self.seen = {}, set()
        self.spent = 0

    def draw(self):
        kind = self.random_source.random()
        if kind < 0.6:
            return "eth_getBalance", (self.accounts.pick(),)
        if kind < 0.9:
            return "eth_getStorageAt", self.slots.pick()
        return "eth_getProof", (self.accounts.pick(), ())

    def read(self, reads):
        texts = [request(method, [*key, hex(block)]) for (method, key), block in reads]
        before = self.server.cpu_seconds()
        for text in texts:
            self.session.result(text)
        self.spent += self.server.cpu_seconds() - before

    def read_known(self, count, head, at_head):
        """Reads of keys that were read at a head, at this one or at any block since then."""
        keys = self.random_source.choices(list(self.known), k=count) if self.known else []
        since = lambda key: max(self.known[key], head - WINDOW + 1)
        block = lambda key: head if at_head else self.random_source.randint(since(key), head)
        self.read([(key, block(key)) for key in keys])

    def read_drawn(self, count, head):
        """Reads of drawn keys, 80% of them at the head, the others anywhere in the window."""
        reads = []
        for _ in range(count):
            key, is_at_head = self.draw(), self.random_source.random() < 0.8
            self.seen.add(key)
            if is_at_head:
                self.known.setdefault(key, head)
            reads.append((key, head if is_at_head else head - self.random_source.randrange(WINDOW)))
        self.read(reads)


def total(page, name, *labels):
    return sum(
        value
        for series, value in page.items()
        if series.startswith(f"nearhead_state_{name}") and all(label in series for label in labels)
    )


class Counted:
    """Differences of counters, by what happened meanwhile."""

    def __init__(self, first):
        self.last, self.sums = first, {}

    def add(self, what, page):
        for name in page:
            change = page[name] - self.last.get(name, 0)
            key = (what, name)
            self.sums[key] = self.sums.get(key, 0) + change
        self.last = page

    def of(self, what, name, *labels):
        return total({key[1]: value for key, value in self.sums.items() if key[0] == what}, name, *labels)

    def hits(self, what):
        hit, miss = (self.of(what, "reads_total", f'"{end}"') for end in ("hit", "miss"))
        return hit / (hit + miss) if hit + miss else float("nan")


@dataclasses.dataclass
class Run:
    """What one run gave."""

    # The figures of the table.
    row: tuple
    # CPU seconds of each block with its merge.
    costs: list
    # Reads that were fetched, and reads of a key that was never read before, of a thousand.
    fetched: float
    new: float
    # Bytes held, by how many the process grew, and nodes and codes evicted.
    memory: dict


def run(options, chain, follow, more=(), blocks=None, reads_at_block=None, costs_of_hits=False):
    """One run with this value of --state-follow."""
    blocks, reads_at_block = blocks or options.state_blocks, reads_at_block or 2 * options.state_reads
    options.nearhead = [*options.nearhead_words, "--state-follow", follow, "--metrics-max-age", "0", *more]
    with followed(options, chain) as (upstream, server):
        heads = Heads(server)
        resident = [server.resident_kib() << 10]
        reader = Reader(server, heads.session)
        # Nothing is merged until somebody reads state.
        head = int(server.call("eth_blockNumber", []), 16)
        reader.read_drawn(1, head)
        counted = Counted(metrics(server, "nearhead_state_"))
        readable, delays = Delays(server), []
        costs, reads = [], 0
        for number in range(blocks):
            upstream.send()
            began = total(counted.last, "merges_total")
            before = server.cpu_seconds()
            upstream.set_head()
            heads.next(upstream)
            # As long as most merges take: each look at the metrics costs CPU, and without merges there is one too.
            time.sleep(0.3)
            merged = lambda: total(metrics(server, "nearhead_state_"), "merges_total") > began or follow == "off"
            wait_until("a merge", merged, seconds=20, pause=0.05)
            costs.append(server.cpu_seconds() - before)
            delays.append(readable.next())
            counted.add("merge", metrics(server, "nearhead_state_"))
            head = int(upstream.head["blockNumber"], 16)
            at_head = number % 2 == 1
            reader.read_known(reads_at_block // 2, head, at_head)
            counted.add("head" if at_head else "window", metrics(server, "nearhead_state_"))
            reader.read_drawn(reads_at_block // 2, head)
            counted.add("drawn", metrics(server, "nearhead_state_"))
            resident.append(server.resident_kib() << 10)
            reads += reads_at_block
        fetches = sum(counted.of(what, "fetches_total") for what in ("head", "window", "drawn"))
        requests = counted.of("merge", "merge_requests_total")
        buckets = sorted(
            (float(name.split('le="')[1].split('"')[0].replace("+Inf", "inf")), value)
            for name, value in counted.last.items()
            if "merge_seconds_bucket" in name
        )
        count = counted.last.get("nearhead_state_merge_seconds_count", 0)
        below = lambda share: next((at for at, value in buckets if value >= share * count), 0) if count else 0
        ends = {
            end: int(counted.of("merge", "merges_total", f'"{end}"'))
            for end in ("whole", "part", "late", "failed")
        }
        if costs_of_hits:
            cost_of_hits(options, server, upstream, reader)
        memory = {
            "held": total(counted.last, "held", "bytes"),
            "growth": max(resident) - resident[0],
            "evicted": sum(counted.of(what, "evicted_total") for what in ("merge", "head", "window", "drawn")),
        }
        fetched, new = fetches * 1e3 / reads, len(reader.seen) * 1e3 / reads
        row = (
            follow,
            f"{counted.hits('head'):.2%}",
            f"{counted.hits('window'):.2%}",
            f"{counted.hits('drawn'):.1%}",
            f"{fetched:.0f}",
            f"{new:.0f}",
            f"{requests / blocks:.1f}",
            f"{counted.of('merge', 'merge_bytes_total') / blocks / 1e6:.2f}",
            f"{statistics.median(costs) * 1e3:.1f}",
            f"{percentile(costs, 0.99) * 1e3:.1f}",
            f"{statistics.median(delays):.0f}",
            f"{percentile(delays, 0.99):.0f}",
            f"{below(0.5) * 1e3:.0f}",
            f"{below(0.99) * 1e3:.0f}",
            ", ".join(f"{count} {end}" for end, count in ends.items() if count),
            f"{memory['held'] / 1e6:.0f}",
        )
        return Run(row, costs, fetched, new, memory)


def cost_of_hits(options, server, upstream, reader):
    """CPU of reads whose state is held, beside that of the cheapest method."""
    latest = upstream.head["blockNumber"]
    account, (address, slot) = reader.accounts.items[0], reader.slots.items[0]
    cpus = {}
    for name, (method, params) in {
        "eth_chainId": ("eth_chainId", []),
        "eth_getBalance": ("eth_getBalance", [account, latest]),
        "eth_getProof, account": ("eth_getProof", [account, [], latest]),
        "eth_getProof, account and slot": ("eth_getProof", [address, [slot], latest]),
    }.items():
        body = request(method, params)
        server.post(body)
        size = server.post(body)[1]
        driven = [
            drive(server, body, size, options.seconds, 32, options.node_cores)
            for _ in range(options.rounds)
        ]
        cpus[name] = statistics.median(row[1] for row in driven)
    least = cpus["eth_chainId"]
    print("\nreads of state that is held; goal for the last one: 4 times eth_chainId")
    table(
        ("method", "CPU µs", "of eth_chainId's"),
        [(name, f"{cost:.1f}", f"{cost / least:.2f}") for name, cost in cpus.items()],
    )


def state(options):
    chain = Chain("mainnet", options.chain_blocks)
    options.nearhead_words = list(options.nearhead)
    first = options.state_follow[0]
    runs = {
        follow: run(options, chain, follow, costs_of_hits=follow == first)
        for follow in options.state_follow
    }
    rows = [one.row for one in runs.values()]
    print(
        f"\n{options.state_blocks} blocks; after each, {options.state_reads} reads of keys read before and as many drawn keys, "
        "the n-th as often as 1/n; 60% balances, 30% slots, 10% proofs; of the drawn ones 80% at the head"
    )
    table(
        (
            "--state-follow",
            "known keys at the head from memory (goal >= 99.9%)",
            "at any block of the window since they were read (>= 99%)",
            "drawn keys",
            "fetches per 1,000 reads (<= 200)",
            "keys read for the first time",
            "requests for a merge",
            "MB of JSON a merge (<= 1.2; witness 2.2)",
            "CPU ms a block with its merge",
            "p99",
            "readable after its announcement, ms, p50 (as `off`)",
            "p99 (as `off`)",
            "merged after, ms, p50 (<= 150)",
            "p99 (<= 500)",
            "merges",
            "MB held",
        ),
        rows,
    )
    added_by_merges({follow: one.costs for follow, one in runs.items()})
    many_reads(options, chain)
    bounded(options, chain)


def added_by_merges(costs):
    """Prints the CPU of a block with its merge less that of one without, if that was measured."""
    if "off" not in costs:
        return
    middle = lambda follow: statistics.median(costs[follow]) * 1e3
    late = lambda follow: percentile(costs[follow], 0.99) * 1e3
    print("\nCPU ms that a merge adds to a block: the difference to `off`")
    table(
        ("--state-follow", "median (goal <= 25)", "p99 (<= 60)"),
        [
            (follow, f"{middle(follow) - middle('off'):.1f}", f"{late(follow) - late('off'):.1f}")
            for follow in costs
            if follow != "off"
        ],
    )


def that_follows(options):
    """The first value of --state-follow that is measured and merges."""
    return next((one for one in options.state_follow if one != "off"), "auto")


def many_reads(options, chain):
    """Prints how many of a thousand reads are fetched if there are many after each block."""
    follow = that_follows(options)
    one = run(options, chain, follow, blocks=MANY_BLOCKS, reads_at_block=MANY_READS)
    print(f"\n{MANY_READS:,} reads at each of {MANY_BLOCKS} blocks, --state-follow {follow}")
    table(
        ("fetches per 1,000 reads", "keys read for the first time", "goal: the first at most", ""),
        [
            (
                f"{one.fetched:.0f}",
                f"{one.new:.0f}",
                MANY_FETCHES,
                "reached" if one.fetched <= MANY_FETCHES else "MISSED",
            )
        ],
    )


def bounded(options, chain):
    """Prints what memory the state takes with a small bound. Freed memory is given back at once: what
    the allocator keeps for a minute is no state."""
    follow = that_follows(options)
    os.environ["MIMALLOC_PURGE_DELAY"] = "0"
    try:
        of = {one: run(options, chain, one, ("--state-bytes", str(BOUND))).memory for one in ("off", follow)}
    finally:
        del os.environ["MIMALLOC_PURGE_DELAY"]
    memory, without = of[follow], of["off"]
    if without["evicted"]:
        raise Failure("the state that is read does not fit the bound without merges")
    # Blocks and their JSON, which both runs have. Without merges, little is held and nothing evicted.
    blocks = without["growth"] - without["held"]
    state = memory["growth"] - blocks
    most = BOUND * (1 + OVER)
    print(f"\nmemory of the state with --state-bytes {BOUND}, --state-follow {follow}; goal: at most 1/8 more")
    table(
        (
            "MB held",
            "MB that the process grew",
            "of which blocks",
            "the rest, of the bound (goal <= 1.125)",
            "evicted nodes and codes",
            "goal",
        ),
        [
            (
                f"{memory['held'] / 1e6:.0f}",
                f"{memory['growth'] / 1e6:.0f}",
                f"{blocks / 1e6:.0f}",
                f"{state / BOUND:.2f}",
                f"{memory['evicted']:,.0f}",
                "reached" if state <= most and memory["held"] <= most else "MISSED",
            )
        ],
    )
