// Requests at given rates, whatever the answers take: the k6 side of `load-tests/run`, which writes
// the plan and reads the figures. Every answer is compared with the one that the server gave before
// there was any load.
import crypto from 'k6/crypto';
import { SharedArray } from 'k6/data';
import exec from 'k6/execution';
import http from 'k6/http';
import { Counter, Trend } from 'k6/metrics';

const plan = JSON.parse(open(__ENV.PLAN));
const OUTCOMES = ['good', 'refused', 'late', 'wrong'];
// The parts of a phase with a timeline, so that a recovery can be seen.
const STEP_MS = 250;
const STEPS = 16;

const workloads = {};
plan.workloads.forEach(({ name, file }) => {
  workloads[name] = {
    requests: new SharedArray(`${name} requests`, () => JSON.parse(open(file)).requests),
    sequence: new SharedArray(`${name} sequence`, () => JSON.parse(open(file)).sequence),
  };
});

function scenario(phase) {
  const seconds = `${phase.seconds}s`;
  const times = { startTime: `${phase.start}s`, gracefulStop: `${plan.timeout_ms + 1000}ms` };
  if (phase.rate === null) {
    return { executor: 'constant-vus', vus: phase.vus, duration: seconds, ...times };
  }
  return {
    executor: 'ramping-arrival-rate',
    startRate: phase.rate,
    stages: [{ target: phase.rate, duration: seconds }],
    preAllocatedVUs: phase.vus,
    ...times,
  };
}

// k6 reports a metric by tags only if a threshold names them: those that always hold are for that.
function thresholds() {
  const found = { 'answers{outcome:wrong}': ['count==0'], dropped_iterations: ['count==0'] };
  plan.phases.forEach((phase) => {
    const tag = `scenario:${phase.name}`;
    found[`dropped_iterations{${tag}}`] = ['count>=0'];
    found[`answer_ms{${tag}}`] = ['max>=0'];
    OUTCOMES.forEach((outcome) => {
      const isForbidden = phase.must_answer && outcome !== 'good';
      found[`answers{${tag},outcome:${outcome}}`] = [isForbidden ? 'count==0' : 'count>=0'];
    });
    for (let kind = 0; kind < phase.kinds; kind += 1) {
      found[`answer_ms{${tag},kind:${kind}}`] = ['max>=0'];
    }
    for (let step = 0; phase.has_timeline && step < STEPS; step += 1) {
      OUTCOMES.forEach((outcome) => {
        found[`answers{${tag},step:${step},outcome:${outcome}}`] = ['count>=0'];
      });
      found[`answer_ms{${tag},step:${step}}`] = ['max>=0'];
    }
  });
  return found;
}

const scenarios = {};
const phases = {};
plan.phases.forEach((phase) => {
  scenarios[phase.name] = scenario(phase);
  phases[phase.name] = phase;
});

export const options = {
  scenarios,
  thresholds: thresholds(),
  systemTags: ['scenario'],
  summaryTrendStats: ['med', 'p(95)', 'p(99)', 'max', 'count'],
};

const answers = new Counter('answers');
const answerMs = new Trend('answer_ms');
// Elements of a SharedArray are parsed at each access.
const parsed = {};

function next(name) {
  const { requests, sequence } = workloads[name];
  const index = sequence[exec.scenario.iterationInTest % sequence.length];
  const key = `${name} ${index}`;
  parsed[key] = parsed[key] || requests[index];
  return parsed[key];
}

function outcome(response, digest) {
  if (response.status === 200) {
    return crypto.sha256(response.body, 'hex') === digest ? 'good' : 'wrong';
  }
  if (response.status === 503 || response.status === 429) {
    const isWhole = response.headers['Retry-After'] && response.body.includes('"error":{"code":');
    return isWhole ? 'refused' : 'wrong';
  }
  // The kernel refused the connection (1212), or reset it before anything was read (1220).
  if (response.error_code === 1212 || response.error_code === 1220) return 'refused';
  // 1050: the timeout. Any other failure of a connection is the server's.
  return response.error_code === 1050 ? 'late' : 'wrong';
}

const wrong = {};
const headers = { 'Content-Type': 'application/json' };
// k6 decodes what is compressed.
if (plan.encoding) headers['Accept-Encoding'] = plan.encoding;

export default function () {
  const phase = phases[exec.scenario.name];
  const request = next(phase.workload);
  const tags = { kind: String(request.kind) };
  if (phase.has_timeline) {
    tags.step = String(Math.floor((Date.now() - exec.scenario.startTime) / STEP_MS));
  }
  const response = http.post(phase.url, request.body, { headers, timeout: plan.timeout_ms });
  const found = outcome(response, request.digest);
  answers.add(1, { ...tags, outcome: found });
  if (found === 'good') {
    // The time that it took to connect is part of `blocked`.
    const { blocked, duration } = response.timings;
    answerMs.add(blocked + duration, tags);
  }
  if (found === 'wrong' && !wrong[response.error_code || response.status]) {
    wrong[response.error_code || response.status] = true;
    const body = response.body ? response.body.slice(0, 200) : '';
    console.error(`${request.body.slice(0, 200)}: ${response.status} ${response.error} ${body}`);
  }
}

export function handleSummary(data) {
  const figures = {};
  Object.entries(data.metrics).forEach(([name, { values }]) => { figures[name] = values; });
  return { [plan.figures]: JSON.stringify(figures) };
}
