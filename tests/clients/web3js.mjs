import { Web3, WebSocketProvider } from 'web3'
import { answer, report, rpc, run } from './steps.mjs'

/** web3.js adds `data` to `input`, and pads `r` and `s` to 32 bytes where JSON-RPC has a quantity. */
function transaction({ data, r, s, ...transaction }) {
  return { ...transaction, r: BigInt(r), s: BigInt(s) }
}

/** A block's nonce is 8 bytes; web3.js converts it to a number. */
function block({ nonce, transactions, ...block }) {
  const full = transactions?.map((each) => (typeof each === 'string' ? each : transaction(each)))
  return { ...block, nonce: `0x${nonce.toString(16).padStart(16, '0')}`, transactions: full }
}

function methods({ eth }) {
  return {
    eth_getStorageAt: ['getStorageAt', (address, slot, at) => eth.getStorageAt(address, slot, at)],
    eth_getLogs: ['getPastLogs', (filter) => eth.getPastLogs(filter)],
    eth_getBlockByHash: ['getBlock', async (hash, full) => block(await eth.getBlock(hash, full))],
    eth_getUncleByBlockHashAndIndex: ['getUncle', async (hash, index) => block(await eth.getUncle(hash, index))],
    eth_getTransactionByBlockNumberAndIndex: [
      'getTransactionFromBlock',
      // A number, because web3.js takes a string of even length for a hash.
      async (number, index) => transaction(await eth.getTransactionFromBlock(Number(number), index)),
    ],
    eth_getTransactionReceipt: ['getTransactionReceipt', (hash) => eth.getTransactionReceipt(hash)],
    eth_getProof: ['getProof', (address, keys, at) => eth.getProof(address, keys, at)],
    eth_call: ['call', (call, at) => eth.call(call, at)],
    eth_estimateGas: ['estimateGas', (call) => eth.estimateGas(call)],
    eth_gasPrice: ['getGasPrice', () => eth.getGasPrice()],
    eth_maxPriorityFeePerGas: ['getMaxPriorityFeePerGas', () => eth.getMaxPriorityFeePerGas()],
    eth_feeHistory: ['getFeeHistory', (count, newest, percentiles) => eth.getFeeHistory(count, newest, percentiles)],
  }
}

async function answers(http, ws, calls) {
  await answer('http', calls, methods(new Web3(http)))
  const web3 = new Web3(ws)
  await answer('ws', calls, methods(web3))
  web3.provider.disconnect()
}

/**
 * web3.js reconnects by itself, and its user subscribes again. It does not reconnect after a close frame with 1001: its
 * user makes another provider.
 */
async function follow(ws, end) {
  let web3, ended
  async function subscribe({ eth }) {
    report('subscribed', { to: 'heads', by: 'subscribe("newHeads")' })
    const heads = await eth.subscribe('newHeads')
    heads.on('data', (head) => report('head', { value: rpc(block(head)) }))
    report('subscribed', { to: 'logs', by: 'subscribe("logs")' })
    const logs = await eth.subscribe('logs', {})
    logs.on('data', (log) => report('log', { value: rpc(log) }))
  }
  async function connect() {
    const provider = new WebSocketProvider(ws, {}, { delay: 100 })
    const connected = (web3 = new Web3(provider))
    async function subscribeAgain() {
      report('lost', { by: 'on("connect")' })
      // The subscriptions of the lost connection cannot be ended on the new one.
      connected.subscriptionManager.clear()
      await subscribe(connected)
    }
    provider.once('connect', () => provider.on('connect', subscribeAgain))
    provider.once('disconnect', async () => {
      if (ended) return
      report('lost', { by: 'on("disconnect")' })
      await connect()
    })
    await subscribe(connected)
  }
  await connect()
  await end
  ended = true
  await web3.subscriptionManager.unsubscribe()
  report('unsubscribed', { by: 'unsubscribe' })
  web3.provider.disconnect()
}

/** Sends two transactions in a row, with web3.js' own gas and fees. Its own nonces are those of the latest block. */
async function send(http, key) {
  const web3 = new Web3(http)
  web3.eth.transactionPollingInterval = 100
  const [{ address }] = web3.eth.accounts.wallet.add(key)
  const sent = []
  for (const value of [1n, 2n]) {
    const nonce = await web3.eth.getTransactionCount(address, 'pending')
    const promised = web3.eth.sendTransaction({ from: address, to: address, value, nonce })
    // The promise is for the receipt; the next one is sent once this one has its hash.
    const hash = await new Promise((resolve, reject) => promised.once('transactionHash', resolve).once('error', reject))
    sent.push([hash, promised])
  }
  for (const [hash, promised] of sent) {
    const { status } = await promised
    const { nonce } = await web3.eth.getTransaction(hash)
    report('sent', { nonce: rpc(nonce), status: rpc(status) })
  }
}

await run(`web3.js ${Web3.version}`, { answers, follow, send })
