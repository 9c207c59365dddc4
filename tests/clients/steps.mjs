// Shared by the JavaScript clients: one JSON line a step, values in JSON-RPC notation. See README.md.

import { readFileSync } from 'node:fs'

/** Reports a step to the test, in one line. */
export function report(step, members = {}) {
  process.stdout.write(JSON.stringify({ step, ...members }) + '\n')
}

/** Converts a client's value to JSON-RPC notation: numbers become quantities, hexadecimal lower case. */
export function rpc(value) {
  if (typeof value === 'bigint' || typeof value === 'number') return `0x${value.toString(16)}`
  if (typeof value === 'string') return value.startsWith('0x') ? value.toLowerCase() : value
  if (Array.isArray(value)) return value.map(rpc)
  if (value === null || typeof value !== 'object') return value
  // Ratios are JSON numbers in JSON-RPC too.
  const member = (name, value) => (name.endsWith('Ratio') ? value : rpc(value))
  return Object.fromEntries(Object.entries(value).map(([name, value]) => [name, member(name, value)]))
}

/** Renames members to their JSON-RPC names. */
export function renamed(value, names) {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [names[name] ?? name, member]))
}

/**
 * Makes every call over one transport, 16 at a time. `methods` maps a JSON-RPC method to the name of the client's
 * function and the function.
 */
export async function answer(over, calls, methods) {
  for (let start = 0; start < calls.length; start += 16) {
    const batch = calls.slice(start, start + 16)
    const values = await Promise.all(batch.map(({ method, params }) => methods[method][1](...params)))
    for (const [index, { method }] of batch.entries()) {
      report('answer', { over, call: start + index, by: methods[method][0], value: rpc(values[index]) })
    }
  }
}

/** Reports the hashes that a filter of blocks gives, until the end. `changes` asks it. */
export async function pollBlocks(changes, end) {
  let ended = false
  end.then(() => (ended = true))
  while (!ended) {
    for (const hash of await changes()) report('block', { value: hash })
    await new Promise((resolve) => setTimeout(resolve, 50))
  }
}

/** Runs `answers HTTP WS CALLS`, `follow WS`, `poll HTTP` or `send HTTP KEY` from the command line. */
export async function run(client, { answers, follow, poll, send }) {
  // An unhandled rejection fails the client.
  process.on('unhandledRejection', (error) => {
    throw error
  })
  report('client', { value: client })
  const [mode, ...rest] = process.argv.slice(2)
  if (mode === 'answers') {
    const [http, ws, calls] = rest
    await answers(http, ws, JSON.parse(readFileSync(calls, 'utf8')))
  } else if (mode === 'follow' || (mode === 'poll' && poll)) {
    const end = new Promise((resolve) => process.once('SIGTERM', resolve))
    await { follow, poll }[mode](rest[0], end)
  } else if (mode === 'send') {
    await send(...rest)
  } else {
    throw new Error('usage: answers HTTP WS CALLS, follow WS, poll HTTP, or send HTTP KEY')
  }
  report('end')
}
