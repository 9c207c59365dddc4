"""vegeta as the load generator, for rates that k6 does not reach.

It offers requests at a rate, as k6 does. It checks nothing itself: it writes every answer down, and they are
compared here after the load, the first 16 KiB of each. results/ gets its plot and the figures.
"""

import base64
import hashlib
import json
import subprocess
import time

from figures import STEP_MS, STEPS, Step
from servers import RESULTS, ROOT, WORK, Failure, pinned

VEGETA = WORK / "bin" / "vegeta"
BODY_BYTES_MAX = 16 << 10
# How vegeta says that the kernel refused a connection; the last is of one that was reset while vegeta wrote to it.
REFUSED = ("connection refused", "connection reset", "use of closed network connection")
# vegeta's process takes some time until it sends.
STARTS_AHEAD = 0.03


def install():
    subprocess.run([str(ROOT / "load-tests/setup"), "vegeta"], check=True)


def offer(name, phases, timeout_ms, cores=""):
    """Runs these phases, each in a process of its own, and fills in their figures. They are sorted by their start."""
    targets = {}
    for phase in phases:
        if phase.url not in targets:
            targets[phase.url] = WORK / f"{name}-{len(targets)}.targets"
            targets[phase.url].write_text("\n".join(target(phase, n) for n in phase.workload.sequence))
    running, began = [], time.monotonic() + 0.5
    for number, phase in enumerate(phases):
        time.sleep(max(0, began + phase.start - STARTS_AHEAD - time.monotonic()))
        file = WORK / f"{name}-{number}.results"
        words = command(phase, targets[phase.url], timeout_ms)
        words += [f"-name={number}: {phase.title}", f"-output={file}"]
        process = subprocess.Popen(pinned(words, cores), stderr=subprocess.PIPE, text=True)
        running.append((phase, file, process))
    for phase, file, process in running:
        _, errors = process.communicate()
        if process.returncode != 0:
            raise Failure(f"vegeta exited with {process.returncode}: {errors[-2000:]}")
        read(phase, file)
    RESULTS.mkdir(parents=True, exist_ok=True)
    files = [file for _, file, _ in running]
    with open(RESULTS / f"{name}.html", "w") as page:
        subprocess.run([str(VEGETA), "plot", f"-title={name}", *map(str, files)], stdout=page, check=True)
    (RESULTS / f"{name}.json").write_text(json.dumps([phase.figures() for phase, _, _ in running], indent=1))
    for file in files:
        file.unlink()


def target(phase, number):
    # A fragment is not sent, and the result has it: it says which request was answered.
    return json.dumps(
        {
            "method": "POST",
            "url": f"{phase.url}#{number}",
            "body": base64.b64encode(phase.workload.requests[number]["body"].encode()).decode(),
            "header": {"Content-Type": ["application/json"]},
        }
    )


def command(phase, targets, timeout_ms):
    words = ["nice", f"-n{phase.niceness}", str(VEGETA), "attack", "-format=json", f"-targets={targets}"]
    words += [f"-rate={phase.rate or 0}", f"-duration={phase.seconds}s", f"-timeout={timeout_ms}ms"]
    words += [f"-max-workers={phase.clients}", f"-connections={phase.clients}", "-http2=false"]
    return [*words, f"-max-body={BODY_BYTES_MAX}"]


def read(phase, file):
    """Counts what the results of a phase say."""
    digests = [one["head_digest"] for one in phase.workload.requests]
    encode = subprocess.Popen([str(VEGETA), "encode", "-to=json", str(file)], stdout=subprocess.PIPE)
    results, wrong = [], None
    for line in encode.stdout:
        result = json.loads(line)
        number = int(result["url"].rpartition("#")[2])
        outcome = judge(result, digests[number])
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


def judge(result, digest):
    """As `outcome` of offer.js."""
    if result["code"] == 200 and not result["error"]:
        return "good" if hashlib.sha256(decoded(result)).hexdigest() == digest else "wrong"
    if result["code"] in (429, 503):
        is_whole = "Retry-After" in result["headers"] and b'"error":{"code":' in decoded(result)
        return "refused" if is_whole else "wrong"
    # By the kernel: in its queue, or before it. Nothing of the request was read.
    if any(words in result["error"] for words in REFUSED) and not result["bytes_in"]:
        return "refused"
    timed_out = "Timeout exceeded" in result["error"] or "deadline exceeded" in result["error"]
    return "late" if timed_out else "wrong"


def percentile(values, share):
    return sorted(values)[min(len(values) - 1, int(len(values) * share))] if values else 0
