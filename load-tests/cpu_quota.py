"""A share of one core for a server: a cgroup with a CPU quota, of version 1 or 2.

Two cores cannot offer ten times what one core serves. A server with a tenth of a core can be
offered that.
"""

import contextlib
import pathlib
import re

from servers import Failure

# The kernel's timer stops a cgroup at its next tick, which is 4 ms away at 250 Hz. A cgroup that may run
# for less than a tick would overrun its quota and then wait for several periods.
RUN_US = 4_000


@contextlib.contextmanager
def cpu_quota(pids, share, workers=1):
    """Gives processes, with all their threads, `share` of one core for each of the `workers` meanwhile.

    Each worker may run for RUN_US in a period, which has the same length for any number of them.
    """
    controllers, is_v2 = cpu_controllers()
    folder = controllers / f"nearhead-load-test-{pids[0]}"
    run, period = RUN_US * workers, round(RUN_US / share)
    try:
        if is_v2:
            (controllers / "cgroup.subtree_control").write_text("+cpu")
        folder.mkdir()
        if is_v2:
            (folder / "cpu.max").write_text(f"{run} {period}")
        else:
            (folder / "cpu.cfs_period_us").write_text(str(period))
            (folder / "cpu.cfs_quota_us").write_text(str(run))
        for pid in pids:
            (folder / "cgroup.procs").write_text(str(pid))
    except OSError as error:
        raise Failure(f"a CPU quota needs root, who may make cgroups: {error}") from error
    try:
        yield
    finally:
        for pid in filter(lambda pid: pathlib.Path(f"/proc/{pid}").exists(), pids):
            (controllers / "cgroup.procs").write_text(str(pid))
        folder.rmdir()


def cpu_controllers():
    """The folder of all cgroups that control the CPU, and whether it is of version 2."""
    for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines():
        # 36 35 98:0 /root /mount options - type source superoptions
        found = re.match(r"\S+ \S+ \S+ \S+ (\S+) .* - (\S+) \S+ (\S+)", line)
        if not found:
            continue
        folder, kind, options = pathlib.Path(found[1]), found[2], found[3].split(",")
        if kind == "cgroup" and "cpu" in options:
            return folder, False
        if kind == "cgroup2":
            listed = folder / "cgroup.controllers"
            if listed.exists() and "cpu" in listed.read_text().split():
                return folder, True
    raise Failure("no cgroup controls the CPU here: a CPU quota needs cgroups of version 1 or 2")
