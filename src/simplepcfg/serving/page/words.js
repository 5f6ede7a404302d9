// The words of the sentence as the run splits it, of which a span is chosen by dragging or by keyboard, and the constraints made of spans.

import { element } from "./dom.js";

const strip = document.getElementById("words");
const chips = document.getElementById("constraints");
const told = document.getElementById("selected");
const buttons = { require: document.getElementById("require"), forbid: document.getElementById("forbid"), clear: document.getElementById("clear") };

export class WordStrip {
  constructor(onChange) {
    this.onChange = onChange;
    this.root = strip;
    this.tokens = [];
    this.require = []; // pairs of characters of the sentence, as are those of `forbid`
    this.forbid = [];
    this.anchor = this.end = null;
    this.dragging = false;
    strip.addEventListener("pointerdown", (event) => this.begin(event));
    strip.addEventListener("pointermove", (event) => this.extend(event));
    window.addEventListener("pointerup", () => { this.dragging = false; });
    window.addEventListener("pointercancel", () => { this.dragging = false; });
    strip.addEventListener("keydown", (event) => this.key(event));
    buttons.require.addEventListener("click", () => this.add("require"));
    buttons.forbid.addEventListener("click", () => this.add("forbid"));
    buttons.clear.addEventListener("click", () => { this.require = []; this.forbid = []; this.changed(); });
  }

  // Another sentence: its words come with the server's answer.
  clear() {
    this.require = [];
    this.forbid = [];
    this.setTokens([]);
  }

  setTokens(tokens) {
    if (JSON.stringify(tokens) === JSON.stringify(this.tokens)) return;
    this.tokens = tokens;
    this.anchor = this.end = null;
    strip.replaceChildren(...tokens.map((token, index) => element("button", {
      type: "button",
      "data-start": index,
      "data-end": index + 1,
      "aria-pressed": "false",
      tabindex: index ? "-1" : "0",
      class: [token.used ? "" : "dropped", token.known ? "" : "unknown"].join(" ").trim(),
      title: token.known ? (token.used ? token.text : `${token.text}: the run drops it`) : `${token.text}: not in the vocabulary, read as <unk>`,
    }, token.text)));
    this.draw();
  }

  get constraints() {
    return this.require.length || this.forbid.length ? { unit: "characters", require: this.require, forbid: this.forbid } : null;
  }

  get span() {
    return this.anchor === null ? null : [Math.min(this.anchor, this.end), Math.max(this.anchor, this.end) + 1];
  }

  choose(start, end) {
    this.anchor = start;
    this.end = end - 1;
    this.draw();
  }

  begin(event) {
    const word = event.target.closest("[data-start]");
    if (!word) return;
    this.dragging = true;
    this.anchor = this.end = Number(word.dataset.start);
    this.draw();
  }

  extend(event) {
    if (!this.dragging) return;
    const word = document.elementFromPoint(event.clientX, event.clientY)?.closest("#words [data-start]");
    if (word && Number(word.dataset.start) !== this.end) {
      this.end = Number(word.dataset.start);
      this.draw();
    }
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const word = event.target.closest("[data-start]");
    if (!step || !word) return;
    event.preventDefault();
    const next = Math.min(Math.max(Number(word.dataset.start) + step, 0), this.tokens.length - 1);
    if (event.shiftKey && this.anchor === null) this.anchor = Number(word.dataset.start);
    if (event.shiftKey) this.end = next;
    else this.anchor = this.end = next;
    word.setAttribute("tabindex", "-1");
    strip.children[next].setAttribute("tabindex", "0");
    strip.children[next].focus();
    this.draw();
  }

  add(kind) {
    const [first, last] = this.span;
    const [start, end] = [this.tokens[first].start, this.tokens[last - 1].end];
    const other = kind === "require" ? "forbid" : "require";
    const same = ([a, b]) => a === start && b === end;
    this[other] = this[other].filter((span) => !same(span));
    if (!this[kind].some(same)) this[kind].push([start, end]);
    this.changed();
  }

  remove(kind, [start, end]) {
    this[kind] = this[kind].filter(([a, b]) => a !== start || b !== end);
    this.changed();
  }

  changed() {
    this.draw();
    this.onChange();
  }

  text(start, end) {
    return this.tokens.slice(start, end).map((token) => token.text).join(" ");
  }

  draw() {
    const span = this.span;
    [...strip.children].forEach((word, index) => {
      const chosen = span !== null && index >= span[0] && index < span[1];
      word.classList.toggle("chosen", chosen);
      word.setAttribute("aria-pressed", String(chosen));
    });
    const wide = span !== null && span[1] - span[0] >= 2;
    buttons.require.disabled = !wide;
    buttons.forbid.disabled = !wide || span[1] - span[0] === this.tokens.length;
    buttons.clear.disabled = !this.constraints;
    told.textContent = span === null ? "" : `“${this.text(...span)}” [${span[0]}, ${span[1]}]`;
    const chip = (kind) => ([start, end]) => element(
      "button",
      { type: "button", class: kind === "require" ? "required" : "forbidden", onclick: () => this.remove(kind, [start, end]) },
      `${kind} “${this.tokens.filter((token) => token.start >= start && token.end <= end).map((token) => token.text).join(" ")}” ✕`,
    );
    chips.replaceChildren(...(this.tokens.length ? [...this.require.map(chip("require")), ...this.forbid.map(chip("forbid"))] : []));
  }
}
