// All that is shown of one run: tree, triangle, surprisal, other trees.

import { ask } from "./api.js";
import { ChartView } from "./chart.js";
import { asButton, element, makeInteractive, percent, saveFile, savePicture, showPicture } from "./dom.js";
import { showSymbol } from "./symbol.js";

// Of larger grammars several trees take seconds, so that they are computed when somebody asks for them first.
const MOST_NONTERMINALS = 256;

export class Panel {
  constructor(run, strip, onProblem) {
    this.run = run;
    this.strip = strip;
    this.onProblem = onProblem;
    this.asked = 0;
    this.kind = "k_best";
    this.wantsTrees = (run.nonterminals ?? 0) <= MOST_NONTERMINALS;
    this.root = document.getElementById("panel").content.cloneNode(true).querySelector(".panel");
    this.find(".name").textContent = `${run.name} (${run.kind}${run.nonterminals ? `, ${run.nonterminals} nonterminals` : ""})`;
    this.root.setAttribute("aria-label", run.name);
    for (const card of this.root.querySelectorAll("[data-question]")) card.hidden = !run.questions.includes(card.dataset.question);
    this.chart = new ChartView(this.find(".chart"), this.find(".details"), (start, end) => strip.choose(start, end));
    for (const button of this.root.querySelectorAll("[data-export]")) button.addEventListener("click", () => this.save(button.dataset.export));
    for (const button of this.root.querySelectorAll("[data-trees]")) {
      button.addEventListener("click", () => { this.kind = button.dataset.trees; this.wantsTrees = true; this.seed = Math.floor(Math.random() * 2 ** 31); this.showTrees(); });
    }
  }

  find(selector) {
    return this.root.querySelector(selector);
  }

  // Ask everything again; answers to an earlier sentence that come late are left aside.
  async show(sentence, decode) {
    this.sentence = sentence;
    this.decode = decode;
    const asked = ++this.asked;
    const body = { run: this.run.name, sentence, constraints: this.strip.constraints, svg: true };
    const can = (question) => this.run.questions.includes(question);
    const attempt = async (question, request, show) => {
      if (!can(question)) return;
      try {
        const found = await ask(question, request);
        if (asked === this.asked) show(found);
      } catch (error) {
        if (asked === this.asked) this.onProblem(`${this.run.name}: ${error.message}`);
      }
    };
    const { svg, ...plain } = body;
    const { constraints, ...free } = body;
    const tree = async () => {
      await (can("parse") ? attempt("parse", { ...body, decode }, (found) => this.showTree(found)) : attempt("score", plain, (found) => this.showScores(found)));
      if (asked === this.asked) await this.showTrees(); // which are compared with the sentence's own probability
    };
    await Promise.all([
      tree(),
      attempt("chart", { ...body, symbols: 3 }, (found) => { this.chart.show(found); this.mark(); }),
      attempt("surprisal", free, (found) => showPicture(this.find(".surprisal"), found.svg, "Surprisal of each word")),
    ]);
  }

  showScores(found) {
    const share = this.strip.constraints ? `; the constraints leave ${percent(found.share ?? 0)} of the probability` : "";
    const unknown = found.unknown.length ? `; unknown: ${found.unknown.join(", ")}` : "";
    const value = found.log_probability === null ? "impossible" : `log p = ${found.log_probability.toFixed(2)} nats`;
    this.find(".scores").textContent = value + share + unknown;
  }

  showTree(found) {
    this.found = found;
    this.showScores(found);
    this.linkSymbols(showPicture(this.find(".tree"), found.tree.svg, `Tree: ${found.tree.brackets}`));
    this.mark();
  }

  linkSymbols(picture) {
    if (!this.run.questions.includes("describe_symbol")) return;
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
    if (this.found && this.chart.chart) this.chart.mark(this.found.tree.spans, this.strip.require, this.strip.forbid);
  }

  async showTrees() {
    if (!this.wantsTrees || !this.sentence || !this.run.questions.includes(this.kind)) return;
    const asked = (this.treesAsked = (this.treesAsked ?? 0) + 1);
    const count = Number(this.find(".count").value) || 5;
    const amount = this.kind === "k_best" ? { k: count } : { samples: count, seed: this.seed ?? 0 };
    const body = { run: this.run.name, sentence: this.sentence, constraints: this.strip.constraints, svg: true, ...amount };
    try {
      const { trees } = await ask(this.kind, body);
      if (asked !== this.treesAsked) return;
      const total = this.found?.log_probability;
      this.find(".trees").replaceChildren(...trees.map((tree, index) => this.treeItem(tree, total, index)));
    } catch (error) {
      if (asked === this.treesAsked) this.onProblem(`${this.run.name}: ${error.message}`);
    }
  }

  treeItem(tree, total, index) {
    const place = element("div", { class: "figure", tabindex: "0", role: "group" });
    const value = tree.log_probability === null ? "impossible" : `log p = ${tree.log_probability.toFixed(2)}`;
    const share = total !== null && total !== undefined && tree.log_probability !== null ? `, ${percent(Math.exp(tree.log_probability - total))} of the sentence` : "";
    const details = element("details", {}, element("summary", {}, value + share), place);
    // Drawn when it is looked at: twenty trees with their symbols are many elements.
    details.addEventListener("toggle", () => { if (details.open && !place.firstChild) this.linkSymbols(showPicture(place, tree.svg, `Tree ${index + 1}`)); });
    return element("li", {}, details);
  }

  save(what) {
    const name = `${this.run.name}-${what}`;
    const picture = (selector) => this.find(`${selector} svg`);
    if (what === "svg" && picture(".tree")) savePicture(`${this.run.name}-tree.svg`, picture(".tree"));
    if (what === "chart" && picture(".chart")) savePicture(`${name}.svg`, picture(".chart"));
    if (what === "surprisal" && picture(".surprisal")) savePicture(`${name}.svg`, picture(".surprisal"));
    if (what === "brackets" && this.found) saveFile(`${this.run.name}.trees`, "text/plain", this.found.tree.brackets + "\n");
    if (what === "json" && this.found) {
      const { svg, ...tree } = this.found.tree;
      const { svg: picture, ...chart } = this.chart.chart ?? {};
      const all = { run: this.run.name, sentence: this.sentence, decode: this.decode, constraints: this.strip.constraints, ...this.found, tree, chart };
      saveFile(`${this.run.name}.json`, "application/json", JSON.stringify(all, null, 2) + "\n");
    }
  }
}
