// The page: which runs are shown, for which sentence, and when they are asked again.

import { listRuns } from "./api.js";
import { element } from "./dom.js";
import { linkViews } from "./link.js";
import { Panel } from "./panel.js";
import { Suggestions } from "./suggest.js";
import { WordStrip } from "./words.js";

const TYPING_PAUSE = 150; // milliseconds without a key before the sentence is parsed,
const PAUSE_A_WORD = 5; // and more for long ones, whose parse takes longer and cannot be stopped once it is begun
const LONGER_PAUSE = 600; // before next words are suggested, which takes longer than the tree
const TWO_SENTENCES = /[.!?]["”’')\]]*\s+["“‘'([]*\p{Lu}/u;
const input = document.getElementById("sentence");
const runChoice = document.getElementById("run");
const compareChoice = document.getElementById("compare");
const lines = document.getElementById("lines");
const hint = document.getElementById("hint");
const problem = document.getElementById("problem");
const place = document.getElementById("panels");

let runs = [];
let panels = [];
let chosenLine = 0;
let timer;
let asked = new AbortController();

const strip = new WordStrip(() => refresh());
const suggestions = new Suggestions(input, () => typed());
linkViews(() => [[strip.root, strip.tokens], ...panels.map((panel) => [panel.root, panel.tokens])]);

function sentences() {
  return input.value.split("\n").map((line) => line.trim()).filter(Boolean);
}

function run(name) {
  return runs.find((item) => item.name === name);
}

function decoder() {
  return document.querySelector("[name=decode]:checked").value;
}

// The address holds all that was asked for, so that a link or a reload shows the same.
function writeAddress() {
  const state = new URLSearchParams();
  state.set("s", input.value);
  if (runs.length > 1) state.set("run", runChoice.value);
  if (compareChoice.value) state.set("with", compareChoice.value);
  if (decoder() !== "mbr") state.set("tree", decoder());
  if (chosenLine) state.set("line", chosenLine);
  for (const kind of ["require", "forbid"]) if (strip[kind].length) state.set(kind, strip[kind].map((span) => span.join("-")).join(","));
  history.replaceState(null, "", `#${state}`);
}

function readAddress() {
  const state = new URLSearchParams(location.hash.slice(1));
  const example = run(state.get("run"))?.examples[0] ?? runs[0]?.examples[0] ?? "";
  input.value = state.get("s") ?? example;
  if (run(state.get("run"))) runChoice.value = state.get("run");
  compareChoice.value = run(state.get("with")) ? state.get("with") : "";
  for (const radio of document.querySelectorAll("[name=decode]")) radio.checked = radio.value === (state.get("tree") ?? "mbr");
  chosenLine = Number(state.get("line")) || 0;
  strip.clear();
  for (const kind of ["require", "forbid"]) {
    const spans = (state.get(kind) ?? "").split(",").map((span) => span.split("-").map(Number));
    strip[kind] = spans.filter((span) => span.length === 2 && span.every(Number.isInteger));
  }
}

function showRuns() {
  const wanted = [run(runChoice.value), run(compareChoice.value)].filter(Boolean);
  panels = wanted.map((item) => new Panel(item, strip));
  place.className = panels.length > 1 ? "two" : "one";
  place.replaceChildren(...panels.map((panel) => panel.root));
  showExamples();
  refresh();
}

function showExamples() {
  const chips = (run(runChoice.value)?.examples ?? []).map((sentence) => element(
    "button", { type: "button", onclick: () => { input.value = sentence; chosenLine = 0; suggestions.clear(); strip.clear(); showLines(); refresh(); } }, sentence,
  ));
  document.getElementById("examples").replaceChildren(...(chips.length ? [element("span", { class: "share" }, "examples:"), ...chips] : []));
}

function showLines() {
  const found = sentences();
  chosenLine = Math.min(chosenLine, Math.max(found.length - 1, 0));
  lines.hidden = found.length < 2;
  lines.replaceChildren(...(found.length < 2 ? [] : found.map((sentence, index) => element(
    "button",
    { type: "button", "aria-pressed": String(index === chosenLine), onclick: () => { chosenLine = index; strip.clear(); showLines(); refresh(); } },
    sentence.length > 40 ? `${sentence.slice(0, 39)}…` : sentence,
  ))));
  hint.hidden = !TWO_SENTENCES.test(found[chosenLine] ?? "");
}

// Whatever is under way is for something that is no longer asked for.
function giveUp() {
  asked.abort();
  asked = new AbortController();
  clearTimeout(timer);
  for (const panel of panels) panel.expect();
  document.body.setAttribute("aria-busy", "true");
}

async function refresh(suggestAt = 0) {
  giveUp();
  const { signal } = asked;
  const sentence = sentences()[chosenLine];
  writeAddress();
  problem.textContent = "";
  place.hidden = !sentence;
  if (sentence) {
    const onTokens = (panel) => { if (panel === panels[0]) strip.setTokens(panel.tokens); panel.mark(); };
    await Promise.all(panels.map((panel) => panel.show({ sentence, decode: decoder(), signal, onTokens, onAnswer: compare })));
  } else {
    strip.clear();
    for (const panel of panels) panel.clear();
  }
  if (signal.aborted) return;
  document.body.removeAttribute("aria-busy");
  // What may wait comes last, and one after the other.
  if (suggestAt) {
    await new Promise((resolve) => { timer = setTimeout(resolve, suggestAt - performance.now()); });
    await suggestions.refresh(run(runChoice.value), signal);
  }
  for (const panel of sentence ? panels : []) if (!signal.aborted) await panel.showTrees();
}

// Two runs: what one has and the other has not.
function compare() {
  const [first, second] = panels;
  if (!second) return;
  for (const [panel, other] of [[first, second], [second, first]]) {
    const picture = panel.find(".tree svg");
    if (panel.tree && other.tree && picture) {
      const count = panel.markDifferences(picture, other.constituents());
      panel.find(".differences").textContent = count ? `${count} constituent${count > 1 ? "s" : ""} that the other tree has not` : "the same brackets as the other tree";
    }
    if (panel.surprisals && other.surprisals) panel.compareSurprisals(other);
  }
}

function typed() {
  giveUp();
  suggestions.clear();
  strip.clear();
  // The line of the caret is the one that is looked at.
  const before = input.value.slice(0, input.selectionStart).split("\n");
  chosenLine = Math.max(before.filter((line) => line.trim()).length - 1, 0);
  const suggestAt = performance.now() + LONGER_PAUSE;
  const words = (sentences()[chosenLine] ?? "").split(/\s+/).length;
  timer = setTimeout(() => { showLines(); refresh(suggestAt); }, TYPING_PAUSE + PAUSE_A_WORD * words);
}

input.addEventListener("input", typed);
runChoice.addEventListener("change", showRuns);
compareChoice.addEventListener("change", showRuns);
for (const radio of document.querySelectorAll("[name=decode]")) radio.addEventListener("change", () => refresh());
document.getElementById("split").addEventListener("click", () => {
  input.value = input.value.replace(new RegExp(TWO_SENTENCES, "gu"), (match) => match.replace(/\s+/, "\n"));
  chosenLine = 0;
  strip.clear();
  showLines();
  refresh();
});
window.addEventListener("hashchange", () => { readAddress(); showLines(); showRuns(); });

try {
  ({ runs } = await listRuns());
  runChoice.replaceChildren(...runs.map((item) => element("option", { value: item.name }, item.name)));
  compareChoice.append(...runs.map((item) => element("option", { value: item.name }, item.name)));
  readAddress();
  showLines();
  showRuns();
  document.body.dataset.ready = "true";
} catch (error) {
  problem.textContent = error.message;
}
