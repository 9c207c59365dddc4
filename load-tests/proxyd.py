"""proxyd in front of a geth (https://github.com/ethereum-optimism/infra). Its program is given: a `replace` in its
go.mod keeps `go install` from building it.
"""

from servers import WORK, Server, free_port
from workloads import MIX

METHODS = [*MIX, "eth_getProof", "eth_getStorageAt", "eth_getBlockByHash"]
# As many at once as come: what it refuses by its own limit would be no measurement of its speed.
CONCURRENT_MAX = 100_000
BODY_BYTES_MAX = 10 << 20


def configuration(port, geth):
    methods = "\n".join(f'{method} = "main"' for method in METHODS)
    return f"""
[server]
rpc_host = "127.0.0.1"
rpc_port = {port}
max_body_size_bytes = {BODY_BYTES_MAX}
max_concurrent_rpcs = {CONCURRENT_MAX}
log_level = "error"

[cache]
enabled = true

[backend]
response_timeout_seconds = 5

[backends.geth]
rpc_url = "http://127.0.0.1:{geth.port}"

[backend_groups.main]
backends = ["geth"]

[rpc_method_mappings]
{methods}
"""


def start_proxyd(program, geth, cores):
    """Starts a proxyd, which caches in memory what it can, in front of this geth."""
    port = free_port()
    path = WORK / "proxyd.toml"
    path.write_text(configuration(port, geth))
    server = Server("proxyd", [program, str(path)], port, "/", cores)
    server.behind = [geth]
    return server.wait(30)
