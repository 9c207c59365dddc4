// All seven methods, every response checked. `load-tests/run smoke` starts nearhead and runs this.
//
// An iteration reads the head block, then requests its parts by hash and number. So it works with
// every source and while the window moves. It is a closed loop of VUS clients; with ARRIVALS set,
// so many iterations begin each second, whatever the answers take, and none may be dropped.
// FOUND is the share of transactions and receipts that have to exist.
import http from 'k6/http';
import { check } from 'k6';
import { Counter, Rate, Trend } from 'k6/metrics';

const url = __ENV.NEARHEAD_URL;

const duration = __ENV.DURATION || '10s';
const arrivals = Number(__ENV.ARRIVALS || 0);
const foundMin = Number(__ENV.FOUND || 0.95);
const openLoop = {
  executor: 'constant-arrival-rate',
  rate: arrivals,
  duration,
  // For iterations of some seconds. If they take longer, k6 drops one for each VU that it adds.
  preAllocatedVUs: arrivals * 4,
  maxVUs: arrivals * 12,
};
const closedLoop = { executor: 'constant-vus', vus: Number(__ENV.VUS || 16), duration };

export const options = {
  scenarios: { seven: arrivals ? openLoop : closedLoop },
  thresholds: {
    dropped_iterations: ['count==0'],
    checks: ['rate==1'],
    http_req_failed: ['rate==0'],
    'http_req_duration{kind:call}': ['p(99)<100'],
    // null is right only if a reorg replaced the block between two calls, which is rare unless
    // iterations take long. Uncles do not count: the dev chain is past the merge and has none.
    'found{method:eth_getTransactionByBlockNumberAndIndex}': [`rate>${foundMin}`],
    'found{method:eth_getTransactionReceipt}': [`rate>${foundMin}`],
    'found{method:eth_getLogs}': ['rate>0.5'],
  },
};

const bytes = new Trend('answer_bytes');
const found = new Rate('found');
// A refusal fails the checks too.
const refused = new Counter('refused');
const HASH = /^0x[0-9a-f]{64}$/;
const QUANTITY = /^0x(0|[1-9a-f][0-9a-f]*)$/;

let nextId = 0;

function call(method, params, holds) {
  const id = ++nextId;
  const response = http.post(url, JSON.stringify({ jsonrpc: '2.0', id, method, params }), {
    headers: { 'Content-Type': 'application/json' },
    tags: { kind: 'call', method },
  });
  if (response.status === 429 || response.status === 503) refused.add(1);
  bytes.add(response.body ? response.body.length : 0, { method });
  let answer = null;
  try {
    answer = response.json();
  } catch (_) {
    // Not JSON: the checks below fail.
  }
  check(answer, {
    [`${method}: the response has the id and no error`]: (a) => (
      a !== null && a.id === id && a.error === undefined),
    [`${method}: the result matches the request`]: (a) => (
      a !== null && a.result !== undefined && holds(a.result)),
  });
  return answer === null ? null : answer.result;
}

// Counts how often an object exists that a reorg may have removed, and checks it if it does.
function callFound(method, params, holds) {
  const result = call(method, params, (value) => value === null || holds(value));
  found.add(result !== null && result !== undefined, { method });
}

export default function () {
  const latest = call('eth_getBlockByNumber', ['latest', false],
    (b) => b !== null && HASH.test(b.hash));
  if (!latest) return;
  const block = call('eth_getBlockByHash', [latest.hash, true],
    (b) => b !== null && b.hash === latest.hash
      && b.transactions.length === latest.transactions.length);
  if (!block) return;

  call('eth_getUncleByBlockHashAndIndex', [block.hash, '0x0'],
    (u) => (block.uncles.length === 0 ? u === null : u.hash === block.uncles[0]));

  block.transactions.slice(0, 2).forEach((expected, index) => {
    // A reorg may have replaced the block at this number: compare the number, not the hash.
    callFound('eth_getTransactionByBlockNumberAndIndex', [block.number, `0x${index.toString(16)}`],
      (t) => t.blockNumber === block.number && QUANTITY.test(t.nonce));
    callFound('eth_getTransactionReceipt', [expected.hash],
      (r) => r.transactionHash === expected.hash && QUANTITY.test(r.gasUsed));
  });

  const logs = call('eth_getLogs', [{ blockHash: block.hash }],
    (list) => Array.isArray(list)
      && list.every((log) => log.blockHash === block.hash && log.removed === false));
  found.add(logs !== null && logs.length > 0, { method: 'eth_getLogs' });
  const emitter = logs && logs.length > 0 ? logs[0].address : block.miner;
  if (logs && logs.length > 0) {
    const filter = { blockHash: block.hash, address: emitter, topics: logs[0].topics.slice(0, 1) };
    call('eth_getLogs', [filter],
      (list) => list.length > 0 && list.every((log) => log.address === emitter));
  }
  call('eth_getStorageAt', [emitter, '0x0', { blockHash: block.hash }],
    (value) => HASH.test(value));
  call('eth_getProof', [emitter, ['0x0'], { blockHash: block.hash }],
    (proof) => proof.address === emitter && proof.accountProof.length > 0
      && proof.storageProof.length === 1);
}
