// The moving pictures. Each function draws one canvas from the record; colours come from the style sheet.
import { KINDS, WINDOW_US, record, serverNow } from "./record.js";
import { ms } from "./words.js";

const DETAIL_US = 3e6;
const DELAY_US = 350e3; // behind the newest, so that what is drawn has arrived
const LABELS = 58; // pixels on the left

let colours = {};
export function readColours() {
  const style = getComputedStyle(document.documentElement);
  for (const name of ["decode", "prefill", "fused", "late", "wait", "ink", "muted", "line", "field", "card"])
    colours[name] = style.getPropertyValue("--" + name).trim();
}

// The canvas as wide as it is shown, in real pixels; null while it is hidden.
function paper(canvas) {
  const width = canvas.clientWidth, height = canvas.clientHeight, ratio = Math.min(devicePixelRatio || 1, 2);
  if (!width || !height) return null;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  pen.font = "11px system-ui, 'DejaVu Sans', sans-serif";
  pen.textBaseline = "middle";
  return { pen, width, height };
}

function timeAxis({ pen, width }, left, y, span, step) {
  pen.fillStyle = colours.muted;
  for (let back = 0; back <= span; back += step) {
    const x = left + (1 - back / span) * (width - left);
    pen.strokeStyle = colours.line;
    pen.beginPath();
    pen.moveTo(Math.round(x) - 0.5, 0);
    pen.lineTo(Math.round(x) - 0.5, y);
    pen.stroke();
    const text = back === 0 ? "now" : "−" + back / 1e6 + " s";
    pen.textAlign = back === 0 ? "right" : back === span ? "left" : "center";
    pen.fillText(text, x, y + 9);
  }
}

export const detail = { selected: null, until: null };

export const detailEnd = () => detail.until ?? serverNow() - DELAY_US;

export function drawDetail(canvas) {
  const p = paper(canvas);
  if (!p) return;
  const { pen, width, height } = p, until = detailEnd(), from = until - DETAIL_US;
  const axis = height - 18, lane = axis / 2, scale = (width - LABELS) / DETAIL_US;
  const lanes = { 0: [lane, lane], 1: [0, lane], 2: [0, 2 * lane] };
  timeAxis(p, LABELS, axis, DETAIL_US, width < 480 ? 1e6 : 0.5e6);
  pen.textAlign = "left";
  pen.fillStyle = colours.muted;
  pen.fillText("prefill", 0, lane / 2);
  pen.fillText("decode", 0, lane * 1.5);
  for (let i = record.steps.length - 1; i >= 0; i--) {
    const s = record.steps[i];
    if (s.end < from) break;
    if (s.start > until) continue;
    const x = LABELS + Math.max(0, s.start - from) * scale;
    const end = LABELS + (Math.min(s.end, until) - from) * scale;
    const [top, tall] = lanes[s.kind];
    pen.fillStyle = colours[KINDS[s.kind]];
    pen.fillRect(x, top + 4, Math.max(1, end - x - (end - x > 3 ? 0.8 : 0)), tall - 8);
    if (s === detail.selected) {
      pen.strokeStyle = colours.ink;
      pen.lineWidth = 2;
      pen.strokeRect(x - 1, top + 2, Math.max(3, end - x + 1), tall - 4);
      pen.lineWidth = 1;
    }
  }
}

export function stepAt(canvas, clientX) {
  const box = canvas.getBoundingClientRect(), until = detailEnd();
  const time = until - DETAIL_US + ((clientX - box.left - LABELS) / (box.width - LABELS)) * DETAIL_US;
  let best = null, distance = 15e3; // a thin step may be missed by a few pixels
  for (const s of record.steps) {
    const away = time < s.start ? s.start - time : time > s.end ? time - s.end : 0;
    if (away < distance) [best, distance] = [s, away];
  }
  return best;
}

export function neighbour(forward) {
  const shown = record.steps.filter((s) => s.end <= detailEnd());
  const at = detail.selected ? shown.indexOf(detail.selected) : -1;
  if (at < 0) return shown[shown.length - 1] || null;
  return shown[at + (forward ? 1 : -1)] || detail.selected;
}

export function sayStep(s) {
  const rows = s.rows ? s.rows + (s.rows === 1 ? " stream" : " streams") : "";
  const chunk = s.kind > 0 ? `${s.tokens} tokens at ${s.position} of request ${s.request}` : "";
  const time = s.end - s.start, speed = time > 0 ? (s.bytes / time / 1000).toFixed(1) + " GB/s" : "";
  const predicted = s.predicted ? ` (predicted ${ms(s.predicted)})` : "";
  const yielded = s.yielded ? "gave way" : "";
  return [KINDS[s.kind] + " " + ms(time) + predicted, rows, chunk, yielded, speed].filter(Boolean).join(" · ");
}

export function drawOverview(canvas) {
  const p = paper(canvas);
  if (!p) return;
  const { pen, width, height } = p, until = serverNow() - DELAY_US, from = until - WINDOW_US;
  const axis = height - 18, columns = Math.max(1, Math.floor((width - LABELS) / 2));
  const span = WINDOW_US / columns, shares = KINDS.map(() => new Float64Array(columns));
  for (const s of record.steps) {
    let at = Math.floor((Math.max(s.start, from) - from) / span);
    for (; at < columns && from + at * span < s.end; at++) {
      const start = Math.max(s.start, from + at * span), end = Math.min(s.end, from + (at + 1) * span);
      if (at >= 0 && end > start) shares[s.kind][at] += (end - start) / span;
    }
  }
  timeAxis(p, LABELS, axis, WINDOW_US, width < 480 ? 10e6 : 5e6);
  pen.textAlign = "left";
  pen.fillStyle = colours.muted;
  pen.fillText("100%", 0, 6);
  pen.fillText("idle", 0, axis - 6);
  for (let at = 0; at < columns; at++) {
    let bottom = axis;
    for (const kind of [0, 2, 1]) {
      const tall = Math.min(1, shares[kind][at]) * axis;
      if (tall <= 0) continue;
      pen.fillStyle = colours[KINDS[kind]];
      pen.fillRect(LABELS + at * 2, bottom - tall, 2, tall);
      bottom -= tall;
    }
  }
}

// A line for each token, as high as its gap was long (up to three bounds: the number beside says more); the dashed line
// is the bound, the triangle marks the worst.
export function drawStrip(canvas, gaps, bound) {
  const p = paper(canvas);
  if (!p) return;
  const { pen, width, height } = p, until = serverNow() - DELAY_US, from = until - WINDOW_US;
  const worst = gaps.reduce((a, b) => (b.gap > (a ? a.gap : 0) ? b : a), null);
  const longest = worst ? worst.gap * 1.08 : 0, floor = height - 1;
  const top = Math.max(bound * 1.25, bound ? Math.min(longest, bound * 3) : longest) || 1;
  const x = (t) => ((t - from) / WINDOW_US) * width, y = (gap) => floor - Math.min(1, gap / top) * (floor - 7);
  pen.strokeStyle = colours.line;
  pen.beginPath();
  pen.moveTo(0, floor + 0.5);
  pen.lineTo(width, floor + 0.5);
  pen.stroke();
  const tallest = new Map(); // one line for each pixel: the longest gap there
  for (const t of gaps) {
    const column = Math.round(x(t.at));
    const before = tallest.get(column);
    if (!before || t.gap > before.gap) tallest.set(column, t);
  }
  for (const [column, t] of tallest) {
    pen.fillStyle = t.late ? colours.late : colours.decode;
    const high = Math.max(1.5, floor - y(t.gap));
    pen.fillRect(column - 1, floor - high, t.late ? 2 : 1, high);
  }
  if (bound) {
    pen.strokeStyle = colours.muted;
    pen.setLineDash([4, 3]);
    pen.beginPath();
    pen.moveTo(0, Math.round(y(bound)) + 0.5);
    pen.lineTo(width, Math.round(y(bound)) + 0.5);
    pen.stroke();
    pen.setLineDash([]);
  }
  if (worst) {
    const at = Math.min(width - 4, Math.max(4, x(worst.at))), high = y(worst.gap);
    pen.fillStyle = worst.late ? colours.late : colours.ink;
    pen.beginPath();
    pen.moveTo(at, high - 1);
    pen.lineTo(at - 3.5, high - 7);
    pen.lineTo(at + 3.5, high - 7);
    pen.fill();
  }
}
