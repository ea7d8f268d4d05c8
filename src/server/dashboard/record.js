// What happened in the last half minute: steps and tokens as /debug/steps tells them, oldest first.
import { getJson } from "./api.js";

export const WINDOW_US = 30e6;
export const KINDS = ["decode", "prefill", "fused"];
const KEEP_US = WINDOW_US + 2e6;
const FINISHED = 8, ROUNDS_MAX = 4, NEWEST = "18446744073709551615";

export const record = {
  steps: [], // {kind, start, end, request, rows, tokens, position, predicted, bytes, yielded, part}
  streams: new Map(), // request id -> {id, tenant, batch, tokens: [{at, gap, bound, late}], finished}
  lost: 0,
  offset: null, // server's microseconds less this page's
};

let cursor = null;

export const serverNow = () => (record.offset == null ? 0 : performance.now() * 1000 + record.offset);

function stream(id, tenant, batch) {
  let found = record.streams.get(id);
  if (!found) {
    found = { id, tenant, batch, tokens: [], finished: 0, seen: 0 };
    record.streams.set(id, found);
  }
  return found;
}

function take(answer) {
  for (const [kind, start, duration, request, rows, tokens, position, predicted, bytes, flags, tenant, part] of answer.steps)
    record.steps.push({
      kind, start, end: start + duration, request, rows, tokens, position, predicted, bytes, tenant,
      yielded: (flags & 1) !== 0, part,
    });
  for (const [id, at, gap, bound, flags, tenant, klass] of answer.tokens) {
    const s = stream(id, tenant, klass === 1);
    s.tokens.push({ at, gap, bound, late: (flags & 2) !== 0 || (bound > 0 && gap > bound) });
    s.seen = at;
  }
  for (const [kind, at, id, tenant, klass] of answer.moments) {
    const s = stream(id, tenant, klass === 1);
    s.seen = at;
    if (kind === FINISHED) s.finished = at;
  }
}

function forget(now) {
  const before = now - KEEP_US;
  let old = 0;
  while (old < record.steps.length && record.steps[old].end < before) old++;
  if (old) record.steps.splice(0, old);
  for (const s of record.streams.values()) {
    old = 0;
    while (old < s.tokens.length && s.tokens[old].at < before) old++;
    if (old) s.tokens.splice(0, old);
    if (!s.tokens.length && s.seen < before) record.streams.delete(s.id);
  }
}

export async function follow() {
  for (let round = 0, more = true; more; round++) {
    if (round === ROUNDS_MAX) { // too much for a page: on with the newest
      const newest = (await getJson("/debug/steps?since=" + NEWEST)).cursor;
      record.lost += newest - cursor;
      cursor = newest;
      return;
    }
    const asked = performance.now();
    const answer = await getJson("/debug/steps" + (cursor == null ? "" : "?since=" + cursor));
    const offset = answer.now_us - ((asked + performance.now()) / 2) * 1000;
    const jumped = record.offset != null && Math.abs(offset - record.offset) > 1e6;
    if (jumped || (cursor != null && answer.cursor < cursor)) {
      record.steps = []; // another server answers now
      record.streams.clear();
    }
    // Follow slowly: a single slow answer must not shake the picture.
    record.offset = record.offset == null || jumped ? offset : record.offset + (offset - record.offset) * 0.1;
    record.lost += cursor == null ? 0 : answer.lost;
    cursor = answer.cursor;
    more = answer.more;
    take(answer);
    forget(answer.now_us);
  }
}

// Gaps of the window, by stream or of all interactive ones.
export function gapsOf(s, since) {
  return s.tokens.filter((t) => t.gap > 0 && t.at >= since);
}
