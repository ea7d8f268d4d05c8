// What `headway tune` measured of this machine: how long a chat waits and what a document pays, against the chunk.
import { getJson, Refused } from "./api.js";
import { $, count, make, put, svg } from "./words.js";

const WIDTH = 420, HEIGHT = 230, LEFT = 46, BOTTOM = 34, TOP = 12, RIGHT = 10;
const HUES = {
  "cadence": "--decode", "prefill-first": "--late", "chunked": "--fused", "gate": "--prefill", "decode-first": "--wait",
};
const PICTURES = [
  { field: "chat_gap_ms", title: "Longest gap of a chat, ms", logarithmic: true, bound: true },
  { field: "document_premium", title: "Document's time to first token, against alone", logarithmic: false },
];

// Rounded values between which all lie, with the ticks to write.
function scaleOf(values, logarithmic) {
  const low = Math.min(...values), high = Math.max(...values);
  if (!logarithmic) {
    const step = 10 ** Math.floor(Math.log10(high || 1)), unit = [0.2, 0.5, 1, 2].map((x) => x * step);
    const tick = unit.find((x) => high / x <= 6) || step * 5, top = Math.ceil(high / tick) * tick, ticks = [];
    for (let value = 0; value <= top + tick / 2; value += tick) ticks.push(Number(value.toPrecision(6)));
    return { place: (value) => value / top, ticks };
  }
  const steps = [];
  for (let power = -3; power < 9; power++) for (const digit of [1, 2, 5]) steps.push(digit * 10 ** power);
  const first = Math.max(0, steps.findLastIndex((x) => x <= low)), last = steps.findIndex((x) => x >= high);
  const ticks = steps.slice(first, Math.max(first + 1, last < 0 ? steps.length - 1 : last) + 1);
  const from = Math.log10(ticks[0]), span = Math.log10(ticks[ticks.length - 1]) - from;
  return { place: (value) => (Math.log10(Math.max(value, ticks[0])) - from) / span, ticks };
}

function draw(curves, { field, title, logarithmic, bound }) {
  const lines = curves.policies.map((p) => ({ ...p, points: p.points.filter((q) => q[field] > 0 && q.chunk > 0) }));
  const points = lines.flatMap((p) => p.points);
  if (!points.length) return null;
  const limit = bound && curves.bound_ms > 0 ? [curves.bound_ms] : [];
  const vertical = scaleOf([...points.map((q) => q[field]), ...limit], logarithmic);
  const chunks = [...new Set(points.map((q) => q.chunk))].sort((a, b) => a - b);
  const first = Math.log2(chunks[0]), last = Math.log2(chunks[chunks.length - 1]);
  const x = (chunk) => LEFT + (last > first ? (Math.log2(chunk) - first) / (last - first) : 0.5) * (WIDTH - LEFT - RIGHT);
  const y = (value) => HEIGHT - BOTTOM - vertical.place(value) * (HEIGHT - BOTTOM - TOP);
  const picture = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, role: "img", "aria-label": title + ", by chunk" });
  for (const tick of vertical.ticks)
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(tick), y2: y(tick), class: "axis" }),
      svg("text", { x: LEFT - 6, y: y(tick) + 4, "text-anchor": "end" }, count(tick)));
  let right = -Infinity;
  for (const chunk of chunks) {
    if (x(chunk) - right < 34) continue;
    right = x(chunk);
    picture.append(svg("text", { x: right, y: HEIGHT - 18, "text-anchor": "middle" }, String(chunk)));
  }
  picture.append(svg("text", { x: (LEFT + WIDTH) / 2, y: HEIGHT - 2, "text-anchor": "middle" }, "tokens of a chunk"));
  for (const value of limit)
    picture.append(svg("line", { x1: LEFT, x2: WIDTH - RIGHT, y1: y(value), y2: y(value), class: "bound" }),
      svg("text", { x: WIDTH - RIGHT, y: y(value) - 5, "text-anchor": "end" }, `bound ${value} ms`));
  for (const { policy, points: own, sweet } of lines) {
    const colour = `var(${HUES[policy] || "--ink"})`;
    const line = svg("polyline", { class: "line", points: own.map((q) => `${x(q.chunk)},${y(q[field])}`).join(" ") });
    line.style.stroke = colour;
    picture.append(line);
    for (const q of own) {
      const dot = svg("circle", { cx: x(q.chunk), cy: y(q[field]), r: 3 });
      dot.style.fill = colour;
      picture.append(dot);
      if (q.chunk === sweet) picture.append(svg("circle", { cx: x(q.chunk), cy: y(q[field]), r: 7, class: "sweet" }));
    }
  }
  return make("figure", {}, make("figcaption", { className: "caption", text: title }), picture);
}

function legend(curves) {
  const items = curves.policies.map(({ policy }) => {
    const key = make("i", { className: "key" });
    key.style.background = `var(${HUES[policy] || "--ink"})`;
    return make("li", {}, key, policy);
  });
  if (curves.policies.some((p) => p.sweet)) items.push(make("li", {}, make("i", { className: "key ring" }), "best of its policy"));
  return make("ul", { className: "legend", "aria-label": "Policies" }, ...items);
}

function table(curves) {
  const head = ["Policy", "Chunk", "Gap of a chat", "Document against alone", "Chat"];
  const number = (value, unit, text = count(value)) =>
    make("td", { className: "num", text: value > 0 ? text + unit : "–" });
  const rows = curves.policies.flatMap(({ policy, points, sweet }) => points.map((q) => make("tr", {},
    make("th", { scope: "row", text: policy }),
    make("td", { className: "num", text: q.chunk + (q.chunk === sweet ? " (best)" : "") }),
    q.refused ? make("td", { className: "num", text: "refused" }) : number(q.chat_gap_ms, " ms"),
    q.starved ? make("td", { className: "num", text: "starved" })
      : number(q.document_premium, " x", q.document_premium?.toFixed(2)),
    number(q.chat_tokens_per_s, " tok/s"))));
  return make("details", {}, make("summary", { text: "As a table" }), make("div", { className: "scroll" },
    make("table", {}, make("caption", { text: "The measured points" }),
      make("thead", {}, make("tr", {}, ...head.map((text, i) => make("th", { scope: "col", text, className: i ? "num" : "" })))),
      make("tbody", {}, ...rows))));
}

function sensible(curves) {
  return Array.isArray(curves?.policies) && curves.policies.every((p) => Array.isArray(p.points));
}

export async function showCurves() {
  const place = $("curves");
  try {
    const curves = await getJson("/debug/curves");
    if (!sensible(curves)) throw new Error("the file of the curves has another shape than this page knows");
    const choice = curves.choice ? `take ${curves.choice.policy}, chunks of ${curves.choice.chunk}` : "";
    put($("curves-note"), [curves.machine, curves.model, choice].filter(Boolean).join(" · "));
    const pictures = PICTURES.map((picture) => draw(curves, picture)).filter(Boolean);
    place.replaceChildren(legend(curves), make("div", { className: "curves" }, ...pictures), table(curves));
  } catch (problem) {
    put($("curves-note"), "");
    if (problem instanceof Refused && problem.status === 404)
      place.replaceChildren(make("p", { className: "empty" }, "Nothing measured yet. ",
        make("code", { text: "headway tune --out DIR" }), " draws them, then start with ",
        make("code", { text: "headway serve --curves DIR/curves.json" }), "."));
    else if (!(problem instanceof Refused && problem.status === 401))
      place.replaceChildren(make("p", { className: "empty", text: problem.message }));
  }
}
