"""What the load tests request: weighted requests over a window that does not change, with their answers."""

import hashlib
import json
import random

import vegeta
from servers import WORK, Failure

# A public provider's requests to mainnet by method, in percent: EthClient Summit, quoted in
# https://github.com/lambdaclass/ethrex/issues/6745. There the last four share 7.4; half of it is
# taken to be eth_getLogs.
MIX = {
    "eth_call": 52.8,
    "eth_getBlockByNumber": 10.3,
    "eth_getBalance": 6.9,
    "eth_chainId": 5.8,
    "eth_getTransactionReceipt": 5.8,
    "eth_blockNumber": 4.0,
    "eth_getLogs": 3.7,
    "eth_getTransactionByHash": 1.3,
    "eth_getTransactionCount": 1.2,
    "eth_getCode": 1.2,
}
VARIANTS = 12
LENGTH = 1_000
UNKNOWN = "0x" + "de" * 20


class Window:
    """What a server has in its window: the material of requests. The same seed draws the same."""

    def __init__(self, server):
        self.draw = random.Random(1)
        self.head = int(server.call("eth_blockNumber", []), 16)
        self.latest, self.oldest = hex(self.head), hex(self.head - 127)
        numbers = self.draw.sample(range(self.head - 120, self.head), VARIANTS)
        self.blocks = [server.call("eth_getBlockByNumber", [hex(n), True]) for n in numbers]
        self.transactions = [t for block in self.blocks for t in block["transactions"]]
        self.logs = [
            log for block in self.blocks for log in server.call("eth_getLogs", [{"blockHash": block["hash"]}])
        ]
        if not self.transactions or not self.logs:
            raise Failure("the window has no transactions or no logs")
        # A contract with storage: the one whose logs are the most.
        emitters = [log["address"] for log in self.logs]
        self.token = max(sorted(set(emitters)), key=emitters.count)

    def some(self, values):
        return [self.draw.choice(values) for _ in range(VARIANTS)]

    def slots(self, count):
        return ["0x" + self.draw.randbytes(32).hex() for _ in range(count)]

    def last(self, blocks, **filters):
        """A log filter over the last `blocks` blocks."""
        return {"fromBlock": hex(self.head - blocks + 1), "toBlock": self.latest, **filters}


def transfers(token, sender, count):
    """A call of a token of the dev chain: transfers of nothing, each of which reads two balances."""
    pairs = (f"{0xACC0 + at:064x}{0:064x}" for at in range(count))
    return {"from": sender, "to": token, "input": "0xa9059cbb" + "".join(pairs)}


# The balance of the address in the input, as contracts have it in a mapping at slot 0: where a token of
# the dev chain has it, which has no balanceOf of its own. Whatever is called is balanceOf.
BALANCE_CODE = "0x6004355f5260405f20545f5260205ff3"
MULTICALL = "0x" + "ca11" * 10


def balance_of(token, holder):
    """The parameters of a call of an ERC-20 balance, without the block's."""
    call = {"to": token, "input": f"0x70a08231{int(holder, 16):064x}"}
    return call, {token: {"code": BALANCE_CODE}}


def multicall(token, holders):
    """The same for a contract that calls the token for each of these holders, and adds up."""
    # For each word of the input: STATICCALL of the token with it, after four bytes of nothing.
    static_call = f"6020604060245f73{token[2:]}5afa50"
    code = f"0x5f5f5b8035600452{static_call}906040510190602001368110600257505f5260205ff3"
    call = {"to": MULTICALL, "input": "0x" + "".join(f"{int(holder, 16):064x}" for holder in holders)}
    return call, {token: {"code": BALANCE_CODE}, MULTICALL: {"code": code}}


def single_calls(window):
    """Calls of a token from several senders, and one in twelve of many transfers."""
    senders = [t["from"] for t in window.some(window.transactions)]
    sizes = [20] + [1] * (len(senders) - 1)
    return [transfers(window.token, sender, size) for sender, size in zip(senders, sizes)]


def mix(window):
    made = {
        "eth_call": [[call, "latest"] for call in single_calls(window)],
        "eth_getBlockByNumber": [
            [block["number"], is_full] for block in window.blocks for is_full in (False, True)
        ],
        "eth_getBalance": [[t["from"], "latest"] for t in window.some(window.transactions)],
        "eth_chainId": [[]],
        "eth_getTransactionReceipt": [[t["hash"]] for t in window.some(window.transactions)],
        "eth_blockNumber": [[]],
        "eth_getLogs": [
            [window.last(10, address=log["address"], topics=log["topics"][:2])]
            for log in window.some(window.logs)
        ],
        "eth_getTransactionByHash": [[t["hash"]] for t in window.some(window.transactions)],
        "eth_getTransactionCount": [[t["from"], "latest"] for t in window.some(window.transactions)],
        "eth_getCode": [[window.token, "latest"]],
    }
    return {
        method: (weight, [(method, params) for params in made[method]]) for method, weight in MIX.items()
    }


def cheap(window):
    """The methods of the mix whose answers are small, and need no EVM."""
    other = ("eth_getBlockByNumber", "eth_getLogs", "eth_getCode", "eth_call")
    return {method: made for method, made in mix(window).items() if method not in other}


def logs(window):
    def queries(*filters):
        return [("eth_getLogs", [one]) for one in filters]

    some = window.some(window.logs)
    return {
        "one block": (4, queries(*({"blockHash": block["hash"]} for block in window.blocks))),
        "selective, 128 blocks": (
            8,
            queries(*(window.last(128, address=log["address"], topics=log["topics"][:2]) for log in some)),
        ),
        "topic without address, 128 blocks": (
            2,
            queries(*(window.last(128, topics=[None, log["topics"][1]]) for log in some if log["topics"][1:])),
        ),
        "no match, 128 blocks": (2, queries(window.last(128, address=UNKNOWN))),
        "bulk, 2 blocks": (1, queries(window.last(2))),
    }


def calls(window):
    def of(method, made, at=None):
        return [(method, [call, at or window.latest]) for call in made]

    senders = [t["from"] for t in window.some(window.transactions)]
    single = [transfers(window.token, sender, 1) for sender in senders]
    many = [transfers(window.token, sender, 100) for sender in senders]
    return {
        "call": (8, of("eth_call", single)),
        "call, head-127": (2, of("eth_call", single, window.oldest)),
        "call, 100 transfers": (2, of("eth_call", many)),
        "estimate": (2, of("eth_estimateGas", single)),
    }


def calls_40m(window):
    """A call that uses 40 million gas: a loop in code that the request brings along."""
    rounds = 40_000_000 // 26
    # PUSH3 rounds, JUMPDEST, PUSH1 1, SWAP1, SUB, DUP1, PUSH1 4, JUMPI, STOP.
    code = f"0x62{rounds:06x}5b6001900380600457" + "00"
    made = [
        ("eth_call", [{"to": address}, window.latest, {address: {"code": code}}])
        for address in ("0x" + window.draw.randbytes(20).hex() for _ in range(4))
    ]
    return {"40 million gas": (1, made)}


def bulk_logs(window):
    """Answers of some 0.5 MB on mainnet-like blocks."""
    return {"one block": (1, [("eth_getLogs", [{"blockHash": block["hash"]}]) for block in window.blocks])}


def proofs(window):
    def accounts(at):
        return [("eth_getProof", [t["from"], [], at]) for t in window.some(window.transactions)]

    def keys(count, at):
        return [("eth_getProof", [window.token, window.slots(count), at]) for _ in range(VARIANTS)]

    return {
        "account": (4, accounts(window.latest)),
        "account, head-127": (1, accounts(window.oldest)),
        "account and slot": (8, keys(1, window.latest)),
        "account and slot, head-127": (2, keys(1, window.oldest)),
        "64 slots": (1, keys(64, window.latest)),
    }


def slots_64(window):
    return {"64 slots": proofs(window)["64 slots"]}


def slots_1024(window):
    """The largest proof that one request may ask for."""
    made = [("eth_getProof", [window.token, window.slots(1_024), window.latest]) for _ in range(4)]
    return {"1,024 slots": (1, made)}


def addresses_5000(window):
    """The largest log filter, which matches nothing."""
    def strangers():
        return ["0x" + window.draw.randbytes(20).hex() for _ in range(5_000)]

    made = [("eth_getLogs", [window.last(128, address=strangers())]) for _ in range(4)]
    return {"5,000 addresses": (1, made)}


WORKLOADS = {
    "mix": mix,
    "cheap": cheap,
    "logs": logs,
    "bulk-logs": bulk_logs,
    "proofs": proofs,
    "proofs-64": slots_64,
    "proofs-1024": slots_1024,
    "filters-5000": addresses_5000,
    "calls": calls,
    "calls-40m": calls_40m,
}


class Workload:
    """Distinct requests with the digests of their answers, and the sequence in which they are sent.

    A request's id is its position, so that each has an answer of its own."""

    def __init__(self, name, server, window):
        self.name, self.kinds, self.requests, self.sequence = name, [], [], []
        made = WORKLOADS[name](window)
        whole = sum(weight for weight, _ in made.values())
        for kind, (weight, calls) in made.items():
            first = len(self.requests)
            for method, params in calls:
                self.add(method, params, server)
            times = max(1, round(LENGTH * weight / whole))
            self.sequence += [first + n % len(calls) for n in range(times)]
            self.kinds.append(kind)
        window.draw.shuffle(self.sequence)
        self.file = WORK / f"{name}-{server.name}.requests.json"
        self.file.write_text(json.dumps({"requests": self.requests, "sequence": self.sequence}))

    def add(self, method, params, server):
        number, kind = len(self.requests), len(self.kinds)
        body = json.dumps(
            {"jsonrpc": "2.0", "id": number, "method": method, "params": params}, separators=(",", ":")
        )
        answer, _ = server.post(body)
        if json.loads(answer).get("result") is None:
            raise Failure(f"{server.name} has no result for {body[:300]}: {answer[:300]}")
        self.requests.append(
            {
                "kind": kind,
                "body": body,
                "bytes": len(answer),
                "digest": hashlib.sha256(answer).hexdigest(),
                # Of as much as vegeta keeps.
                "head_digest": hashlib.sha256(answer[: vegeta.BODY_BYTES_MAX]).hexdigest(),
            }
        )

    def mean_bytes(self, kind):
        number = self.kinds.index(kind)
        sizes = [one["bytes"] for one in self.requests if one["kind"] == number]
        return sum(sizes) / len(sizes)
