"""The web3.py client: see README.md."""

import asyncio
import json
import signal
import sys
from importlib.metadata import version
from inspect import isawaitable

from web3 import AsyncWeb3, HTTPProvider, Web3, WebSocketProvider
from web3.middleware import SignAndSendRawMiddlewareBuilder
from web3.utils.subscriptions import EthSubscription, LogsSubscription, NewHeadsSubscription


def report(step, **members):
    """Report a step to the test, in one line."""
    print(json.dumps({"step": step, **members}, separators=(",", ":")), flush=True)


def rpc(value):
    """Convert a value of web3.py to JSON-RPC notation."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int):
        return hex(value)
    if isinstance(value, bytes):
        return "0x" + bytes(value).hex()
    if isinstance(value, str):
        return value.lower() if value.startswith("0x") else value
    if isinstance(value, (list, tuple)):
        return [rpc(item) for item in value]
    return {name: named(name, member) for name, member in value.items()}


def named(name, member):
    """Convert a member with this name to JSON-RPC notation."""
    if name in ("r", "s"):
        return quantity(member)
    # Ratios are JSON numbers in JSON-RPC too.
    return member if name.endswith("Ratio") else rpc(member)


def quantity(value):
    """Convert a part of a signature, a number or bytes, to a quantity."""
    return hex(int.from_bytes(value) if isinstance(value, bytes) else value)


def methods(w3):
    """Map a JSON-RPC method to the name of the client's function and the function."""

    def raw(method):
        async def request(*params):
            return (await answered(w3.provider.make_request(method, params)))["result"]

        return "raw make_request", request

    def proof(of, keys, at):
        answer = dict(eth.get_proof(address(of), keys, at))
        # A slot's value is a quantity; web3.py converts it to bytes.
        answer["storageProof"] = [{**slot, "value": int.from_bytes(slot["value"])} for slot in answer["storageProof"]]
        return answer

    def checked(call):
        addresses = {name: address(call[name]) for name in ("from", "to") if name in call}
        return {**addresses, "data": call["input"]}

    eth, address = w3.eth, w3.to_checksum_address
    return {
        "eth_getStorageAt": ("get_storage_at", lambda of, slot, at: eth.get_storage_at(address(of), int(slot, 16), at)),
        "eth_getLogs": ("get_logs", eth.get_logs),
        "eth_getBlockByHash": ("get_block", eth.get_block),
        "eth_getUncleByBlockHashAndIndex": raw("eth_getUncleByBlockHashAndIndex"),
        "eth_getTransactionByBlockNumberAndIndex": (
            "get_transaction_by_block",
            lambda block, index: eth.get_transaction_by_block(int(block, 16), int(index, 16)),
        ),
        "eth_getTransactionReceipt": ("get_transaction_receipt", eth.get_transaction_receipt),
        # AsyncWeb3, the only class with WebSocket, has no get_proof.
        "eth_getProof": ("get_proof", proof) if hasattr(eth, "get_proof") else raw("eth_getProof"),
        "eth_call": ("call", lambda call, at: eth.call(checked(call), at)),
        "eth_estimateGas": ("estimate_gas", lambda call: eth.estimate_gas(checked(call))),
        "eth_gasPrice": ("gas_price", lambda: eth.gas_price),
        "eth_maxPriorityFeePerGas": ("max_priority_fee", lambda: eth.max_priority_fee),
        "eth_feeHistory": (
            "fee_history",
            lambda count, newest, percentiles: eth.fee_history(int(count, 16), newest, percentiles),
        ),
    }


async def answered(result):
    """Await an answer of AsyncWeb3; Web3 returns it directly."""
    return await result if isawaitable(result) else result


async def answer(over, w3, calls):
    table = methods(w3)
    for index, call in enumerate(calls):
        by, method = table[call["method"]]
        report("answer", over=over, call=index, by=by, value=rpc(await answered(method(*call["params"]))))


async def answers(http, ws, calls):
    with open(calls) as file:
        calls = json.load(file)
    await answer("http", Web3(HTTPProvider(http)), calls)
    async with AsyncWeb3(WebSocketProvider(ws)) as w3:
        await answer("ws", w3, calls)


async def follow(ws):
    """web3.py reconnects by itself; its user subscribes again, here with `since`."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    held = {}
    async for w3 in AsyncWeb3(WebSocketProvider(ws)):
        heads, logs = await (resume(w3, held) if held else subscribe(w3))
        receiving = asyncio.create_task(receive(w3, {heads: "head", logs: "log"}, held))
        ending = asyncio.create_task(ended.wait())
        await asyncio.wait([receiving, ending], return_when=asyncio.FIRST_COMPLETED)
        if ended.is_set():
            receiving.cancel()
            await w3.subscription_manager.unsubscribe([heads, logs])
            report("unsubscribed", by="unsubscribe")
            await w3.provider.disconnect()
            break
        ending.cancel()
        report("lost", by=type(receiving.exception()).__name__)


async def subscribe(w3):
    report("subscribed", to="heads", by="NewHeadsSubscription")
    report("subscribed", to="logs", by="LogsSubscription")
    return await w3.subscription_manager.subscribe([NewHeadsSubscription(), LogsSubscription()])


async def resume(w3, held):
    # Some logs of the last block may be missing: logs resume from its parent, and those of the block come again.
    block = await w3.eth.get_block(held["log"]["blockHash"])
    head, parent = "0x" + held["head"]["hash"].hex(), "0x" + block["parentHash"].hex()
    report("resumed", by="EthSubscription", heads=head, logs=parent)
    since = [
        EthSubscription(("newHeads", None, {"since": head})),
        EthSubscription(("logs", {}, {"since": parent})),
    ]
    return await w3.subscription_manager.subscribe(since)


async def receive(w3, kinds, held):
    # Handlers would miss notifications that arrive before subscribe returns, as some of a resumed subscription do.
    async for message in w3.socket.process_subscriptions():
        kind = kinds[message["subscription"]]
        held[kind] = message["result"]
        report(kind, value=rpc(message["result"]))


async def poll(http):
    """Over HTTP, web3.py asks filters."""
    ended = asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, ended.set)
    w3 = Web3(HTTPProvider(http))
    logs, blocks = w3.eth.filter({}), w3.eth.filter("latest")
    for kind in ("logs", "blocks"):
        report("subscribed", to=kind, by="filter")
    while not ended.is_set():
        for log in logs.get_new_entries():
            report("log", value=rpc(log))
        for block in blocks.get_new_entries():
            report("block", value=rpc(block))
        await asyncio.sleep(0.05)
    for ended_filter in (logs, blocks):
        assert w3.eth.uninstall_filter(ended_filter.filter_id)


async def send(http, key):
    """Send two transactions in a row, with web3.py's own nonces, gas and fees."""
    w3 = Web3(HTTPProvider(http))
    account = w3.eth.account.from_key(key)
    w3.middleware_onion.inject(SignAndSendRawMiddlewareBuilder.build(account), layer=0)
    w3.eth.default_account = account.address
    hashes = [w3.eth.send_transaction({"to": account.address, "value": value}) for value in (1, 2)]
    for sent in hashes:
        receipt = w3.eth.wait_for_transaction_receipt(sent, poll_latency=0.1)
        nonce = w3.eth.get_transaction(sent)["nonce"]
        report("sent", nonce=rpc(nonce), status=rpc(receipt["status"]))


def main(mode, *arguments):
    report("client", value=f"web3.py {version('web3')}")
    asyncio.run({"answers": answers, "follow": follow, "poll": poll, "send": send}[mode](*arguments))
    report("end")


main(*sys.argv[1:])
