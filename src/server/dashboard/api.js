// The server's answers, with the key that the reader typed in. The key stays in this tab.
const KEY = "headway-key";

export const key = {
  get: () => sessionStorage.getItem(KEY) || "",
  set: (text) => (text ? sessionStorage.setItem(KEY, text) : sessionStorage.removeItem(KEY)),
};

export class Refused extends Error {
  constructor(status, words) {
    super(words);
    this.status = status;
  }
}

export async function call(path, options = {}) {
  const headers = { ...(options.headers || {}) };
  if (key.get()) headers.Authorization = "Bearer " + key.get();
  const answer = await fetch(path, { ...options, headers, cache: "no-store" });
  if (answer.ok) return answer;
  let words = answer.status + " " + answer.statusText;
  try {
    words = (await answer.json()).error.message;
  } catch {
    /* not JSON: the status line has to do */
  }
  throw new Refused(answer.status, words);
}

export const getJson = async (path, options) => (await call(path, options)).json();

// Data of a server-sent event stream, one JSON value after the other.
export async function* events(answer) {
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const lines = (rest + value).split("\n");
    rest = lines.pop();
    for (const line of lines) {
      if (!line.startsWith("data:")) continue;
      const data = line.slice(5).trim();
      if (data === "[DONE]") return;
      yield JSON.parse(data);
    }
  }
}
