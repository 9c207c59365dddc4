// Sessions that follow heads and logs through reorgs: every head builds on a known block, every log
// belongs to an announced block. `load-tests/run ws-fanout` starts nearhead and runs this.
import { WebSocket } from 'k6/websockets';
import { check } from 'k6';
import { Counter, Trend } from 'k6/metrics';

import { countRefusal } from './refusals.js';

const url = __ENV.NEARHEAD_WS_URL;
const seconds = Number(__ENV.SECONDS || 25);
const sessions = Number(__ENV.SESSIONS || 200);
const vus = 4;
const perVu = Math.ceil(sessions / vus);

export const options = {
  scenarios: {
    fanout: {
      executor: 'per-vu-iterations', vus, iterations: 1, maxDuration: `${seconds + 20}s`,
    },
  },
  thresholds: {
    checks: ['rate==1'],
    // Each session gets heads: one that never connects fails no check.
    sessions_following: [`count==${perVu * vus}`],
    // One head a second, with a margin for start and end.
    heads: [`count>${sessions * (seconds - 5)}`],
    logs: [`count>${sessions * (seconds - 5)}`],
    removed: ['count>0'],
    // Mostly the time in which k6 parses messages.
    head_spread_ms: ['p(95)<2000'],
  },
};

const following = new Counter('sessions_following');
const heads = new Counter('heads');
const logs = new Counter('logs');
const removed = new Counter('removed');
// The time from the first session of a VU that receives a head to each of its other sessions.
const spread = new Trend('head_spread_ms');
const firstSeen = {};

function follow(until) {
  const socket = new WebSocket(url);
  const topics = {};
  // Hashes of announced blocks, and logs that are not removed.
  const known = new Set();
  const held = new Map();
  let last = null;
  let isClosing = false;
  socket.onopen = () => {
    ['newHeads', 'logs'].forEach((topic, index) => {
      const params = topic === 'logs' ? [topic, {}] : [topic];
      const method = 'eth_subscribe';
      socket.send(JSON.stringify({ jsonrpc: '2.0', id: index + 1, method, params }));
    });
    setTimeout(() => {
      isClosing = true;
      socket.close(1000);
    }, Math.max(1, until - Date.now()));
  };
  const onHead = (head) => {
    heads.add(1);
    firstSeen[head.hash] = firstSeen[head.hash] || Date.now();
    spread.add(Date.now() - firstSeen[head.hash]);
    const isNext = last === null || head.parentHash === last.hash;
    // The first block after a reorg builds on an announced block, or on one older than the session.
    const isBranch = last !== null && Number(head.number) <= Number(last.number)
      && (known.has(head.parentHash) || Number(head.number) <= first);
    check(head, { 'a head follows without a gap': () => isNext || isBranch });
    if (last === null) {
      first = Number(head.number);
      following.add(1);
    }
    known.add(head.hash);
    last = head;
  };
  let first = 0;
  const onLog = (log) => {
    logs.add(1);
    const key = `${log.blockHash} ${log.logIndex}`;
    if (log.removed) {
      removed.add(1);
      // The session was not notified of logs that are older than it.
      check(log, {
        'a removed log was added before': () => (
          held.delete(key) || Number(log.blockNumber) < first || first === 0),
      });
    } else {
      check(log, {
        'no log comes twice': () => !held.has(key),
        'a log belongs to the last head': () => last === null || log.blockHash === last.hash,
      });
      held.set(key, true);
    }
  };
  socket.onmessage = ({ data }) => {
    const message = JSON.parse(data);
    if (message.method === undefined) {
      countRefusal(message);
      check(message, {
        'eth_subscribe returns an id': (m) => /^0x[0-9a-f]+$/.test(m.result),
      });
      topics[message.result] = message.id === 1 ? onHead : onLog;
      return;
    }
    topics[message.params.subscription](message.params.result);
  };
  socket.onerror = (error) => check(error, { 'no session fails': () => isClosing });
  socket.onclose = () => check(null, { 'no session ends early': () => isClosing });
}

export default function () {
  const until = Date.now() + seconds * 1000;
  for (let index = 0; index < perVu; index += 1) follow(until);
}
