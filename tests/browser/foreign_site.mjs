// A site of somebody else, whose page calls the public listener as a dapp does.

import { createServer } from 'node:http'

/** Serves an empty page; returns its origin, and what ends it. */
export async function serve() {
  const server = createServer((_, response) => {
    response.writeHead(200, { 'content-type': 'text/html' })
    response.end('<!doctype html><link rel="icon" href="data:,"><title>dapp</title>')
  })
  await new Promise((listening) => server.listen(0, '127.0.0.1', listening))
  return { origin: `http://127.0.0.1:${server.address().port}`, close: () => server.close() }
}

/** Makes a call from the page; returns the status, the answer, and the headers that its script may read. */
export async function call(page, url, method, { params = [], authorization } = {}) {
  return page.evaluate(async ([url, method, params, authorization]) => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method, params })
    const headers = { 'content-type': 'application/json', ...(authorization && { authorization }) }
    const answer = await fetch(url, { method: 'POST', headers, body })
    return { status: answer.status, headers: Object.fromEntries(answer.headers), body: await answer.json() }
  }, [url, method, params, authorization])
}

/** Makes a call from the page; returns what its script sees of the answer, and the headers that were sent. */
export async function callAndListen(page, url, method) {
  const isAnswer = (response) => response.url() === url && response.request().method() === 'POST'
  const [response, seen] = await Promise.all([page.waitForResponse(isAnswer), call(page, url, method)])
  return { ...seen, sent: await response.allHeaders() }
}

/** Opens a session with a subscription; `closed` resolves to the code and the reason of its end. */
export async function openSession(page, url) {
  await page.evaluate((url) => new Promise((opened, failed) => {
    const socket = new WebSocket(url)
    window.ended = new Promise((closed) => {
      socket.onclose = ({ code, reason }) => {
        closed([code, reason])
        failed(new Error(`closed: ${code}`))
      }
    })
    socket.onopen = () => socket.send(JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'eth_subscribe', params: ['newHeads'] }))
    socket.onmessage = opened
  }), url)
  return { closed: () => page.evaluate(() => window.ended) }
}
