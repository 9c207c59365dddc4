import { readFileSync } from 'node:fs'
import { createPublicClient, createWalletClient, defineChain, http, webSocket } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'
import { answer, pollBlocks, report, rpc, run } from './steps.mjs'

const { version } = JSON.parse(readFileSync(new URL('node_modules/viem/package.json', import.meta.url)))

function transaction({ typeHex, ...transaction }) {
  return { ...transaction, type: typeHex }
}

function block(block) {
  const full = block.transactions.map((each) => (typeof each === 'string' ? each : transaction(each)))
  return { ...block, transactions: full }
}

const types = ['legacy', 'eip2930', 'eip1559', 'eip4844', 'eip7702']

function receipt(receipt) {
  const status = { reverted: 0, success: 1 }[receipt.status] ?? receipt.status
  return { ...receipt, status, type: types.indexOf(receipt.type) }
}

/** Converts a JSON-RPC block parameter to viem's. */
function at(parameter) {
  if (/^0x[0-9a-f]{64}$/.test(parameter)) return { blockHash: parameter }
  return parameter.startsWith('0x') ? { blockNumber: BigInt(parameter) } : { blockTag: parameter }
}

function methods(client) {
  const request = (method) => ['raw request', (...params) => client.request({ method, params })]
  return {
    eth_getStorageAt: ['getStorageAt', (address, slot, block) => client.getStorageAt({ address, slot, ...at(block) })],
    eth_getLogs: ['getLogs', ({ blockHash }) => client.getLogs({ blockHash })],
    eth_getBlockByHash: [
      'getBlock',
      async (blockHash, includeTransactions) => block(await client.getBlock({ blockHash, includeTransactions })),
    ],
    eth_getUncleByBlockHashAndIndex: request('eth_getUncleByBlockHashAndIndex'),
    eth_getTransactionByBlockNumberAndIndex: [
      'getTransaction',
      async (block, index) => transaction(await client.getTransaction({ ...at(block), index: Number(index) })),
    ],
    eth_getTransactionReceipt: [
      'getTransactionReceipt',
      async (hash) => receipt(await client.getTransactionReceipt({ hash })),
    ],
    eth_getProof: [
      'getProof',
      (address, storageKeys, block) => client.getProof({ address, storageKeys, ...at(block) }),
    ],
    eth_call: ['call', async ({ to, input }, block) => (await client.call({ to, data: input, ...at(block) })).data],
    eth_estimateGas: ['estimateGas', ({ from, to, input }) => client.estimateGas({ account: from, to, data: input })],
    eth_gasPrice: ['getGasPrice', () => client.getGasPrice()],
    eth_maxPriorityFeePerGas: ['estimateMaxPriorityFeePerGas', () => client.estimateMaxPriorityFeePerGas()],
    eth_feeHistory: [
      'getFeeHistory',
      (count, newest, rewardPercentiles) =>
        client.getFeeHistory({ blockCount: Number(count), rewardPercentiles, ...at(newest) }),
    ],
  }
}

async function answers(url, ws, calls) {
  await answer('http', calls, methods(createPublicClient({ transport: http(url) })))
  const client = createPublicClient({ transport: webSocket(ws) })
  await answer('ws', calls, methods(client))
  await close(client)
}

/** viem reconnects and subscribes again by itself. */
async function follow(ws, end) {
  const client = createPublicClient({ transport: webSocket(ws, { reconnect: { delay: 100 } }) })
  // Both subscriptions report a lost connection, and some more than once.
  let live = true
  const onError = () => {
    if (live) report('lost', { by: 'onError' })
    live = false
  }
  const received = (step, value) => {
    live = true
    report(step, { value: rpc(value) })
  }
  report('subscribed', { to: 'heads', by: 'watchBlockHeaders' })
  const heads = client.watchBlockHeaders({ onBlockHeader: (head) => received('head', head), onError })
  report('subscribed', { to: 'logs', by: 'watchEvent' })
  const logs = client.watchEvent({ onLogs: ([log]) => received('log', log), onError })
  await end
  await heads()
  await logs()
  report('unsubscribed', { by: 'unwatch' })
  await close(client)
}

/** Over HTTP, viem asks filters. */
async function poll(url, end) {
  const client = createPublicClient({ transport: http(url), pollingInterval: 50 })
  const onLogs = (logs) => logs.forEach((log) => report('log', { value: rpc(log) }))
  const onError = (error) => {
    throw error
  }
  report('subscribed', { to: 'logs', by: 'watchEvent' })
  const unwatch = client.watchEvent({ onLogs, onError })
  const filter = await client.createBlockFilter()
  report('subscribed', { to: 'blocks', by: 'createBlockFilter' })
  await pollBlocks(() => client.getFilterChanges({ filter }), end)
  unwatch()
  await client.uninstallFilter({ filter })
}

/** Sends two transactions in a row, with viem's own nonces, gas and fees. */
async function send(url, key) {
  const transport = http(url)
  const client = createPublicClient({ transport, pollingInterval: 100 })
  const chain = defineChain({
    id: await client.getChainId(),
    name: 'test',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [url] } },
  })
  const wallet = createWalletClient({ account: privateKeyToAccount(key), chain, transport })
  const hashes = []
  for (const value of [1n, 2n]) hashes.push(await wallet.sendTransaction({ to: wallet.account.address, value }))
  for (const hash of hashes) {
    const { status } = await client.waitForTransactionReceipt({ hash })
    const { nonce } = await client.getTransaction({ hash })
    report('sent', { nonce: rpc(nonce), status: status === 'success' ? '0x1' : '0x0' })
  }
}

const close = async (client) => (await client.transport.getRpcClient()).close()

await run(`viem ${version}`, { answers, follow, poll, send })
