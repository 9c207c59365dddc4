// Sessions that request megabytes and do not read, and sessions that read. The server closes the
// stalled ones; the others notice nothing. `load-tests/run ws-stalled` starts nearhead and this.
import http from 'k6/http';
import stalling from 'k6/ws';
import { WebSocket } from 'k6/websockets';
import { check, sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';

import { countRefusal } from './refusals.js';

const url = __ENV.NEARHEAD_WS_URL;
const metricsUrl = __ENV.NEARHEAD_METRICS_URL;
const seconds = Number(__ENV.SECONDS || 25);
const stalled = Number(__ENV.STALLED || 10);
const reading = Number(__ENV.SESSIONS || 100);

function scenario(exec, vus) {
  const maxDuration = `${seconds + 20}s`;
  return { executor: 'per-vu-iterations', exec, vus, iterations: 1, maxDuration };
}

export const options = {
  scenarios: {
    stalled: scenario('stall', stalled),
    reading: scenario('read', 1),
  },
  thresholds: {
    checks: ['rate==1'],
    answer_ms: ['p(95)<100'],
    answers: [`count>${reading * seconds * 2}`],
    stalled_closed: [`count==${stalled}`],
  },
};

const answers = new Counter('answers');
const answerMs = new Trend('answer_ms');
const stalledClosed = new Counter('stalled_closed');

// One response is megabytes; a few fill every buffer between the server and a stalled handler.
const MUCH = JSON.stringify(Array.from({ length: 900 }, (_, id) => (
  { jsonrpc: '2.0', id, method: 'eth_getBlockByNumber', params: ['latest', true] })));

export function stall() {
  // A handler that sleeps keeps k6 from reading the next message.
  let end = null;
  stalling.connect(url, {}, (socket) => {
    socket.on('open', () => {
      for (let times = 0; times < 12; times += 1) socket.send(MUCH);
      sleep(seconds - 8);
      // Messages in flight arrive now, then the close frame.
      socket.setTimeout(() => socket.close(), 8000);
    });
    socket.on('close', (code) => { end = end || `closed with ${code}`; });
    socket.on('error', (error) => { end = end || error.error(); });
  });
  check(end, {
    'a stalled session is closed with 1013 or cut': (e) => (
      e !== null && !/closed with (1000|1001)$/.test(e)),
  });
  stalledClosed.add(1);
}

export function read() {
  const until = Date.now() + seconds * 1000;
  for (let index = 0; index < reading; index += 1) {
    const socket = new WebSocket(url);
    let waiting = null;
    let isClosing = false;
    const ask = (id) => {
      waiting = { id, at: Date.now() };
      const [method, params] = ['eth_getBlockByNumber', ['latest', false]];
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params }));
    };
    socket.onopen = () => ask(1);
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(data);
      answerMs.add(Date.now() - waiting.at);
      answers.add(1);
      countRefusal(answer);
      check(answer, {
        'the others get responses': (a) => (
          a.id === waiting.id && /^0x[0-9a-f]{64}$/.test(a.result.hash)),
      });
      if (Date.now() < until) {
        setTimeout(() => ask(answer.id + 1), 200);
        return;
      }
      isClosing = true;
      socket.close(1000);
    };
    socket.onclose = () => check(null, { 'no session ends early': () => isClosing });
  }
}

// The metrics count every stalled session as closed, and no other.
export function teardown() {
  const text = http.get(metricsUrl).body;
  const found = /nearhead_sessions_closed_total\{code="1013"\} (\d+)/.exec(text) || [0, 0];
  check(Number(found[1]), { 'all stalled sessions are counted': (count) => count === stalled });
}
