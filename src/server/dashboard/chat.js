// A chat that is a client like any other: it streams from /v1/chat/completions and times what comes.
import { call, events } from "./api.js";
import { $, make, ms, put } from "./words.js";

const messages = [];
let running = null; // an AbortController

function bubble(className, text) {
  const node = make("p", { className, text });
  $("chat-log").append(node);
  return node;
}

function showNumbers(t) {
  put($("chat-first"), t.first ? ms((t.first - t.sent) * 1000) : "–");
  put($("chat-rate"), t.count > 1 ? ((t.count - 1) / ((t.last - t.first) / 1000)).toFixed(1) + " tok/s" : "–");
  put($("chat-gap"), t.count > 1 ? ms(t.worst * 1000) : "–");
}

function sees(t, now) {
  if (t.first) t.worst = Math.max(t.worst, now - t.last);
  else t.first = now;
  t.last = now;
  t.count++;
}

async function ask() {
  const body = {
    messages, stream: true, max_tokens: Math.max(1, Number($("chat-max").value) || 256),
    stream_options: { include_usage: true },
  };
  const t = { sent: performance.now(), first: 0, last: 0, count: 0, worst: 0 };
  const node = bubble("from-server", "…"), log = $("chat-log");
  let text = "";
  showNumbers(t);
  running = new AbortController();
  try {
    const answer = await call("/v1/chat/completions", {
      method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body), signal: running.signal,
    });
    for await (const event of events(answer)) {
      if (event.error) throw new Error(event.error.message);
      const piece = event.choices?.[0]?.delta?.content;
      if (!piece) continue;
      sees(t, performance.now());
      text += piece;
      node.textContent = text;
      log.scrollTop = log.scrollHeight;
      showNumbers(t);
    }
    put($("chat-status"), `Answer complete: ${t.count} pieces, worst gap ${ms(t.worst * 1000)}`);
  } catch (problem) {
    const stopped = problem.name === "AbortError";
    if (!text) node.remove();
    if (!stopped) bubble("from-server wrong", problem.message);
    put($("chat-status"), stopped ? "Stopped" : "Failed: " + problem.message);
  }
  if (text) messages.push({ role: "assistant", content: text });
  else messages.pop();
  running = null;
}

async function send(event) {
  event.preventDefault();
  if (running) {
    running.abort();
    return;
  }
  const text = $("chat-text").value.trim();
  if (!text) {
    $("chat-text").focus();
    return;
  }
  messages.push({ role: "user", content: text });
  bubble("from-user", text);
  $("chat-text").value = "";
  put($("chat-send"), "Stop");
  await ask();
  put($("chat-send"), "Send");
}

export function startChat() {
  $("chat-form").addEventListener("submit", send);
  $("chat-text").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) send(event);
  });
  $("chat-clear").addEventListener("click", () => {
    if (running) running.abort();
    messages.length = 0;
    $("chat-log").replaceChildren();
    $("chat-text").focus();
  });
}
