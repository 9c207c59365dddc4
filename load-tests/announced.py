"""Time from the announcement of a block until it is readable: the part `announced`.

Several clients are timed in turns, a block each, in random order. Only the one that is timed runs:
every nearhead is stopped during the others' turns.
"""

import contextlib
import dataclasses
import itertools
import random
import signal
import statistics
import time
import types

from follow import Heads, begin_following, percentile, requests_of, wait_full, wait_until
from relay import Relays
from servers import Failure, metrics, readable_at
from tables import table
from upstream import Chain

# Blocks with which each client warms up.
WARM_UP = 2
# What is required of the time until a block is readable, as times a plain fetch, by percentile.
READABLE_MAX = {0.5: 1.2, 0.99: 1.3}


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
    # The geths that it follows, the first ones, and how many of them begin the time.
    geths: int = 1
    quorum: int = 1
    # Seconds by which the first geth is ahead of the others.
    lag: float = 0.0
    # In ms by round, the first of which warms up: since the quorum-th announcement, and since
    # nearhead was notified, by its metric.
    since_announced: list = dataclasses.field(default_factory=list)
    since_notified: list = dataclasses.field(default_factory=list)

    def begin_round(self):
        self.since_announced.append([])
        self.since_notified.append([])


class OneGeth:
    """A geth that announces blocks to its clients itself."""

    def __init__(self, options, chain, stack):
        self.upstreams = start_geths(options, chain, stack)
        self.ports = [self.upstreams[0].server.port]
        self.plain = Heads(self.upstreams[0].server)

    def announce(self, _):
        """Returns when the plain client was notified."""
        self.upstreams[0].begin_set_head()
        return self.plain.next(self.upstreams[0])

    def end_turn(self, _):
        self.upstreams[0].end()

    @staticmethod
    def beginning(_):
        return "another client was notified"


class RelayedGeths:
    """Several geths behind relays. On one core, they cannot announce a block at once without
    delaying each other. So all get it, and the relays hold back what they send until they are idle
    again."""

    def __init__(self, options, chain, stack):
        self.pause = options.pause
        self.upstreams = start_geths(options, chain, stack)
        servers = [upstream.server for upstream in self.upstreams]
        self.direct = [Heads(server) for server in servers]
        self.relays = Relays(servers, options.node_cores)
        stack.callback(self.relays.stop)
        self.ports = self.relays.ports
        self.plain = Heads(types.SimpleNamespace(name="a relay", port=self.ports[0], path="/"))

    def announce(self, contestant):
        """Returns when the quorum's last geth announced the block to the contestant."""
        self.relays.hold()
        for upstream, heads in zip(self.upstreams, self.direct):
            upstream.set_head()
            heads.next(upstream)
        # Each indexes the block's logs now.
        time.sleep(self.pause * len(self.upstreams))
        if contestant.lag:
            times = [self.relays.release([0])]
            time.sleep(contestant.lag)
            times += [self.relays.release(range(1, contestant.geths))] * (contestant.geths - 1)
        else:
            times = [self.relays.release(range(contestant.geths))] * contestant.geths
        notified = self.plain.next(self.upstreams[0])
        return times[contestant.quorum - 1] if contestant.follower else notified

    def end_turn(self, contestant):
        self.relays.release(range(contestant.geths, len(self.upstreams)))

    @staticmethod
    def beginning(contestant):
        if contestant.geths == 1:
            return "its geth announced the block"
        return f"{contestant.quorum} of its geths announced the block"


def start_geths(options, chain, stack):
    upstreams = []
    for place in range(1, options.nodes + 1):
        name = "geth" if place == 1 else f"geth-{place}"
        upstream = chain.start(options.node_cores, name=name)
        stack.callback(upstream.server.stop)
        upstreams.append(upstream)
    return upstreams


class Race:
    """Geths of one chain, and the clients that are timed in turns."""

    def __init__(self, options, stack):
        self.options, self.stack, self.random = options, stack, random.Random(1)
        clients = 2 + bool(options.before) + (options.nodes > 1) * (1 + (options.lag is not None))
        blocks = clients * (options.rounds * options.round_blocks + WARM_UP)
        chain = Chain("mainnet", max(blocks, options.chain_blocks))
        geths = RelayedGeths if options.nodes > 1 else OneGeth
        self.geths, self.followers = geths(options, chain, stack), []
        self.plain, self.timed = Contestant("a plain client", None), self.start_followers()

    def start_followers(self):
        nodes, quorum = self.options.nodes, self.options.nodes // 2 + 1
        one = self.follow(1, "nearhead")
        timed = [Contestant("1 node", one)]
        if self.options.before:
            before = self.follow(1, "nearhead-before", self.options.before)
            timed.append(Contestant("1 node, before", before))
        if nodes > 1:
            every = self.follow(nodes, "nearhead-nodes")
            label = f"{nodes} nodes"
            timed.append(Contestant(label, every, nodes, quorum))
            if self.options.lag is not None:
                label = f"{label}, the first {self.options.lag:g} ms ahead"
                lag = self.options.lag / 1e3
                timed.append(Contestant(label, every, nodes, quorum, lag))
        return timed

    def follow(self, count, name, program=None):
        """A nearhead that follows the first geths."""
        ports = self.geths.ports[:count]
        server = begin_following(self.options, ports, name=name, program=program)
        self.stack.callback(server.stop)
        wait_full(server)
        self.followers.append(Follower(server))
        return self.followers[-1]

    def round(self, blocks):
        """Times each client with this many blocks. Their order is random, because geth collects
        garbage every few blocks."""
        contestants = [self.plain, *self.timed]
        turns = contestants * blocks
        self.random.shuffle(turns)
        for contestant in contestants:
            contestant.begin_round()
        for contestant in turns:
            self.turn(contestant)

    def turn(self, contestant):
        upstreams, timed = self.geths.upstreams, contestant.follower
        for upstream in upstreams:
            upstream.send()
        time.sleep(self.options.pause)
        idle = [follower for follower in self.followers if follower is not timed]
        for follower in idle:
            follower.stop()
        began = self.geths.announce(contestant)
        if timed:
            timed.heads.next(upstreams[0])
            done = readable_at(timed.server)
            contestant.since_notified[-1].append(timed.delays.next())
        else:
            texts = requests_of(upstreams[0].head["blockHash"])
            self.geths.plain.session.fetch(texts, at_once=2)
            done = time.time_ns()
        contestant.since_announced[-1].append((done - began) / 1e6)
        self.geths.end_turn(contestant)
        for follower in idle:
            follower.catch_up(upstreams[0])


def announced(options):
    with contextlib.ExitStack() as stack:
        race = Race(options, stack)
        race.round(WARM_UP)
        for _ in range(options.rounds):
            race.round(options.round_blocks)
    missed = print_delays(race)
    if len(race.timed) > 1:
        print_ratios(options, race.timed)
    if missed:
        raise Failure(f"the goal is missed: {'; '.join(missed)}")


def print_delays(race):
    """Returns what missed its goal. A geth on one core may notify one client 10 ms before the other,
    so nearhead is also timed from its own notification."""
    def percentiles(rounds):
        times = list(itertools.chain(*rounds[1:]))
        return [percentile(times, share) for share in READABLE_MAX]

    fetched = percentiles(race.plain.since_announced)
    rows = []

    def add(name, rounds):
        found = percentiles(rounds)
        ratios = (f"{value / fetch:.2f}" for value, fetch in zip(found, fetched))
        rows.append((name, *(f"{value:.1f}" for value in found), *ratios))

    for one in race.timed:
        label = f"{one.label}: readable" if len(race.timed) > 1 else "readable"
        add(f"{label}, since {race.geths.beginning(one)}", one.since_announced)
        add(f"{label}, since nearhead was notified", one.since_notified)
    what = "a plain fetch of block and receipts, since that client was notified"
    add(what, race.plain.since_announced)
    blocks = sum(len(times) for times in race.plain.since_announced[1:])
    print(f"\nfrom the announcement, ms, {blocks} mainnet-like blocks each")
    names = [f"p{share * 100:g}" for share in READABLE_MAX]
    goals = [f"{name} / fetch (goal <= {most:g})" for name, most in zip(names, READABLE_MAX.values())]
    table(("until", *names, *goals), rows)
    return [row[0] for row in rows if any(float(ratio) > most for ratio, most in zip(row[-2:], READABLE_MAX.values()))]


def print_ratios(options, timed):
    """The machine's speed varies: a ratio is of two medians of one round."""
    rounds = {one.label: one.since_announced[1:] for one in timed}
    p50s = {label: [statistics.median(times) for times in each] for label, each in rounds.items()}

    def row(label, goal, of_rounds, digits):
        cells = [f"{value:.{digits}f}" for value in (statistics.median(of_rounds), *of_rounds)]
        return (label, cells[0], goal, " ".join(cells[1:]))

    one, before, *_ = p50s
    pairs = [(one, before, "")] if options.before else []
    pairs += [(label, one, "<= 1.15") for label in p50s if label.endswith("nodes")]
    pairs += [(label, one, "") for label in p50s if label.endswith("ahead")]
    rows = [row(f"{label}, ms", "", of_rounds, 1) for label, of_rounds in p50s.items()]
    for mine, base, goal in pairs:
        ratios = [ours / theirs for ours, theirs in zip(p50s[mine], p50s[base])]
        rows.append(row(f"({mine}) / ({base})", goal, ratios, 2))
    print(f"\nthe same, p50 of each of {options.rounds} rounds of {options.round_blocks} blocks")
    table(("announcement to readable", "median of rounds", "goal", "rounds"), rows)
