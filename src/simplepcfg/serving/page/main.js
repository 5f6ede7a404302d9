// The page: which runs are shown, for which sentence, and when they are asked again.

import { listRuns } from "./api.js";
import { element } from "./dom.js";
import { Panel } from "./panel.js";
import { Suggestions } from "./suggest.js";
import { WordStrip } from "./words.js";

const TYPING_PAUSE = 350; // milliseconds without a key before the sentence is parsed
const input = document.getElementById("sentence");
const runChoice = document.getElementById("run");
const compareChoice = document.getElementById("compare");
const lines = document.getElementById("lines");
const problem = document.getElementById("problem");
const place = document.getElementById("panels");

let runs = [];
let panels = [];
let chosenLine = 0;
let timer;

const strip = new WordStrip(() => refresh());
const suggestions = new Suggestions(input, () => typed());

function sentences() {
  return input.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function run(name) {
  return runs.find((item) => item.name === name);
}

function showRuns() {
  const wanted = [run(runChoice.value), run(compareChoice.value)].filter(Boolean);
  panels = wanted.map((item) => new Panel(item, strip, report));
  place.className = panels.length > 1 ? "two" : "one";
  place.replaceChildren(...panels.map((panel) => panel.root));
  refresh();
}

function report(message) {
  problem.textContent = message;
}

function showLines() {
  const found = sentences();
  chosenLine = Math.min(chosenLine, Math.max(found.length - 1, 0));
  lines.hidden = found.length < 2;
  lines.replaceChildren(...(found.length < 2 ? [] : found.map((sentence, index) => element(
    "button",
    { type: "button", "aria-pressed": String(index === chosenLine), onclick: () => { chosenLine = index; showLines(); refresh(); } },
    sentence.length > 40 ? `${sentence.slice(0, 39)}…` : sentence,
  ))));
}

async function refresh() {
  const sentence = sentences()[chosenLine];
  report("");
  strip.setWords(sentence ? sentence.split(/\s+/) : []);
  if (!sentence) return;
  const decode = document.querySelector("[name=decode]:checked").value;
  document.body.setAttribute("aria-busy", "true");
  await Promise.all(panels.map((panel) => panel.show(sentence, decode)));
  document.body.removeAttribute("aria-busy");
}

function typed() {
  clearTimeout(timer);
  suggestions.refresh(run(runChoice.value));
  timer = setTimeout(() => {
    // The line of the caret is the one that is looked at.
    const before = input.value.slice(0, input.selectionStart).split("\n");
    chosenLine = Math.max(before.filter((line) => line.trim()).length - 1, 0);
    showLines();
    refresh();
  }, TYPING_PAUSE);
}

input.addEventListener("input", typed);
runChoice.addEventListener("change", () => { showRuns(); suggestions.refresh(run(runChoice.value)); });
compareChoice.addEventListener("change", showRuns);
for (const radio of document.querySelectorAll("[name=decode]")) radio.addEventListener("change", refresh);

try {
  ({ runs } = await listRuns());
  runChoice.replaceChildren(...runs.map((item) => element("option", { value: item.name }, item.name)));
  compareChoice.append(...runs.map((item) => element("option", { value: item.name }, item.name)));
  showRuns();
  suggestions.refresh(run(runChoice.value));
  document.body.dataset.ready = "true";
} catch (error) {
  report(error.message);
}
