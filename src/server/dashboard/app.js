// The page: asks the server what happened, and keeps tiles, tables and pictures up to date.
import { call, getJson, key, Refused } from "./api.js";
import { showCache } from "./cache.js";
import { startChat } from "./chat.js";
import { showCurves } from "./curves.js";
import * as draw from "./draw.js";
import { follow, gapsOf, KINDS, record, serverNow, WINDOW_US } from "./record.js";
import { showStreams } from "./streams.js";
import { $, bytes, count, make, middle, ms, percent, put, svg } from "./words.js";

const STEPS_EVERY_MS = 250, STATE_EVERY_MS = 1000, RETRY_MS = 2000;
const calm = matchMedia("(prefers-reduced-motion: reduce)");
let paused = false, state = null, rates = null;

/* ---- what stands at the top ---- */

function showHealth(word, words) {
  const chip = $("health");
  chip.dataset.state = word === "ok" ? "ok" : word === "wait" ? "wait" : "bad";
  put(chip, words);
}

function value(id, text, unit) {
  const node = $(id);
  if (node.dataset.shown === text + unit) return;
  node.dataset.shown = text + unit;
  node.replaceChildren(text, ...(unit ? [make("small", { text: unit })] : []));
}

// Rates come from two states, some seconds apart.
const history = [];
function measureRates() {
  const e = state.engine;
  history.push({ at: state.now_us, out: e.generated_tokens, in: e.prompt_tokens, busy: e.busy_us,
    device: state.tenants.map((t) => t.device_us) });
  if (history.length > 1 && history[0].out > e.generated_tokens) history.splice(0, history.length - 1);
  while (history.length > 6) history.shift();
  const first = history[0], seconds = (state.now_us - first.at) / 1e6;
  rates = seconds > 0.5
    ? { out: (e.generated_tokens - first.out) / seconds, in: (e.prompt_tokens - first.in) / seconds,
        busy: (e.busy_us - first.busy) / 1e6 / seconds,
        device: state.tenants.map((t, i) => (t.device_us - (first.device[i] ?? 0)) / 1e6 / seconds) }
    : null;
}

function showTiles() {
  const e = state.engine, since = serverNow() - WINDOW_US;
  let worst = null;
  for (const s of record.streams.values())
    if (!s.batch) for (const t of gapsOf(s, since)) if (!worst || t.gap > worst.gap) worst = { ...t, id: s.id };
  const [number, unit] = worst ? ms(worst.gap).split(" ") : ["–", ""];
  value("tile-gap", number, unit);
  $("tile-gap").dataset.late = worst ? worst.late : false;
  put($("tile-gap-note"), e.gap_us ? "bound " + ms(e.gap_us) : "no bound set");
  const over = Object.values(e.violations).reduce((a, b) => a + b, 0);
  const cause = Object.entries(e.violations).sort((a, b) => b[1] - a[1])[0];
  value("tile-over", count(over), e.gaps ? "of " + count(e.gaps) + " gaps" : "");
  put($("tile-over-note"), over ? cause[0] + " mostly · " + count(e.alarms) + (e.alarms === 1 ? " alarm" : " alarms") : "since the start");
  value("tile-running", String(e.running), e.waiting ? "+ " + e.waiting + " waiting" : "");
  put($("tile-running-note"), "of " + e.max_sequences + " at once");
  value("tile-out", rates ? count(rates.out) : "–", "tok/s");
  put($("tile-out-note"), count(e.generated_tokens) + " since the start");
  value("tile-in", rates ? count(rates.in) : "–", "tok/s");
  put($("tile-in-note"), count(e.prompt_tokens) + " since the start");
  const rate = rates && rates.busy < 0.005 ? 0 : state.roof.bytes_per_s;
  value("tile-bytes", (rate / 1e9).toFixed(1), "GB/s");
  put($("tile-bytes-note"), rates ? "device busy " + percent(Math.min(1, rates.busy)) : "");
}

/* ---- the right column ---- */

function showTenants() {
  const most = Math.max(1, ...state.tenants.map((t) => t.running + t.waiting));
  const rows = state.tenants.filter((t) => !t.removed || t.running + t.waiting).map((t) => {
    const i = state.tenants.indexOf(t);
    const stack = make("span", { className: "stack", "aria-hidden": "true" }, make("i"), make("i"));
    stack.children[0].style.width = (t.running / most) * 100 + "%";
    stack.children[1].style.width = (t.waiting / most) * 100 + "%";
    const requests = make("td", {}, `${t.running} + ${t.waiting}`, stack);
    return make("tr", {},
      make("th", { scope: "row", text: t.name }), requests,
      make("td", { className: "num", text: rates ? percent(rates.device[i] || 0) : "–" }),
      make("td", { className: "num", text: t.input_output_1h ? count(t.input_output_1h) + " : 1" : "–" }),
      make("td", { className: "num", text: String(t.refused) }));
  });
  $("tenants").tBodies[0].replaceChildren(...rows);
}

function arc(from, to) {
  const point = (part) => {
    const angle = Math.PI * (1 - part);
    return (100 + 80 * Math.cos(angle)).toFixed(2) + " " + (96 - 80 * Math.sin(angle)).toFixed(2);
  };
  return `M${point(from)} A80 80 0 0 1 ${point(to)}`;
}

function showRoof() {
  const { bytes_per_s: rate, roof_bytes_per_s: roof } = state.roof, share = roof ? rate / roof : 0;
  const busy = !rates || rates.busy > 0.005;
  const text = (x, y, size, words, className = "") =>
    svg("text", { x, y, "text-anchor": "middle", "font-size": size, class: className }, words);
  const picture = svg("svg", { viewBox: "0 0 200 112", role: "img",
    "aria-label": `${(rate / 1e9).toFixed(1)} gigabytes per second` + (roof ? `, ${percent(share)} of the roof` : "") },
    svg("path", { d: arc(0, 1), class: "track", fill: "none", "stroke-width": 14, "stroke-linecap": "round" }));
  if (share > 0.005)
    picture.append(svg("path", { d: arc(0, Math.min(1, share)), class: "fill", fill: "none", "stroke-width": 14,
      "stroke-linecap": "round" }));
  picture.append(text(100, 80, 28, roof ? percent(share) : (rate / 1e9).toFixed(1), "value"),
    text(100, 100, 12, roof ? `${(rate / 1e9).toFixed(1)} of ${(roof / 1e9).toFixed(1)} GB/s` : "GB/s", "small"));
  $("roof").replaceChildren(picture);
  put($("roof-note"), (roof ? "" : "This runner has no measured roof. ") + (busy ? "" : "Idle: of the last steps."));
}

function facts(list, pairs) {
  list.replaceChildren(...pairs.flatMap(([name, text]) => [make("dt", { text: name }), make("dd", { text })]));
}

function showMemory() {
  const m = state.memory, used = m.pages_total - m.pages_free, idle = state.cache ? state.cache.idle_pages : 0;
  $("memory-bar").style.width = (m.pages_total ? (used / m.pages_total) * 100 : 0) + "%";
  facts($("memory"), [
    ["KV pages in use", `${count(used)} of ${count(m.pages_total)}`],
    ...(idle ? [["Idle, for the cache", count(idle)]] : []),
    ["KV pool", m.page_bytes ? bytes(m.pages_total * m.page_bytes) : `${m.page_tokens} tokens a page`],
    ["Weights read by a decode step", bytes(m.weight_bytes)],
    ["Resident", bytes(m.resident_bytes)],
  ]);
}

const CAUSES = {
  prefill: "a run of a prompt came back too late",
  decode: "the decode steps themselves took that long",
  machine: "a step took over twice its prediction: something else used the machine",
  preemption: "its pages were taken for another stream",
  policy: "the policy chose other work",
};

function showCauses() {
  const body = $("causes").tBodies[0];
  if (!body.closest("details").open) return;
  const rows = Object.entries(state.engine.violations).map(([cause, times]) => make("tr", {},
    make("th", { scope: "row", text: cause }), make("td", { text: CAUSES[cause] || "" }),
    make("td", { className: "num", text: String(times) })));
  body.replaceChildren(...rows);
}

/* ---- the timeline's table ---- */

function showStepsTable() {
  const body = $("steps-table").tBodies[0], since = serverNow() - WINDOW_US;
  if (!body.closest("details").open) return;
  const rows = KINDS.map((name, kind) => {
    const steps = record.steps.filter((s) => s.kind === kind && s.end >= since);
    const times = steps.map((s) => s.end - s.start), total = times.reduce((a, b) => a + b, 0);
    const off = steps.filter((s) => s.predicted).map((s) => Math.abs(s.end - s.start - s.predicted) / s.predicted);
    const longest = times.reduce((a, b) => Math.max(a, b), -Infinity);
    const cells = [count(steps.length), percent(total / WINDOW_US), ms(middle(times)), ms(longest), percent(middle(off))];
    return make("tr", {}, make("th", { scope: "row", text: name }),
      ...cells.map((text) => make("td", { className: "num", text })));
  });
  body.replaceChildren(...rows);
}

/* ---- the loops ---- */

function failed(problem) {
  if (problem instanceof Refused && problem.status === 401) {
    showHealth("bad", "needs a key");
    if ($("key-form").hidden) openKey(true);
    return;
  }
  showHealth("bad", problem instanceof Refused ? problem.message.slice(0, 60) : "no answer");
}

async function stepsLoop() {
  for (;;) {
    let wait = STEPS_EVERY_MS;
    if (!document.hidden && !paused) {
      try {
        await follow();
        draw.drawOverview($("overview"));
        showStreams(state);
        showStepsTable();
        if (calm.matches) draw.drawDetail($("detail"));
      } catch (problem) {
        failed(problem);
        wait = RETRY_MS;
      }
    }
    await new Promise((done) => setTimeout(done, calm.matches ? STATE_EVERY_MS : wait));
  }
}

async function stateLoop() {
  for (;;) {
    if (!document.hidden && !paused) {
      try {
        state = await getJson("/debug/state");
        put($("model"), state.model);
        put($("description"), state.description);
        document.title = state.engine.running + " streams · Headway";
        showHealth(state.health, { ok: "healthy", stuck: "stuck: no step ends" }[state.health] || state.health);
        measureRates();
        showTiles();
        showTenants();
        showCauses();
        showRoof();
        showMemory();
        showCache(state.cache);
        put($("clock"), record.lost ? " · " + count(record.lost) + " records came too fast for this page" : "");
      } catch (problem) {
        failed(problem);
      }
    }
    await new Promise((done) => setTimeout(done, STATE_EVERY_MS));
  }
}

let drawn = 0;
function animate(now) {
  if (!paused && !calm.matches && now - drawn > 45) {
    drawn = now;
    draw.drawDetail($("detail"));
  }
  requestAnimationFrame(animate);
}

/* ---- what a hand can do ---- */

function openKey(open) {
  $("key-form").hidden = !open;
  $("key-toggle").setAttribute("aria-expanded", String(open));
  if (open) $("key").focus();
}

function applyTheme(theme) {
  const dark = theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches);
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  draw.readColours();
  redraw();
}

function redraw() {
  draw.drawDetail($("detail"));
  draw.drawOverview($("overview"));
  showStreams(state);
}

function select(step) {
  if (!step) return;
  draw.detail.selected = step;
  put($("readout"), draw.sayStep(step));
  draw.drawDetail($("detail"));
}

function setPaused(on) {
  paused = on;
  draw.detail.until = on ? draw.detailEnd() : null;
  $("pause").setAttribute("aria-pressed", String(on));
  put($("pause"), on ? "Go on" : "Pause");
}

// Links cannot carry the key: with one, the page fetches and hands the file over.
async function openKeyed(event, name, busy) {
  if (!key.get()) return; // the plain link will do
  event.preventDefault();
  const link = event.currentTarget, words = link.textContent;
  put(link, busy);
  try {
    const place = URL.createObjectURL(await (await call(link.getAttribute("href"))).blob());
    make("a", { href: place, download: name }).click();
    setTimeout(() => URL.revokeObjectURL(place), 10000);
  } catch (problem) {
    failed(problem);
  }
  put(link, words);
}

function start() {
  const theme = localStorage.getItem("headway-theme") || "auto";
  $("theme").value = theme;
  applyTheme(theme);
  $("theme").addEventListener("change", (event) => {
    localStorage.setItem("headway-theme", event.target.value);
    applyTheme(event.target.value);
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => applyTheme($("theme").value));
  addEventListener("resize", redraw);
  $("pause").addEventListener("click", () => setPaused(!paused));
  $("key-toggle").addEventListener("click", () => openKey($("key-form").hidden));
  $("key-form").addEventListener("submit", (event) => {
    event.preventDefault();
    key.set($("key").value.trim());
    $("key").value = "";
    openKey(false);
    showCurves();
  });
  $("detail").addEventListener("pointermove", (event) => select(draw.stepAt($("detail"), event.clientX)));
  $("detail").addEventListener("keydown", (event) => {
    if (event.key !== "ArrowLeft" && event.key !== "ArrowRight") return;
    event.preventDefault();
    if (!paused) setPaused(true);
    select(draw.neighbour(event.key === "ArrowRight"));
  });
  $("trace-link").addEventListener("click", (event) => openKeyed(event, "headway-trace.json", "Tracing for 10 s …"));
  $("metrics-link").addEventListener("click", (event) => openKeyed(event, "metrics.txt", "Metrics"));
  startChat();
  showCurves();
  stateLoop();
  stepsLoop();
  requestAnimationFrame(animate);
}

start();
