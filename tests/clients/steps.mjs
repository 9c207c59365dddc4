// What the JavaScript clients have in common: one JSON line a step, values as JSON-RPC writes them. See README.md.

import { readFileSync } from 'node:fs'

/** Tells the test of a step, in one line. */
export function tell(step, members = {}) {
  process.stdout.write(JSON.stringify({ step, ...members }) + '\n')
}

/** A value of a client as JSON-RPC writes it: numbers are quantities, hexadecimal is lower case. */
export function rpc(value) {
  if (typeof value === 'bigint' || typeof value === 'number') return `0x${value.toString(16)}`
  if (typeof value === 'string') return value.startsWith('0x') ? value.toLowerCase() : value
  if (Array.isArray(value)) return value.map(rpc)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [name, rpc(member)]))
}

/** Members under the names that JSON-RPC has for them. */
export function renamed(value, names) {
  return Object.fromEntries(Object.entries(value).map(([name, member]) => [names[name] ?? name, member]))
}

/**
 * Makes every call over one transport, some at the same time: `methods` has, by JSON-RPC's name, the client's own and
 * how to call it.
 */
export async function answer(over, calls, methods) {
  for (let start = 0; start < calls.length; start += 16) {
    const some = calls.slice(start, start + 16)
    const values = await Promise.all(some.map(({ method, params }) => methods[method][1](...params)))
    for (const [index, { method }] of some.entries()) {
      tell('answer', { over, call: start + index, by: methods[method][0], value: rpc(values[index]) })
    }
  }
}

/** `answers HTTP WS CALLS`, or `follow WS`. */
export async function run(client, { answers, follow }) {
  // What nobody waits for must not pass unseen.
  process.on('unhandledRejection', (error) => {
    throw error
  })
  tell('client', { value: client })
  const [mode, ...rest] = process.argv.slice(2)
  if (mode === 'answers') {
    const [http, ws, calls] = rest
    await answers(http, ws, JSON.parse(readFileSync(calls, 'utf8')))
  } else if (mode === 'follow') {
    const end = new Promise((resolve) => process.once('SIGTERM', resolve))
    await follow(rest[0], end)
  } else {
    throw new Error('answers HTTP WS CALLS, or follow WS')
  }
  tell('end')
}
