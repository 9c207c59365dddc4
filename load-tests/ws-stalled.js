// Sessions that ask for much and do not read, beside others that ask and read: those are answered as if nothing were, and
// the stalled ones are closed. `load-tests/run ws-stalled` starts what it needs.
import http from 'k6/http';
import stalling from 'k6/ws';
import { WebSocket } from 'k6/experimental/websockets';
import { check, sleep } from 'k6';
import { Counter, Trend } from 'k6/metrics';

const url = __ENV.NEARHEAD_WS_URL;
const metricsUrl = __ENV.NEARHEAD_METRICS_URL;
const seconds = Number(__ENV.SECONDS || 25);
const stalled = Number(__ENV.STALLED || 10);
const reading = Number(__ENV.SESSIONS || 100);

export const options = {
  scenarios: {
    stalled: { executor: 'per-vu-iterations', exec: 'stall', vus: stalled, iterations: 1, maxDuration: `${seconds + 20}s` },
    reading: { executor: 'per-vu-iterations', exec: 'read', vus: 1, iterations: 1, maxDuration: `${seconds + 20}s` },
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

// Megabytes in one answer; a few fill all that the kernel and k6 keep for a handler that does not read.
const MUCH = JSON.stringify(Array.from({ length: 900 }, (_, id) => (
  { jsonrpc: '2.0', id, method: 'eth_getBlockByNumber', params: ['latest', true] })));

export function stall() {
  // A handler that sleeps keeps k6 from reading the next message.
  let end = null;
  stalling.connect(url, {}, (socket) => {
    socket.on('open', () => {
      for (let times = 0; times < 12; times += 1) socket.send(MUCH);
      sleep(seconds - 8);
      // What was on its way comes now, and the end after it.
      socket.setTimeout(() => socket.close(), 8000);
    });
    socket.on('close', (code) => { end = end || `closed with ${code}`; });
    socket.on('error', (error) => { end = end || error.error(); });
  });
  check(end, { 'a stalled session is closed with 1013 or cut': (e) => e !== null && !/closed with (1000|1001)$/.test(e) });
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
      socket.send(JSON.stringify({ jsonrpc: '2.0', id, method: 'eth_getBlockByNumber', params: ['latest', false] }));
    };
    socket.onopen = () => ask(1);
    socket.onmessage = ({ data }) => {
      const answer = JSON.parse(data);
      answerMs.add(Date.now() - waiting.at);
      answers.add(1);
      check(answer, { 'the others are answered': (a) => a.id === waiting.id && /^0x[0-9a-f]{64}$/.test(a.result.hash) });
      if (Date.now() < until) {
        setTimeout(() => ask(answer.id + 1), 200);
        return;
      }
      isClosing = true;
      socket.close(1000);
    };
    socket.onclose = () => check(null, { 'no session ends that was not told to': () => isClosing });
  }
}

// The service counts what it closed: all of the stalled, and nobody else.
export function teardown() {
  const text = http.get(metricsUrl).body;
  const evicted = Number((/nearhead_sessions_closed_total\{code="1013"\} (\d+)/.exec(text) || [0, 0])[1]);
  check(evicted, { 'the service says that it evicted the stalled': (count) => count === stalled });
}
