"""Time from the announcement of a block until it is readable: the part `announced`.

Several clients are timed in turns, a block each, in an order of chance. Only the one that is timed
runs: every nearhead stands still during the others' turns.
"""

import contextlib
import dataclasses
import itertools
import random
import signal
import statistics
import time

from follow import (
    Heads,
    begin_following,
    percentile,
    requests_of,
    times_of_heads,
    wait_full,
    wait_until,
)
from servers import metrics, readable_at
from tables import table
from upstream import Chain

# Blocks with which each client warms up.
WARM_UP = 2


class Delays:
    """Time from the announcement to readable for each head, by nearhead's own metric."""

    def __init__(self, server):
        self.server = server
        self.count, self.sum = self.read()

    def read(self):
        found = metrics(self.server, "nearhead_head_delay_seconds_")
        return [found[f"nearhead_head_delay_seconds_{name}"] for name in ("count", "sum")]

    def next(self):
        """The delay of the next head, in ms."""
        before = self.sum
        wait_until("the delay of a head", lambda: self.read()[0] > self.count)
        self.count, self.sum = self.read()
        return (self.sum - before) * 1e3


class Follower:
    """A nearhead that is timed."""

    def __init__(self, server):
        self.server, self.heads, self.delays = server, Heads(server), Delays(server)

    def stop(self):
        self.server.process.send_signal(signal.SIGSTOP)

    def catch_up(self, upstream):
        self.server.process.send_signal(signal.SIGCONT)
        self.heads.next(upstream)
        self.delays.next()


@dataclasses.dataclass
class Contestant:
    """Who is timed, and how its blocks are announced."""

    label: str
    # None: a plain client of the first geth.
    follower: Follower | None
    # The first geths, which announce the block at once. The others get it after the turn.
    geths: int = 1
    # Those of them that the contestant follows, and how many of these begin the time.
    follows: int = 1
    quorum: int = 1
    # In ms by round: since the quorum-th announcement, since the first one, and since nearhead was
    # notified, by its metric.
    since_quorum: list = dataclasses.field(default_factory=list)
    since_first: list = dataclasses.field(default_factory=list)
    since_notified: list = dataclasses.field(default_factory=list)

    def begin_round(self):
        for rounds in (self.since_quorum, self.since_first, self.since_notified):
            rounds.append([])

    def record(self, announced, done):
        announced = sorted(announced[: self.follows])
        self.since_quorum[-1].append((done - announced[self.quorum - 1]) / 1e6)
        self.since_first[-1].append((done - announced[0]) / 1e6)


class Race:
    """Geths of one chain, and the clients that are timed in turns."""

    def __init__(self, options, stack):
        self.options, self.stack, self.random = options, stack, random.Random(1)
        self.upstreams, self.followers = self.start_geths(), []
        self.theirs = [Heads(upstream.server) for upstream in self.upstreams]
        count = options.nodes
        one = self.follow(1, "nearhead")
        self.contestants = [Contestant("a plain client", None), Contestant("1 node", one)]
        if options.before:
            before = self.follow(1, "nearhead-before", options.before)
            self.contestants.append(Contestant("1 node, before", before))
        if count > 1:
            every = self.follow(count, "nearhead-nodes")
            self.contestants += [
                Contestant(f"1 node of {count} that announce", one, geths=count),
                Contestant(f"{count} nodes", every, count, count, count // 2 + 1),
            ]

    def start_geths(self):
        clients = 2 + bool(self.options.before) + 2 * (self.options.nodes > 1)
        blocks = clients * (self.options.rounds * self.options.round_blocks + WARM_UP)
        chain = Chain("mainnet", max(blocks, self.options.chain_blocks))
        # After an announcement, a geth indexes the block's logs for 20 ms. Each of several would do
        # so on a machine of its own, not on the core on which another one answers.
        flags = ["--history.logs.disable"] if self.options.nodes > 1 else []
        upstreams = []
        for place in range(1, self.options.nodes + 1):
            name = "geth" if place == 1 else f"geth-{place}"
            upstream = chain.start(self.options.node_cores, name=name, options=flags)
            self.stack.callback(upstream.server.stop)
            upstreams.append(upstream)
        return upstreams

    def follow(self, count, name, program=None):
        """A nearhead that follows the first geths."""
        upstreams = self.upstreams[:count]
        server = begin_following(self.options, upstreams, name=name, program=program)
        self.stack.callback(server.stop)
        wait_full(server)
        self.followers.append(Follower(server))
        return self.followers[-1]

    def round(self, blocks):
        """Times each client with this many blocks. Their order is random, because geth collects
        garbage every few blocks."""
        turns = self.contestants * blocks
        self.random.shuffle(turns)
        for contestant in self.contestants:
            contestant.begin_round()
        for contestant in turns:
            self.turn(contestant)

    def turn(self, contestant):
        first, timed = self.upstreams[0], contestant.follower
        for upstream in self.upstreams:
            upstream.send()
        time.sleep(self.options.pause)
        idle = [follower for follower in self.followers if follower is not timed]
        for follower in idle:
            follower.stop()
        announcing, heads = self.upstreams[: contestant.geths], self.theirs[: contestant.geths]
        for upstream in self.random.sample(announcing, len(announcing)):
            upstream.begin_set_head()
        if timed:
            *announced, _ = times_of_heads([*heads, timed.heads], first)
            contestant.record(announced, readable_at(timed.server))
            contestant.since_notified[-1].append(timed.delays.next())
        else:
            announced = times_of_heads(heads, first)
            heads[0].session.fetch(requests_of(first.head["blockHash"]), at_once=2)
            contestant.record(announced, time.time_ns())
        for upstream in announcing:
            upstream.end()
        for upstream in self.upstreams[contestant.geths :]:
            upstream.set_head()
        times_of_heads(self.theirs[contestant.geths :], first)
        for follower in idle:
            follower.catch_up(first)


def announced(options):
    with contextlib.ExitStack() as stack:
        race = Race(options, stack)
        race.round(WARM_UP)
        for _ in range(options.rounds):
            race.round(options.round_blocks)
    plain, *timed = race.contestants
    print_delays(plain, timed)
    if len(timed) > 1:
        print_ratios(options, timed)


def print_delays(plain, timed):
    """A geth on one core may notify one client 10 ms before the other, so nearhead is also timed
    from its own notification."""
    shares = (0.5, 0.99)

    def percentiles(rounds):
        times = list(itertools.chain(*rounds[1:]))
        return [percentile(times, share) for share in shares]

    fetched = percentiles(plain.since_quorum)
    rows = []

    def add(name, rounds):
        found = percentiles(rounds)
        ratios = (f"{value / fetch:.2f}" for value, fetch in zip(found, fetched))
        rows.append((name, *(f"{value:.1f}" for value in found), *ratios))

    for one in timed:
        label = f"{one.label}: readable" if len(timed) > 1 else "readable"
        if one.quorum == 1:
            add(f"{label}, since another client was notified", one.since_quorum)
        else:
            add(f"{label}, since another client had {one.quorum} notifications", one.since_quorum)
            add(f"{label}, since another client had the first", one.since_first)
        add(f"{label}, since nearhead was notified", one.since_notified)
    what = "a plain fetch of block and receipts, since that client was notified"
    add(what, plain.since_quorum)
    blocks = sum(len(times) for times in plain.since_quorum[1:])
    print(f"\nfrom the announcement, ms, {blocks} mainnet-like blocks each")
    table(("until", "p50", "p99", "p50 / fetch (goal <= 1.3)", "p99 / fetch (goal <= 1.3)"), rows)


def print_ratios(options, timed):
    """The machine's speed varies: a ratio is of two medians of one round."""
    rounds = {one.label: one.since_quorum[1:] for one in timed}
    p50s = {label: [statistics.median(times) for times in each] for label, each in rounds.items()}

    def row(label, goal, of_rounds, digits):
        cells = [f"{value:.{digits}f}" for value in (statistics.median(of_rounds), *of_rounds)]
        return (label, cells[0], goal, " ".join(cells[1:]))

    one, last = "1 node", timed[-1].label
    pairs = [(one, label, "") for label in p50s if label.endswith("before")]
    if options.nodes > 1:
        pairs += [(last, one, "<= 1.15"), (last, timed[-2].label, "")]
    rows = [row(f"{label}, ms", "", of_rounds, 1) for label, of_rounds in p50s.items()]
    for mine, base, goal in pairs:
        ratios = [ours / theirs for ours, theirs in zip(p50s[mine], p50s[base])]
        rows.append(row(f"({mine}) / ({base})", goal, ratios, 2))
    print(f"\nthe same, p50 of each of {options.rounds} rounds of {options.round_blocks} blocks")
    table(("announcement to readable", "median of rounds", "goal", "rounds"), rows)
