// What `headway tune` measured: the gap of a chat and the price that a document pays, against the chunk.
import { getJson, Refused } from "./api.js";
import { $, make, put } from "./words.js";

export async function showCurves() {
  try {
    const curves = await getJson("/debug/curves");
    $("curves").replaceChildren(make("pre", { text: JSON.stringify(curves).slice(0, 500) }));
  } catch (problem) {
    put($("curves-note"), "");
    if (problem instanceof Refused && problem.status === 404)
      $("curves").replaceChildren(make("p", { className: "empty" }, "Nothing measured yet. ",
        make("code", { text: "headway tune --out DIR" }), " draws them, then start with ",
        make("code", { text: "headway serve --curves DIR/curves.json" }), "."));
  }
}
