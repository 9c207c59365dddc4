"""vegeta as the load generator, for rates that k6 does not reach.

It offers requests at a rate, as k6 does. It checks nothing itself: it writes every answer down, and they are
compared here after the load: the first 16 KiB of each, and its length if it has a Content-Length. If a workload has
longer answers, a second process sends one request in 50, always one with a long answer, and keeps the answer whole.
results/ gets its plot and the figures.
"""

import base64
import contextlib
import hashlib
import itertools
import json
import math
import socket
import subprocess
import time

from figures import STEP_MS, STEPS, Step
from servers import RESULTS, ROOT, WORK, Failure, pinned

VEGETA = WORK / "bin" / "vegeta"
BODY_BYTES_MAX = 16 << 10
# Whole answers: two a second, and at a high rate one request in so many.
WHOLE_EVERY = 50
WHOLE_PER_SECOND = 2
# How vegeta says that the kernel refused a connection; the last is of one that was reset while vegeta wrote to it.
REFUSED = ("connection refused", "connection reset", "use of closed network connection")
# vegeta's process takes some time until it sends.
STARTS_AHEAD = 0.03


def install():
    subprocess.run([str(ROOT / "load-tests/setup"), "vegeta"], check=True)


def offer(name, phases, timeout_ms, cores="", before_reading=lambda: None, beside=None):
    """Runs these phases, each in a process of its own, and fills in their figures. They are sorted by their start.
    `before_reading` is called when all have ended: reading a phase's results may take longer than the phase.
    `beside` is another load generator, as the second it starts at and its command. Returns what that printed."""
    commands = commands_of(name, phases, timeout_ms)
    running, other, began = [], None, time.monotonic() + 0.5
    for phase, of_phase in zip(phases, commands):
        time.sleep(max(0, began + phase.start - STARTS_AHEAD - time.monotonic()))
        if beside and not other and phase.start >= beside[0]:
            other = subprocess.Popen(beside[1], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        for words, file, is_whole in of_phase:
            process = subprocess.Popen(pinned(words, cores), stderr=subprocess.PIPE, text=True)
            running.append((phase, file, is_whole, process))
    printed = other and other.communicate()[0]
    if other and other.returncode != 0:
        raise Failure(f"{beside[1][0]} exited with {other.returncode}: {printed[-2000:]}")
    for phase, _, _, process in running:
        _, errors = process.communicate()
        phase.ended = time.monotonic()
        if process.returncode != 0:
            raise Failure(f"vegeta exited with {process.returncode}: {errors[-2000:]}")
    before_reading()
    for phase in phases:
        read(phase, [(file, is_whole) for one, file, is_whole, _ in running if one is phase])
    RESULTS.mkdir(parents=True, exist_ok=True)
    files = [file for _, file, _, _ in running]
    with open(RESULTS / f"{name}.html", "w") as page:
        subprocess.run([str(VEGETA), "plot", f"-title={name}", *map(str, files)], stdout=page, check=True)
    (RESULTS / f"{name}.json").write_text(json.dumps([phase.figures() for phase in phases], indent=1))
    for file in files:
        file.unlink()
    return printed


@contextlib.contextmanager
def refused(phase, rate, seconds, timeout_ms):
    """The command that offers a phase's first request at a rate to a port that refuses all connections."""
    with socket.socket() as bound:
        # Nobody else listens there meanwhile.
        bound.bind(("127.0.0.1", 0))
        targets, clients = WORK / "refused.targets", 1_000
        targets.write_text(target(phase, f"http://127.0.0.1:{bound.getsockname()[1]}", 0) + "\n")
        words = attack(targets, f"{rate}/1s", seconds, timeout_ms, clients)
        yield [*words, "-output=/dev/null"]


def commands_of(name, phases, timeout_ms):
    """The commands of each phase, each with the file of its results and whether it keeps answers whole."""
    files, found = {}, []
    for number, phase in enumerate(phases):
        found.append([])
        for url, (sequence, rate, is_whole) in itertools.product(phase.urls, parts(phase)):
            # Phases that send the same have one file of it.
            asked = url, phase.workload.name, tuple(sequence)
            if asked not in files:
                files[asked] = WORK / f"{name}-{len(files)}.targets"
                files[asked].write_text("\n".join(target(phase, url, n) for n in sequence))
            results = WORK / f"{name}-{number}-{len(found[-1])}.results"
            words = command(phase, files[asked], timeout_ms, rate, is_whole)
            # The plot needs a name for each.
            title = f"{number}: {phase.title}{', whole' if is_whole else ''}"
            title += f", {url.rpartition('/')[2]}" if phase.other_urls else ""
            words += [f"-name={title}", f"-output={results}"]
            found[-1].append((words, results, is_whole))
    return found


def target(phase, url, number):
    # A fragment is not sent, and the result has it: it says which request was answered.
    return json.dumps(
        {
            "method": "POST",
            "url": f"{url}#{number}",
            "body": base64.b64encode(phase.workload.requests[number]["body"].encode()).decode(),
            "header": {"Content-Type": ["application/json"]},
        }
    )


def parts(phase):
    """What each process of a key sends in a phase: requests in turn, vegeta's rate, and whether answers are kept
    whole. Together, at a rate, they send what the workload does."""
    sequence, keys = phase.workload.sequence, len(phase.urls)
    long = [n for n in sequence if phase.workload.requests[n]["bytes"] > BODY_BYTES_MAX]
    if not long:
        return [(sequence, f"{phase.rate}/{keys}s" if phase.rate else 0, False)]
    if not phase.rate:
        return [(sequence, 0, False), (long, WHOLE_PER_SECOND, True)]
    count = len(sequence)
    wanted = max(count // WHOLE_EVERY, math.ceil(count * WHOLE_PER_SECOND / phase.rate))
    moved = min(wanted, len(long))
    heads = without_some(sequence, long, moved)
    rest, whole = (f"{phase.rate * part}/{count * keys}s" for part in (count - moved, moved))
    return [*([(heads, rest, False)] if heads else []), (long, whole, True)]


def without_some(sequence, long, count):
    """The sequence without `count` of its `long` numbers, taken out evenly."""
    kinds, left, seen = set(long), [], 0
    for number in sequence:
        before = seen * count // len(long)
        seen += number in kinds
        if seen * count // len(long) == before:
            left.append(number)
    return left


def command(phase, targets, timeout_ms, rate, is_whole):
    # Those of a closed loop are all in the first process.
    clients = max(1, phase.clients // len(phase.urls))
    clients = clients // WHOLE_EVERY + 20 if is_whole else clients
    words = attack(targets, rate, phase.seconds, timeout_ms, clients)
    return ["nice", f"-n{phase.niceness}", *words, f"-max-body={-1 if is_whole else BODY_BYTES_MAX}"]


def attack(targets, rate, seconds, timeout_ms, clients):
    words = [str(VEGETA), "attack", "-format=json", f"-targets={targets}", f"-rate={rate}", f"-duration={seconds}s"]
    return [*words, f"-timeout={timeout_ms}ms", f"-max-workers={clients}", f"-connections={clients}", "-http2=false"]


def read(phase, files):
    """Counts what the results of a phase say."""
    results, wrong = [], None
    for file, is_whole in files:
        if is_whole:
            phase.whole = phase.whole or 0
        encode = subprocess.Popen([str(VEGETA), "encode", "-to=json", str(file)], stdout=subprocess.PIPE)
        for line in encode.stdout:
            result = json.loads(line)
            number = int(result["url"].rpartition("#")[2])
            outcome = judge(result, phase.workload.requests[number], is_whole)
            if is_whole:
                phase.whole_asked += 1
                phase.whole += outcome == "good"
            results.append((since_midnight_ms(result["timestamp"]), number, outcome, result["latency"] / 1e6))
            if outcome == "wrong" and wrong is None:
                wrong = result
        if encode.wait() != 0:
            raise Failure(f"vegeta encode exited with {encode.returncode}")
    if wrong:
        print(f"{phase.title}: {wrong['code']} {wrong['error']} {decoded(wrong)[:200]!r}")
    first = min((sent for sent, *_ in results), default=0)
    times, by_kind, steps = [], {}, {}
    for sent, number, outcome, ms in results:
        is_counted = sent >= first + phase.settles * 1_000
        if not is_counted and outcome != "wrong":
            continue
        setattr(phase, outcome, getattr(phase, outcome) + 1)
        steps.setdefault(int(sent // STEP_MS), []).append((outcome, ms))
        if outcome == "good":
            times.append(ms)
            by_kind.setdefault(phase.workload.requests[number]["kind"], []).append(ms)
    phase.p50_ms, phase.p99_ms = percentile(times, 0.5), percentile(times, 0.99)
    for number, kind in enumerate(phase.workload.kinds):
        mine = by_kind.get(number, [])
        phase.kinds[kind] = len(mine), percentile(mine, 0.5), percentile(mine, 0.99)
    if phase.has_timeline:
        begins = int(first // STEP_MS)
        for step in range(begins, begins + STEPS):
            found = steps.get(step, [])
            good = [ms for outcome, ms in found if outcome == "good"]
            phase.steps.append(Step(len(good), len(found) - len(good), percentile(good, 0.95)))


def since_midnight_ms(timestamp):
    """Of 2026-11-23T16:01:02.345678901Z, or with an offset for Z. A run at midnight is to be repeated."""
    hours, minutes, rest = timestamp.split("T")[1].split(":", 2)
    seconds = rest.rstrip("Z").split("+")[0].split("-")[0]
    return (int(hours) * 3_600 + int(minutes) * 60 + float(seconds)) * 1_000


def decoded(result):
    return base64.b64decode(result["body"] or "")


def judge(result, expected, is_whole):
    """As `outcome` of offer.js."""
    if result["code"] == 200 and not result["error"]:
        return "good" if is_expected(result, expected, is_whole) else "wrong"
    if result["code"] in (429, 503):
        is_complete = "Retry-After" in result["headers"] and b'"error":{"code":' in decoded(result)
        return "refused" if is_complete else "wrong"
    # By the kernel: in its queue, or before it. Nothing of the request was read.
    if any(words in result["error"] for words in REFUSED) and not result["bytes_in"]:
        return "refused"
    timed_out = "Timeout exceeded" in result["error"] or "deadline exceeded" in result["error"]
    return "late" if timed_out else "wrong"


def is_expected(result, expected, is_whole):
    # A long answer may come in chunks, without its length.
    lengths = result["headers"].get("Content-Length", [])
    digest = expected["digest" if is_whole else "head_digest"]
    has_length = all(int(length) == expected["bytes"] for length in lengths)
    return has_length and hashlib.sha256(decoded(result)).hexdigest() == digest


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0
