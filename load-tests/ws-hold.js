// Sessions that stay open, beside others that close and reconnect all the time. Each sends a
// request now and then, and every response is checked. `load-tests/run ws-hold` starts nearhead and
// runs this.
import { WebSocket } from 'k6/websockets';
import { check } from 'k6';
import { Counter, Trend } from 'k6/metrics';

import { countRefusal } from './refusals.js';

const url = __ENV.NEARHEAD_WS_URL;
const seconds = Number(__ENV.SECONDS || 20);
const sessions = Number(__ENV.SESSIONS || 400);
const vus = 4;
const perVu = Math.ceil(sessions / vus);
// Sessions of each VU that reconnect after a few seconds.
const churning = Math.ceil(sessions / vus / 4);

export const options = {
  scenarios: {
    hold: {
      executor: 'per-vu-iterations', vus, iterations: 1, maxDuration: `${seconds + 20}s`,
    },
  },
  thresholds: {
    checks: ['rate==1'],
    answer_ms: ['p(99)<250'],
    // Each session gets answers: one that never connects fails no check.
    sessions_answered: [`count==${perVu * vus}`],
    // A run without reconnects or responses shows nothing.
    sessions_opened: [`count>${perVu * vus}`],
    answers: [`count>${sessions * 2}`],
  },
};

const opened = new Counter('sessions_opened');
const answered = new Counter('sessions_answered');
const answers = new Counter('answers');
const answerMs = new Trend('answer_ms');
const QUANTITY = /^0x(0|[1-9a-f][0-9a-f]*)$/;

// Requests in turn, each with the check of its result.
const requests = [
  ['eth_chainId', [], (result) => QUANTITY.test(result)],
  ['eth_getBlockByNumber', ['latest', false],
    (block) => QUANTITY.test(block.number) && block.transactions.length > 0],
  ['eth_getLogs', [{}], (logs) => logs.length > 0 && logs.every((log) => log.removed === false)],
];

function hold(index, until, wasAnswered = false) {
  const churns = index < churning;
  const socket = new WebSocket(url);
  let waiting = null;
  let isClosing = false;
  let isAnswered = wasAnswered;
  const ask = (turn) => {
    if (isClosing) return;
    const [method, params, holds] = requests[turn % requests.length];
    waiting = { id: turn + 1, holds, method, at: Date.now() };
    socket.send(JSON.stringify({ jsonrpc: '2.0', id: waiting.id, method, params }));
  };
  const close = () => {
    isClosing = true;
    socket.close(1000);
  };
  socket.onopen = () => {
    opened.add(1);
    ask(index);
    const end = churns ? Math.min(until, Date.now() + 2000 + (index % 10) * 100) : until;
    setTimeout(close, Math.max(1, end - Date.now()));
  };
  socket.onmessage = ({ data }) => {
    const answer = JSON.parse(data);
    const { id, holds, method, at } = waiting;
    answerMs.add(Date.now() - at);
    answers.add(1);
    if (!isAnswered) answered.add(1);
    isAnswered = true;
    countRefusal(answer);
    check(answer, {
      [`${method}: the result matches the request`]: (a) => (
        a.id === id && a.result !== undefined && holds(a.result)),
    });
    setTimeout(() => ask(id), 1000 + (index % 7) * 100);
  };
  socket.onerror = (error) => check(error, { 'no session fails': () => isClosing });
  socket.onclose = ({ code }) => {
    check(code, { 'no session ends early': () => isClosing });
    if (churns && Date.now() < until - 3000) hold(index, until, isAnswered);
  };
}

export default function () {
  const until = Date.now() + seconds * 1000;
  for (let index = 0; index < perVu; index += 1) hold(index, until);
}
