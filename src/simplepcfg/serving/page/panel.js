// All that is shown of one run: tree, triangle, surprisal, other trees.

import { ask, isAbort } from "./api.js";
import { ChartView } from "./chart.js";
import { asButton, element, makeInteractive, percent, saveFile, savePicture, showPicture } from "./dom.js";
import { characters } from "./link.js";
import { showReplay } from "./replay.js";
import { showSymbol } from "./symbol.js";
import { addZoom } from "./zoom.js";

const MANY_WORDS = 24; // of sentences whose pictures take the whole width
const FEW_WORDS = 16; // of sentences whose other trees are drawn at once

export class Panel {
  constructor(run, strip) {
    this.run = run;
    this.strip = strip;
    this.tokens = [];
    this.root = document.getElementById("panel").content.cloneNode(true).querySelector(".panel");
    this.find(".name").textContent = `${run.name} (${run.kind}${run.nonterminals ? `, ${run.nonterminals} nonterminals` : ""})`;
    this.root.setAttribute("aria-label", run.name);
    for (const card of this.cards()) card.hidden = !this.can(card.dataset.question);
    for (const group of this.root.querySelectorAll(".zoom")) addZoom(group, group.closest(".card").querySelector(".figure"));
    this.chart = new ChartView(this.find(".chart"), this.find(".details"), (start, end) => strip.choose(start, end));
    for (const button of this.root.querySelectorAll("[data-export]")) button.addEventListener("click", () => this.save(button.dataset.export));
    for (const button of this.root.querySelectorAll("[data-trees]")) {
      button.hidden = !this.can(button.dataset.trees);
      button.addEventListener("click", () => { this.kind = button.dataset.trees; this.seed = Math.floor(Math.random() * 2 ** 31); this.showTrees(); });
    }
    this.kind = this.can("bracketings") ? "bracketings" : "k_best";
    showReplay(this.find(".training"), run.training);
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  cards() {
    return this.root.querySelectorAll("[data-question]");
  }

  can(question) {
    return this.run.questions.includes(question);
  }

  // What is shown is no longer what is asked for: it is paled until the answer comes, and never stands there as if it were one.
  expect() {
    for (const card of this.cards()) card.setAttribute("aria-busy", "true");
    this.find(".scores").textContent = "…";
  }

  clear() {
    this.tokens = [];
    this.tree = this.scores = this.surprisals = undefined;
    this.chart.clear();
    this.find(".scores").textContent = "";
    for (const place of this.root.querySelectorAll("[data-question] .figure, .trees, .failure, .differences")) place.replaceChildren();
    for (const card of this.cards()) card.removeAttribute("aria-busy");
  }

  // The tree first, then what takes longer; `signal` ends it when something else is asked for.
  async show({ sentence, decode, signal, onTokens, onAnswer }) {
    Object.assign(this, { sentence, decode, signal });
    this.tree = this.scores = this.surprisals = undefined;
    const body = { run: this.run.name, sentence };
    const constrained = { ...body, constraints: this.strip.constraints };
    const answered = (tokens) => { this.tokens = tokens; onTokens(this); };
    if (this.can("parse")) {
      const found = await this.attempt("parse", { ...constrained, decode, svg: true, scores: false });
      if (signal.aborted) return;
      if (found) {
        answered(found.tokens);
        this.tree = found.tree;
        this.root.parentElement?.classList.toggle("long", found.tokens.length > MANY_WORDS);
        this.linkSymbols(showPicture(this.find(".tree"), found.tree.svg, `Tree: ${found.tree.brackets}`));
        onAnswer();
      }
    }
    await Promise.all([
      this.attempt("chart", { ...constrained, symbols: 3, svg: true }).then((found) => { if (found) { this.chart.show(found); this.mark(); } }),
      this.attempt("score", constrained, ".scores").then((found) => { if (found) { answered(found.tokens); this.showScores(found); } }),
      this.attempt("surprisal", { ...body, svg: true }).then((found) => { if (found) { this.showSurprisals(found); onAnswer(); } }),
    ]);
  }

  // The answer; null where the run has none, where it is no longer wanted, and after an error, which stands in place of the picture.
  async attempt(question, body, place) {
    if (!this.can(question)) return null;
    const card = this.find(`[data-question=${question}]`);
    const { signal } = this;
    try {
      const found = await ask(question, body, signal);
      if (signal.aborted) return null;
      this.settle(card, "");
      return found;
    } catch (error) {
      if (isAbort(error) || signal.aborted) return null;
      if (question === "chart") this.chart.clear();
      if (card) for (const shown of card.querySelectorAll(".figure, .trees")) shown.replaceChildren();
      if (place) this.find(place).textContent = "";
      this.settle(card, error.message);
      return null;
    }
  }

  settle(card, problem) {
    card?.removeAttribute("aria-busy");
    if (card) card.querySelector(".failure").textContent = problem;
  }

  showScores(found) {
    this.scores = found;
    const words = found.tokens.filter((token) => token.used).length;
    const share = this.strip.constraints ? `; the constraints leave ${percent(found.share ?? 0)} of the probability` : "";
    const unknown = found.unknown.length ? `; not in the vocabulary: ${found.unknown.join(", ")}` : "";
    const why = this.can("parse") && words < 2 ? "impossible: every tree of this grammar has two words or more" : "impossible: no tree of this grammar has these words";
    this.find(".scores").textContent = (found.log_probability === null ? why : `log p = ${found.log_probability.toFixed(2)} nats`) + share + unknown;
  }

  showSurprisals(found) {
    this.surprisals = found.words;
    showPicture(this.find(".surprisal"), found.svg, "Surprisal of each word");
  }

  // The largest value that the bars show.
  get most() {
    return Math.max(0, ...(this.surprisals ?? []).flatMap((item) => [item.surprisal ?? 0, item.entropy ?? 0]));
  }

  // Beside another run: the same axis, and words that surprise this one more.
  async compareSurprisals(other) {
    const { signal } = this;
    if (this.most < other.most) {
      const found = await this.attempt("surprisal", { run: this.run.name, sentence: this.sentence, svg: true, most: other.most });
      if (found && !signal.aborted) this.showSurprisals(found);
    }
    const theirs = new Map((other.surprisals ?? []).map((item, index) => [String(other.tokens[index]?.start), item.surprisal]));
    for (const bar of this.root.querySelectorAll(".surprisal .bar")) {
      const value = theirs.get(String(this.tokens[bar.dataset.start]?.start));
      bar.classList.toggle("differs", value !== undefined && Number(bar.dataset.surprisal) > value + 1);
    }
  }

  // The constituents of the tree, as characters of the sentence.
  constituents() {
    return new Set((this.tree?.spans ?? []).map(([start, end]) => String(characters(this.tokens, start, end))));
  }

  markDifferences(picture, others) {
    let count = 0;
    for (const node of picture.querySelectorAll("circle.node, .labelled")) {
      const span = characters(this.tokens, node.dataset.start, node.dataset.end);
      const differs = Number(node.dataset.end) - Number(node.dataset.start) > 1 && !others.has(String(span));
      node.classList.toggle("differs", differs);
      count += differs;
    }
    return count;
  }

  linkSymbols(picture) {
    if (!this.can("describe_symbol")) return;
    for (const node of picture.querySelectorAll("[data-symbol]")) {
      if (!/^(NT|T)-\d+$/.test(node.dataset.symbol)) continue;
      makeInteractive(picture);
      asButton(node, `symbol ${node.dataset.symbol}`);
      const open = () => showSymbol(this.run.name, node.dataset.symbol);
      node.addEventListener("click", open);
      node.addEventListener("keydown", (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); open(); } });
    }
  }

  mark() {
    if (!this.chart.chart || !this.tokens.length) return;
    const at = (cell) => String(characters(this.tokens, cell.dataset.start, cell.dataset.end));
    const tree = this.constituents();
    const [required, forbidden] = [this.strip.require, this.strip.forbid].map((spans) => new Set(spans.map(String)));
    this.chart.mark({ "in-tree": (cell) => tree.has(at(cell)), required: (cell) => required.has(at(cell)), forbidden: (cell) => forbidden.has(at(cell)) });
  }

  async showTrees() {
    if (!this.can(this.kind) || !this.sentence) return;
    const count = Number(this.find(".count").value) || 5;
    const amount = this.kind === "sample_trees" ? { samples: count, seed: this.seed ?? 0 } : { k: count };
    const body = { run: this.run.name, sentence: this.sentence, constraints: this.strip.constraints, svg: true, ...amount };
    this.find("[data-question=k_best]").setAttribute("aria-busy", "true");
    for (const button of this.root.querySelectorAll("[data-trees]")) button.setAttribute("aria-pressed", String(button.dataset.trees === this.kind));
    const asked = (this.treesAsked = (this.treesAsked ?? 0) + 1);
    const { signal } = this;
    try {
      const found = await ask(this.kind, body, signal);
      if (asked !== this.treesAsked || signal.aborted) return;
      const items = found.bracketings?.map((item) => [item.tree, `${percent(item.probability)} of the probability`]) ?? found.trees.map((tree) => [tree, this.worth(tree)]);
      this.find(".trees").replaceChildren(...items.map(([tree, told], index) => this.treeItem(tree, told, index, Boolean(found.bracketings))));
      this.settle(this.find("[data-question=k_best]"), items.length ? "" : "There is no tree.");
    } catch (error) {
      if (isAbort(error) || asked !== this.treesAsked) return;
      this.find(".trees").replaceChildren();
      this.settle(this.find("[data-question=k_best]"), error.message);
    }
  }

  worth(tree) {
    const total = this.scores?.log_probability;
    const value = tree.log_probability === null ? "impossible" : `log p = ${tree.log_probability.toFixed(2)}`;
    return value + (total !== null && total !== undefined && tree.log_probability !== null ? `, ${percent(Math.exp(tree.log_probability - total))} of the sentence` : "");
  }

  treeItem(tree, told, index, open) {
    const place = element("div", { class: "figure", tabindex: "0", role: "group", "aria-label": `Tree ${index + 1}` });
    const spans = tree.spans.map(([start, end]) => String(characters(this.tokens, start, end)));
    const own = this.constituents();
    const other = spans.filter((span) => !own.has(span)).length;
    const details = element("details", {}, element("summary", {}, `${told}; ${other ? `${other} other constituent${other > 1 ? "s" : ""}` : "the brackets above"}`), place);
    // Drawn when it is looked at: twenty trees with their symbols are many elements.
    const draw = () => {
      if (!details.open || place.firstChild) return;
      const picture = showPicture(place, tree.svg);
      this.linkSymbols(picture);
      this.markDifferences(picture, own);
    };
    details.addEventListener("toggle", draw);
    if (open && tree.words.length <= FEW_WORDS) details.open = true;
    return element("li", {}, details);
  }

  save(what) {
    const name = `${this.run.name}-${what}`;
    const picture = (selector) => this.find(`${selector} svg`);
    if (what === "svg" && picture(".tree")) savePicture(`${this.run.name}-tree.svg`, picture(".tree"));
    if (what === "chart" && picture(".chart")) savePicture(`${name}.svg`, picture(".chart"));
    if (what === "surprisal" && picture(".surprisal")) savePicture(`${name}.svg`, picture(".surprisal"));
    if (what === "brackets" && this.tree) saveFile(`${this.run.name}.trees`, "text/plain", this.tree.brackets + "\n");
    if (what === "json" && this.tree) {
      const { svg, ...tree } = this.tree;
      const { svg: triangle, ...chart } = this.chart.chart ?? {};
      const { constraints } = this.strip;
      const all = { run: this.run.name, sentence: this.sentence, decode: this.decode, constraints, ...this.scores, tree, chart, surprisal: this.surprisals };
      saveFile(`${this.run.name}.json`, "application/json", JSON.stringify(all, null, 2) + "\n");
    }
  }
}
