// What a symbol stands for: a dialog with its words and children, which lead on to theirs.

import { ask } from "./api.js";
import { element, percent } from "./dom.js";

const dialog = document.getElementById("symbol");
const heading = document.getElementById("symbol-title");
const content = document.getElementById("symbol-content");
document.getElementById("symbol-close").addEventListener("click", () => dialog.close());

export async function showSymbol(run, symbol) {
  heading.textContent = symbol;
  content.textContent = "…";
  if (!dialog.open) dialog.showModal();
  try {
    const found = await ask("describe_symbol", { run, symbol });
    const words = symbol.startsWith("T-") ? "emits" : "words below it";
    content.replaceChildren(
      table(words, found.words.map((item) => [item.word, percent(item.probability)])),
      ...["left", "right"].filter((side) => found[side].length).map((side) => table(`${side} child`, found[side].map((child) => [
        element("button", { type: "button", onclick: () => showSymbol(run, child.symbol) }, child.symbol),
        percent(child.probability),
        child.word ? `“${child.word}” …` : "",
      ]))),
    );
  } catch (error) {
    content.textContent = error.message;
  }
}

function table(title, rows) {
  const head = element("tr", {}, element("th", { scope: "col", colspan: "3" }, title));
  return element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows.map((row) => element("tr", {}, ...row.map((cell) => element("td", {}, cell))))));
}
