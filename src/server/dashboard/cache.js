// The prefix cache: what was found, what a larger or smaller one would find, and which sessions lie where.
import { $, bytes, count, make, ms, percent, put, svg } from "./words.js";

const WIDTH = 420, HEIGHT = 190, LEFT = 46, BOTTOM = 34, TOP = 14, RIGHT = 14, LINES_MAX = 12;
const MISSES = {
  new: "nobody had sent them before",
  evicted: "they were here and had to go",
  state: "no recurrent state was kept there",
  slower: "a tier has them, and computing is faster",
  failed: "a tier did not give them whole",
  last: "the rest of the last page is always computed",
};

const sum = (numbers) => Object.values(numbers).reduce((a, b) => a + b, 0);

// The least 1, 2 or 5 times a power of ten that is not below `most`.
function roundUp(most) {
  const power = 10 ** Math.floor(Math.log10(most || 1));
  return [1, 2, 5, 10].map((digit) => digit * power).find((value) => value >= most * 0.999);
}

function picture(points, title, colour, valueOf, top, say, now) {
  const right = Math.max(...points.map((p) => p.bytes), now || 0) || 1;
  const x = (size) => LEFT + (size / right) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - (value / top) * (HEIGHT - BOTTOM - TOP);
  const plot = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img",
    "aria-label": `${title}: ${points.map((p) => `${say(valueOf(p))} at ${bytes(p.bytes)}`).join(", ")}` });
  for (const part of [0, 0.5, 1])
    plot.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(part * top), y2: y(part * top), class: "axis" }),
      svg("text", { x: LEFT - 6, y: y(part * top) + 4, "text-anchor": "end" }, part ? say(part * top) : "0"));
  for (const part of [0, 0.5, 1])
    plot.append(svg("text", { x: x(part * right), y: HEIGHT - 18, "text-anchor": part === 1 ? "end" : part ? "middle" : "start" },
      part ? bytes(part * right) : "0"));
  plot.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, "size of the cache"));
  if (now > 0)
    plot.append(svg("line", { x1: x(now), x2: x(now), y1: TOP, y2: HEIGHT - BOTTOM, class: "now" }),
      svg("text", { x: x(now) - 5, y: TOP + 4, "text-anchor": "end" }, "now"));
  const line = svg("polyline", { class: "line", points: points.map((p) => `${x(p.bytes)},${y(valueOf(p))}`).join(" ") });
  line.style.stroke = `var(${colour})`;
  plot.append(line);
  return make("figure", {}, make("figcaption", { className: "caption", text: title }), plot);
}

function showCurves(cache) {
  const place = $("cache-curves"), points = cache.curve.filter((p) => p.bytes >= 0);
  if (points.length < 2 || !points.some((p) => p.hit_share > 0)) {
    place.replaceChildren(make("p", { className: "empty", text: "No prompt has come back to its prefix yet." }));
    return;
  }
  const now = cache.idle_pages_max * cache.page_bytes;
  const largest = points[points.length - 1].bytes, shown = now <= largest * 1.6 ? now : 0;
  const slowest = roundUp(Math.max(...points.map((p) => p.first_token_us)));
  const pictures = [picture(points, "Found, of prompt tokens", "--decode", (p) => p.hit_share, 1, percent, shown)];
  if (slowest > 1)
    pictures.push(picture(points, `First token of a prompt of ${count(cache.prompt_tokens_mean)} tokens, alone`, "--prefill",
      (p) => p.first_token_us, slowest, ms, shown));
  place.replaceChildren(...pictures);
}

const ago = (us) => (us < 60e6 ? `${Math.round(us / 1e6)} s` : us < 3600e6 ? `${Math.round(us / 60e6)} min`
  : `${(us / 3600e6).toFixed(1)} h`);

function showLines(cache) {
  const lines = [...cache.lines].sort((a, b) => (b.uses > 0) - (a.uses > 0) || a.age_us - b.age_us).slice(0, LINES_MAX);
  const rows = lines.map((l) => make("tr", {},
    make("th", { scope: "row" }, make("i", { className: `key ${l.state}` }), l.state),
    make("td", { text: l.tenant + (l.class === "batch" ? " · batch" : "") }),
    make("td", { className: "num", text: l.here < l.tokens && l.here ? `${count(l.here)} of ${count(l.tokens)}` : count(l.tokens) }),
    make("td", { className: "num", text: String(l.uses) }),
    make("td", { className: "num", text: ago(l.age_us) })));
  $("cache-lines").tBodies[0].replaceChildren(...rows);
  $("cache-lines").hidden = !rows.length;
  const more = cache.lines.length - lines.length;
  put($("cache-more"), more > 0 ? `${more} older ones are not shown.` : "");
}

function showFacts(cache) {
  const found = sum(cache.hits), places = Object.entries(cache.hits).filter(([, tokens]) => tokens > 0);
  const facts = [
    ["Found", cache.looked_up ? `${percent(found / cache.looked_up)} of ${count(cache.looked_up)} tokens` : "–"],
    ...(places.length > 1 ? places.map(([place, tokens]) => [`from ${place}`, `${count(tokens)} tokens`]) : []),
    ["Idle prefixes", `${bytes(cache.idle_pages * cache.page_bytes)} of ${bytes(cache.idle_pages_max * cache.page_bytes)}`],
    ...(cache.checkpoints ? [["Recurrent states", count(cache.checkpoints)]] : []),
    ["Given up", `${count(sum(cache.evicted_pages))} pages`],
    ...cache.tiers.map((t) => [t.name[0].toUpperCase() + t.name.slice(1), (t.online ? "" : "offline · ") + bytes(t.bytes) +
      (t.bytes_max ? ` of ${bytes(t.bytes_max)}` : "") + (t.damaged ? ` · ${count(t.damaged)} damaged` : "") +
      (t.state ? ` · ${t.state}` : "")]),
  ];
  $("cache-facts").replaceChildren(...facts.flatMap(([name, text]) => [make("dt", { text: name }), make("dd", { text })]));
}

function showMisses(cache) {
  const body = $("cache-misses").tBodies[0];
  if (!body.closest("details").open) return;
  body.replaceChildren(...Object.entries(cache.misses).map(([cause, tokens]) => make("tr", {},
    make("th", { scope: "row", text: cause }), make("td", { text: MISSES[cause] || "" }),
    make("td", { className: "num", text: count(tokens) }))));
}

export function showCache(cache) {
  if (!cache) return;
  const off = !cache.enabled;
  $("cache-off").hidden = !off;
  $("cache-body").hidden = off;
  put($("cache-note"), off ? "" : cache.sessions_live
    ? `${cache.sessions_live} live, ${cache.sessions_fit} fit, ${bytes(cache.sessions_bytes)} for all` : "no session is live");
  if (off) return;
  showFacts(cache);
  showCurves(cache);
  showLines(cache);
  showMisses(cache);
}
