// Sends two transactions in a row with each of ethers and viem, without waiting in between, and
// waits for their receipts. Arguments: the URL, a secret key with ether. Prints a line of JSON: the
// nonces and hashes of each client.
import { JsonRpcProvider, Wallet } from 'ethers'
import { createPublicClient, createWalletClient, defineChain, http } from 'viem'
import { privateKeyToAccount } from 'viem/accounts'

const [url, key] = process.argv.slice(2)
const to = '0x7777777777777777777777777777777777777777'

async function withEthers() {
  // By default ethers gives the same answer for 250 ms, also for the nonce that is pending.
  const options = { cacheTimeout: -1, polling: true, pollingInterval: 100 }
  const provider = new JsonRpcProvider(url, undefined, options)
  const wallet = new Wallet(key, provider)
  const sent = []
  for (const value of [1n, 2n]) sent.push(await wallet.sendTransaction({ to, value, gasLimit: 21000n }))
  const receipts = await Promise.all(sent.map((one) => one.wait()))
  provider.destroy()
  return sent.map(({ nonce, hash }, at) => ({ nonce, hash, status: receipts[at].status }))
}

async function withViem() {
  const transport = http(url)
  const pub = createPublicClient({ transport, pollingInterval: 100 })
  const chain = defineChain({
    id: await pub.getChainId(),
    name: 'test',
    nativeCurrency: { name: 'Ether', symbol: 'ETH', decimals: 18 },
    rpcUrls: { default: { http: [url] } },
  })
  const wallet = createWalletClient({ account: privateKeyToAccount(key), chain, transport })
  const hashes = []
  for (const value of [3n, 4n]) hashes.push(await wallet.sendTransaction({ to, value, gas: 21000n }))
  const sent = []
  for (const hash of hashes) {
    const { status } = await pub.waitForTransactionReceipt({ hash })
    const { nonce } = await pub.getTransaction({ hash })
    sent.push({ nonce, hash, status: status === 'success' ? 1 : 0 })
  }
  return sent
}

console.log(JSON.stringify({ ethers: await withEthers(), viem: await withViem() }))
process.exit(0)
