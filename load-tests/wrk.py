"""wrk as the load generator: one method in a closed loop, every response checked by its size."""

import re
import shutil
import subprocess
import typing

from servers import WORK, Failure


def require_wrk():
    if not shutil.which("wrk"):
        raise Failure("wrk is missing: apt-get install wrk")


# Share by which compressed sizes may differ.
COMPRESSED_SLACK = 0.02

# Posts to each of the paths in turn. The requests are made before the first is sent.
PATHS_LUA = """
local requests, at = {}, 0
function init()
  for path in io.lines('%s') do requests[#requests + 1] = wrk.format(nil, path) end
end
function request()
  at = at %% #requests + 1
  return requests[at]
end
"""
# Prints exact figures: wrk itself prints only three digits of each.
REQUEST_LUA = """
wrk.method = 'POST'
wrk.body = [==[%s]==]
wrk.headers['Content-Type'] = 'application/json'
function done(summary, latency)
  local errors = summary.errors
  -- wrk finds out with the first write that a connection was refused.
  local unconnected = errors.connect + errors.write
  local failed = unconnected + errors.read + errors.status + errors.timeout
  io.write(string.format('exactly %%d %%d %%d %%d %%d %%d %%d %%d\\n',
    summary.requests, summary.bytes, failed, summary.duration, latency:percentile(99), errors.status, errors.timeout,
    unconnected))
end
"""


def command(server, body, seconds, connections, cores, paths=(), encoding=None):
    """The command that posts `body` to the server's path, or to each of `paths` in turn."""
    script = WORK / f"{server.name}.lua"
    lua = REQUEST_LUA % body
    if encoding:
        lua += f"wrk.headers['Accept-Encoding'] = '{encoding}'\n"
    if paths:
        listed = WORK / f"{server.name}.paths"
        listed.write_text("\n".join(paths))
        lua += PATHS_LUA % listed
    script.write_text(lua)
    pin = ["taskset", "-c", cores] if cores else []
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script)]
    return [*pin, *wrk, f"{server.scheme}://127.0.0.1:{server.port}{server.path}"]


class Figures(typing.NamedTuple):
    requests: int
    # Bytes.
    read: int
    # For any reason.
    failed: int
    microseconds: int
    p99_microseconds: int
    # By a status above 399.
    refused: int
    late: int
    # Connections that were refused.
    unconnected: int


def exact_figures(out):
    return Figures(*map(int, re.search(r"^exactly((?: \d+){8})$", out, re.MULTILINE).group(1).split()))


def drive(server, body, size, seconds, connections, cores, paths=(), encoding=None):
    """One round: (requests/s, CPU microseconds a request, p99 milliseconds, bytes/s)."""
    program = command(server, body, seconds, connections, cores, paths, encoding)
    before = server.cpu_seconds()
    out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_seconds() - before
    requests, read, failed, duration, p99, *_ = exact_figures(out)
    if requests == 0 or failed > 0:
        raise Failure(f"{server.name}: {out}")
    # Sizes of compressed answers differ, and chunks add bytes.
    slack = requests * size * COMPRESSED_SLACK if encoding else 0
    # The bytes include responses that were in flight at the end, the count does not. An error is
    # shorter than a response, so a run with more errors than connections is always noticed.
    if not -slack <= read - requests * size <= connections * size + slack:
        raise Failure(
            f"{server.name}: {requests} answers of {read} bytes, {read / requests:.1f} each, expected {size}"
        )
    elapsed = duration / 1e6
    return requests / elapsed, cpu / requests * 1e6, p99 / 1e3, read / elapsed
