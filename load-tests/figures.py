"""What a load generator measured in one phase of a run, and what is required of it."""

import dataclasses

# Of the offered rate: a run that achieved less shows the generator's limit, not the server's.
ACHIEVED_MIN = 0.95
STEP_MS = 250
STEPS = 16


@dataclasses.dataclass
class Step:
    """The requests that began in one quarter of a second of a phase."""

    good: int
    others: int
    p95_ms: float


@dataclasses.dataclass
class Phase:
    """Requests that were sent at one rate (None: as fast as `clients` got answers), and their outcomes."""

    title: str
    workload: object
    url: str
    start: float
    seconds: float
    rate: float | None
    # Connections at most: a client waits until its request is answered or late.
    clients: int
    # Those of other keys. Each sends an equal part, over connections of its own.
    other_urls: tuple = ()
    must_answer: bool = False
    has_timeline: bool = False
    # Seconds from its start that are not counted.
    settles: float = 0
    # Of the load generator, if it has a process for each phase.
    niceness: int = 0
    good: int = 0
    refused: int = 0
    late: int = 0
    wrong: int = 0
    dropped: int = 0
    p50_ms: float = 0
    p99_ms: float = 0
    # By kind of request: how many were answered, p50 and p99.
    kinds: dict = dataclasses.field(default_factory=dict)
    steps: list = dataclasses.field(default_factory=list)
    # Long answers that were compared whole and are right, None if the workload has none; and how many were asked for.
    whole: int | None = None
    whole_asked: int = 0
    # When its load generator had ended, if it has a process for each phase (monotonic).
    ended: float = 0

    @property
    def urls(self):
        return self.url, *self.other_urls

    @property
    def sent(self):
        return self.good + self.refused + self.late + self.wrong

    @property
    def counted(self):
        """Seconds that are counted."""
        return self.seconds - self.settles

    @property
    def goodput(self):
        return self.good / self.counted

    @property
    def achieved(self):
        return self.sent / (self.rate * self.counted)

    @property
    def whole_said(self):
        return "-" if self.whole is None else f"{self.whole:,} of {self.whole_asked:,}"

    def figures(self):
        """As JSON, without the material."""
        kept = dataclasses.replace(self, workload=self.workload.name)
        return {**dataclasses.asdict(kept), "goodput": self.goodput}

    def share(self, count):
        return count / self.sent if self.sent else 0

    def faults(self):
        """Why the phase shows nothing, or what must never happen."""
        found = []
        if self.rate and self.achieved < ACHIEVED_MIN:
            found.append(f"{self.title}: only {self.achieved:.0%} of the offered rate was sent")
        if self.dropped:
            found.append(f"{self.title}: no client was free for {self.dropped} requests")
        if self.wrong:
            found.append(f"{self.title}: {self.wrong} wrong answers")
        # All of them may have been refused, in an overload or as further clients of a closed loop: the table shows it.
        is_calm = self.rate and self.good > self.sent / 2
        if self.whole == 0 and (is_calm or not self.whole_asked):
            found.append(f"{self.title}: no long answer was compared whole, of {self.whole_asked}")
        if self.must_answer and self.refused + self.late:
            found.append(f"{self.title}: {self.refused} requests refused and {self.late} late")
        return found

    def recovered_after(self, p95_max_ms):
        """Seconds until 95% of the requests are answered again, 95% of those within the bound; None
        if they are not at the end of the timeline."""
        bad = [
            number
            for number, step in enumerate(self.steps)
            if step.good < 0.95 * (step.good + step.others) or step.p95_ms > p95_max_ms
        ]
        last = max(bad, default=-1) + 1
        return None if last >= len(self.steps) else last * STEP_MS / 1_000
