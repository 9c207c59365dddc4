import { JsonRpcProvider, Wallet, WebSocketProvider, version } from 'ethers'
import { answer, renamed, report, rpc, run } from './steps.mjs'

function log({ provider, ...log }) {
  return renamed(log, { index: 'logIndex' })
}

/** ethers nests a signature in an object. */
function authorization({ signature: { r, s, yParity }, ...authorization }) {
  return { ...authorization, r: BigInt(r), s: BigInt(s), yParity }
}

function transaction({ provider, signature, chainId, authorizationList, ...transaction }) {
  const { r, s, v, yParity, networkV } = signature
  return {
    ...renamed(transaction, { index: 'transactionIndex', gasLimit: 'gas', data: 'input' }),
    // ethers has 0 for a transaction without a chain id (before EIP-155).
    chainId: chainId || null,
    authorizationList: authorizationList?.map(authorization),
    r: BigInt(r),
    s: BigInt(s),
    ...(transaction.type === 0 ? { v: networkV ?? v } : { v: yParity, yParity }),
  }
}

function block(block, full) {
  const { provider, ...members } = block
  return {
    ...renamed(members, { prevRandao: 'mixHash' }),
    transactions: full ? block.prefetchedTransactions.map(transaction) : block.transactions,
  }
}

function receipt({ provider, logs, ...receipt }) {
  const names = { hash: 'transactionHash', index: 'transactionIndex', gasPrice: 'effectiveGasPrice' }
  return { ...renamed(receipt, names), logs: logs.map(log) }
}

function methods(provider) {
  const send = (method) => ['raw send', (...params) => provider.send(method, params)]
  return {
    eth_getStorageAt: ['getStorage', (address, slot, at) => provider.getStorage(address, slot, at)],
    eth_getLogs: ['getLogs', async (filter) => (await provider.getLogs(filter)).map(log)],
    eth_getBlockByHash: ['getBlock', async (hash, full) => block(await provider.getBlock(hash, full), full)],
    eth_getUncleByBlockHashAndIndex: send('eth_getUncleByBlockHashAndIndex'),
    eth_getTransactionByBlockNumberAndIndex: send('eth_getTransactionByBlockNumberAndIndex'),
    eth_getTransactionReceipt: [
      'getTransactionReceipt',
      async (hash) => receipt(await provider.getTransactionReceipt(hash)),
    ],
    eth_getProof: send('eth_getProof'),
    eth_call: ['call', ({ to, input }, blockTag) => provider.call({ to, data: input, blockTag })],
    eth_estimateGas: ['estimateGas', ({ from, to, input }) => provider.estimateGas({ from, to, data: input })],
    eth_gasPrice: ['getFeeData', async () => (await provider.getFeeData()).gasPrice],
    eth_maxPriorityFeePerGas: ['getFeeData', async () => (await provider.getFeeData()).maxPriorityFeePerGas],
    eth_feeHistory: send('eth_feeHistory'),
  }
}

async function answers(http, ws, calls) {
  for (const [over, provider] of [
    ['http', new JsonRpcProvider(http)],
    ['ws', new WebSocketProvider(ws)],
  ]) {
    await answer(over, calls, methods(provider))
    await provider.destroy()
  }
}

/** A provider does not reconnect: its user watches the socket, and continues with a new provider. */
async function follow(ws, end) {
  let head, last
  const onHead = (value) => report('head', { value: rpc((head = value)) })
  const onLog = (value) => report('log', { value: rpc(log((last = value))) })
  const connect = () => {
    const provider = new WebSocketProvider(ws)
    return [provider, new Promise((resolve) => (provider.websocket.onclose = () => resolve('lost')))]
  }
  const subscribeBoth = async (provider, heads, logs) => [
    await subscribe(provider, heads, onHead),
    await subscribe(provider, logs, (value) => onLog(provider._wrapLog(value, provider._network))),
  ]

  let [provider, lost] = connect()
  // A notification that arrives before ethers knows its network is an uncaught error.
  await provider.getNetwork()
  report('subscribed', { to: 'numbers', by: 'on("block")' })
  await provider.on('block', (number) => report('number', { value: rpc(number) }))
  report('subscribed', { to: 'added logs', by: 'on({ topics })' })
  await provider.on({ topics: [] }, (value) => report('added', { value: rpc(log(value)) }))
  for (const to of ['heads', 'logs']) report('subscribed', { to, by: 'raw send' })
  let subscriptions = await subscribeBoth(provider, ['newHeads'], ['logs', {}])
  while ((await Promise.race([lost, end])) === 'lost') {
    report('lost', { by: 'websocket.onclose' })
    ;[provider, lost] = connect()
    // Some logs of the last block may be missing: logs resume from its parent, and those of the block come again.
    const { parentHash } = await provider.getBlock(last.blockHash)
    report('resumed', { by: 'raw send', heads: head.hash, logs: parentHash })
    const since = [
      ['newHeads', null, { since: head.hash }],
      ['logs', {}, { since: parentHash }],
    ]
    subscriptions = await subscribeBoth(provider, ...since)
  }
  for (const id of subscriptions) await provider.send('eth_unsubscribe', [id])
  report('unsubscribed', { by: 'raw send' })
  await provider.destroy()
}

/**
 * Does what ethers' SocketSubscriber does. `on("block")` passes only the number of a head, `on({ topics })` omits
 * removed logs, and no event takes a `since`.
 */
async function subscribe(provider, params, receive) {
  const id = await provider.send('eth_subscribe', params)
  provider._register(id, { _handleMessage: receive })
  return id
}

/** Sends two transactions in a row, with ethers' own nonces, gas and fees. */
async function send(http, key) {
  // By default ethers gives the same answer for 250 ms, also for the nonce that is pending.
  const provider = new JsonRpcProvider(http, undefined, { cacheTimeout: -1, polling: true, pollingInterval: 100 })
  const wallet = new Wallet(key, provider)
  const sent = []
  for (const value of [1n, 2n]) sent.push(await wallet.sendTransaction({ to: wallet.address, value }))
  for (const one of sent) report('sent', { nonce: rpc(one.nonce), status: rpc((await one.wait()).status) })
  provider.destroy()
}

await run(`ethers ${version}`, { answers, follow, send })
