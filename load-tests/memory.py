"""Resident memory after an attack: it has to return to where it was before."""

import time

# As a multiple of the memory before, and seconds since the attack has ended.
RETURNED_MAX = 1.10
SECONDS_MAX = 120
# mimalloc keeps freed memory for a minute, and returns it only when it is called.
FREED_SECONDS = 70


def resident_mib(server):
    return server.resident_kib() / 1024


def use(server):
    server.call("eth_chainId", [])
    time.sleep(0.5)


def wait_freed(servers):
    """Waits until memory that was freed before is given back."""
    ends = time.monotonic() + FREED_SECONDS
    while time.monotonic() < ends:
        for server in servers:
            use(server)


def wait_returned(server, before, ended, title=""):
    """Waits until `before` MiB are resident again since the attack ended at this time (monotonic), and prints how long
    that took. Returns what is wrong."""
    most = RETURNED_MAX * before
    at_first = now = resident_mib(server)
    while now > most and time.monotonic() < ended + SECONDS_MAX:
        use(server)
        now = resident_mib(server)
    seconds = max(0, time.monotonic() - ended)
    title = f"{title}, " if title else ""
    print(
        f"{title}resident MiB: {before:,.0f} before, {at_first:,.0f} afterwards, {now:,.0f} ({now / before - 1:+.0%}) "
        f"{seconds:.0f} s after the end"
    )
    if now > most:
        return [f"{title}{now:,.0f} MiB are resident {seconds:.0f} s after the end, at most {most:,.0f}"]
    return []
