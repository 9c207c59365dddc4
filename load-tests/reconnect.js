// Sessions that are all cut at the same moment and connect again at once, again and again; each
// reads and subscribes again. `load-tests/run reconnect` starts nearhead and runs this.
import { WebSocket } from 'k6/websockets';
import { check } from 'k6';
import { Counter, Trend } from 'k6/metrics';

import { countRefusal } from './refusals.js';

const url = __ENV.NEARHEAD_WS_URL;
const sessions = Number(__ENV.SESSIONS || 400);
const cuts = Number(__ENV.CUTS || 4);
const vus = 4;
// All sessions are to be back before the next cut.
const EVERY_MS = 3000;

export const options = {
  scenarios: {
    reconnect: {
      executor: 'per-vu-iterations', vus, iterations: 1, maxDuration: `${(cuts + 5) * 3}s`,
    },
  },
  thresholds: {
    checks: ['rate==1'],
    back: [`count==${Math.floor(sessions / vus) * vus * (cuts + 1)}`],
    // From the cut until a session has an answer and its subscription.
    back_ms: ['p(99)<2000'],
  },
};

const back = new Counter('back');
const backMs = new Trend('back_ms');

function connect(turn, at) {
  const socket = new WebSocket(url);
  let isClosing = false;
  let answers = 0;
  const send = (id, method, params) => (
    socket.send(JSON.stringify({ jsonrpc: '2.0', id, method, params })));
  socket.onopen = () => {
    send(1, 'eth_getBlockByNumber', ['latest', false]);
    send(2, 'eth_subscribe', ['newHeads']);
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.method !== undefined) return;
    countRefusal(message);
    check(message, {
      'a session that is back gets answers': ({ id, result }) => (
        result !== undefined && (id === 1 ? /^0x[0-9a-f]{64}$/.test(result.hash) : id === 2)),
    });
    answers += 1;
    if (answers < 2) return;
    back.add(1);
    backMs.add(Date.now() - at);
    const next = at + EVERY_MS;
    setTimeout(() => {
      isClosing = true;
      socket.close(1000);
      if (turn < cuts) connect(turn + 1, next);
    }, Math.max(1, next - Date.now()));
  };
  socket.onerror = (error) => check(error, { 'no session fails': () => isClosing });
  socket.onclose = () => check(null, { 'no session ends early': () => isClosing });
}

export default function () {
  const now = Date.now();
  for (let index = 0; index < sessions / vus; index += 1) connect(0, now);
}
