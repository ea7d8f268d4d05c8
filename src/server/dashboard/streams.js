// The table of streams: who it is, where it stands, and a strip of its gaps against its bound.
import { drawStrip } from "./draw.js";
import { gapsOf, record, serverNow, WINDOW_US } from "./record.js";
import { $, count, make, middle, ms, put } from "./words.js";

const ROWS_MAX = 24, ENDED_MAX = 6;
const rows = new Map();

function newRow(id) {
  const who = make("span", { className: "who" }), what = make("span", { className: "what" });
  const progress = make("span", { className: "progress", "aria-hidden": "true" }, make("i"));
  const strip = make("canvas", { role: "img" });
  const median = make("td", { className: "num", "data-label": "median" });
  const worst = make("td", { className: "num", "data-label": "worst" });
  const bound = make("td", { className: "num", "data-label": "bound" });
  const line = make("tr", {}, make("th", { scope: "row" }, who, what, progress), make("td", {}, strip), median, worst,
    bound);
  const row = { id, line, who, what, progress, strip, median, worst, bound };
  rows.set(id, row);
  return row;
}

function phaseOf(live, s) {
  if (!live) return s.finished ? "finished" : serverNow() - s.seen < 2e6 ? "just started" : "gone quiet";
  if (!live.tokens && s?.tokens.length) return "first tokens"; // newer than the state
  if (live.phase === "reading") return `reading ${count(live.prompt_done)} of ${count(live.prompt_tokens)}`;
  if (live.phase === "waiting") return `waiting ${ms(live.age_us)} · ${count(live.prompt_tokens)} tokens`;
  return `${live.phase === "decoding" ? "" : live.phase + " · "}${count(live.tokens)} tokens out`;
}

function fill(row, entry, tenants) {
  const { live, s } = entry, gaps = s ? gapsOf(s, serverNow() - WINDOW_US) : [];
  const tenant = tenants[live ? live.tenant : s.tenant]?.name ?? "default";
  const batch = live ? live.class === "batch" : s.batch;
  const bound = live && live.bound_us ? live.bound_us : gaps.length ? gaps[gaps.length - 1].bound : 0;
  const longest = gaps.reduce((a, t) => Math.max(a, t.gap), 0);
  const late = gaps.some((t) => t.late);
  put(row.who, `${row.id} ${tenant}${batch ? " · batch" : ""}`);
  put(row.what, phaseOf(live, s));
  const reading = live && !live.tokens && !gaps.length;
  row.progress.hidden = !reading;
  if (reading)
    row.progress.firstChild.style.width = (live.prompt_done / Math.max(1, live.prompt_tokens)) * 100 + "%";
  put(row.median, gaps.length ? ms(middle(gaps.map((t) => t.gap))) : "–");
  put(row.worst, gaps.length ? ms(longest) : "–");
  row.worst.classList.toggle("late", late);
  put(row.bound, bound ? ms(bound) : "none");
  row.line.classList.toggle("over-with", !live);
  const label = gaps.length ? `${gaps.length} gaps, worst ${ms(longest)}` + (late ? ", over the bound" : "") : "no gaps yet";
  if (row.strip.getAttribute("aria-label") !== label) row.strip.setAttribute("aria-label", label);
  drawStrip(row.strip, gaps, bound);
}

// Live ones first, interactive before batch, by age; then those that ended in the last half minute, the newest first.
function entries(state) {
  const found = [], known = new Set();
  for (const live of [...state.streams].sort((a, b) => (a.class < b.class) - (a.class > b.class) || a.id - b.id)) {
    found.push({ id: live.id, live, s: record.streams.get(live.id) });
    known.add(live.id);
  }
  const ended = [...record.streams.values()].filter((s) => !known.has(s.id) && s.tokens.length);
  for (const s of ended.sort((a, b) => b.seen - a.seen).slice(0, ENDED_MAX)) found.push({ id: s.id, live: null, s });
  return found;
}

export function showStreams(state) {
  if (!state) return;
  const all = entries(state), shown = all.slice(0, ROWS_MAX), body = $("streams").tBodies[0];
  const ids = new Set(shown.map((e) => e.id));
  for (const [id, row] of rows)
    if (!ids.has(id)) {
      row.line.remove();
      rows.delete(id);
    }
  shown.forEach((entry, place) => {
    const row = rows.get(entry.id) || newRow(entry.id);
    if (body.children[place] !== row.line) body.insertBefore(row.line, body.children[place] || null);
  });
  $("streams").hidden = !shown.length;
  $("streams-empty").hidden = shown.length > 0;
  for (const entry of shown) fill(rows.get(entry.id), entry, state.tenants);
  const live = state.streams_total, more = all.length - shown.length;
  put($("streams-note"), live || more ? `${live} live` + (more > 0 ? ` · ${more} more not shown` : "") : "");
}
