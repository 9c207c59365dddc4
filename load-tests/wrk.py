"""wrk as the load generator: one method in a closed loop, every response checked by its size."""

import re
import shutil
import subprocess

from servers import WORK, Failure


def require_wrk():
    if not shutil.which("wrk"):
        raise Failure("wrk is missing: apt-get install wrk")


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
  local failed = errors.connect + errors.read + errors.write + errors.status + errors.timeout
  io.write(string.format('exactly %%d %%d %%d %%d %%d\\n',
    summary.requests, summary.bytes, failed, summary.duration, latency:percentile(99)))
end
"""


def command(server, body, seconds, connections, cores, paths=()):
    """The command that posts `body` to the server's path, or to each of `paths` in turn."""
    script = WORK / f"{server.name}.lua"
    lua = REQUEST_LUA % body
    if paths:
        listed = WORK / f"{server.name}.paths"
        listed.write_text("\n".join(paths))
        lua += PATHS_LUA % listed
    script.write_text(lua)
    pin = ["taskset", "-c", cores] if cores else []
    wrk = ["wrk", "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", "20s", "-s", str(script)]
    return [*pin, *wrk, f"{server.scheme}://127.0.0.1:{server.port}{server.path}"]


def exact_figures(out):
    """Requests, bytes, failures, microseconds, and p99 in microseconds."""
    figures = re.search(r"^exactly (\d+) (\d+) (\d+) (\d+) (\d+)$", out, re.MULTILINE)
    return tuple(map(int, figures.groups()))


def drive(server, body, size, seconds, connections, cores, paths=()):
    """One round: (requests/s, CPU microseconds a request, p99 milliseconds, bytes/s)."""
    program = command(server, body, seconds, connections, cores, paths)
    before = server.cpu_seconds()
    out = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    cpu = server.cpu_seconds() - before
    requests, read, failed, duration, p99 = exact_figures(out)
    if requests == 0 or failed > 0:
        raise Failure(f"{server.name}: {out}")
    # The bytes include responses that were in flight at the end, the count does not. An error is
    # shorter than a response, so a run with more errors than connections is always noticed.
    if not 0 <= read - requests * size <= connections * size:
        raise Failure(
            f"{server.name}: {requests} answers of {read} bytes, {read / requests:.1f} each, expected {size}"
        )
    elapsed = duration / 1e6
    return requests / elapsed, cpu / requests * 1e6, p99 / 1e3, read / elapsed
