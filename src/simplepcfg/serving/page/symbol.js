// What a symbol stands for: a dialog with its words and children, which lead on to theirs, and back.

import { ask } from "./api.js";
import { element, percent } from "./dom.js";

const dialog = document.getElementById("symbol");
const heading = document.getElementById("symbol-title");
const content = document.getElementById("symbol-content");
const back = document.getElementById("symbol-back");
let trail = []; // pairs of a run and a symbol, the one that is shown last

document.getElementById("symbol-close").addEventListener("click", () => dialog.close());
dialog.addEventListener("close", () => { trail = []; });
back.addEventListener("click", () => { trail.pop(); show(...trail[trail.length - 1]); });

export function showSymbol(run, symbol) {
  trail.push([run, symbol]);
  return show(run, symbol);
}

async function show(run, symbol) {
  back.disabled = trail.length < 2;
  heading.textContent = symbol;
  content.textContent = "…";
  if (!dialog.open) dialog.showModal();
  try {
    const found = await ask("describe_symbol", { run, symbol });
    if (heading.textContent !== symbol) return;
    const words = symbol.startsWith("T-") ? "emits" : "words below it";
    content.replaceChildren(
      element("p", { class: "hint" }, found.name),
      table(words, found.words.map((item) => [item.word, percent(item.probability)])),
      ...["left", "right"].filter((side) => found[side].length).map((side) => table(`${side} child`, found[side].map((child) => [
        element("button", { type: "button", onclick: () => showSymbol(run, child.symbol) }, child.symbol),
        percent(child.probability),
        child.name === child.symbol ? "" : child.name,
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
