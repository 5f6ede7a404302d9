// The words of the sentence, of which a span is chosen by dragging or by keyboard, and the constraints made of spans.

import { element } from "./dom.js";

const strip = document.getElementById("words");
const chips = document.getElementById("constraints");
const told = document.getElementById("selected");
const buttons = { require: document.getElementById("require"), forbid: document.getElementById("forbid"), clear: document.getElementById("clear") };

export class WordStrip {
  constructor(onChange) {
    this.onChange = onChange;
    this.words = [];
    this.require = [];
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

  setWords(words) {
    if (words.join(" ") === this.words.join(" ")) return;
    this.words = words;
    this.require = [];
    this.forbid = [];
    this.anchor = this.end = null;
    strip.replaceChildren(...words.map((word, index) => element("button", { type: "button", "data-index": index, "aria-pressed": "false" }, word)));
    this.draw();
  }

  get constraints() {
    return this.require.length || this.forbid.length ? { require: this.require, forbid: this.forbid } : null;
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
    const word = event.target.closest("[data-index]");
    if (!word) return;
    this.dragging = true;
    this.anchor = this.end = Number(word.dataset.index);
    this.draw();
  }

  extend(event) {
    if (!this.dragging) return;
    const word = document.elementFromPoint(event.clientX, event.clientY)?.closest("#words [data-index]");
    if (word && Number(word.dataset.index) !== this.end) {
      this.end = Number(word.dataset.index);
      this.draw();
    }
  }

  key(event) {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const word = event.target.closest("[data-index]");
    if (!step || !word) return;
    event.preventDefault();
    const next = Math.min(Math.max(Number(word.dataset.index) + step, 0), this.words.length - 1);
    if (event.shiftKey && this.anchor === null) this.anchor = Number(word.dataset.index);
    if (event.shiftKey) this.end = next;
    else this.anchor = this.end = next;
    strip.children[next].focus();
    this.draw();
  }

  add(kind) {
    const [start, end] = this.span;
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

  draw() {
    const span = this.span;
    [...strip.children].forEach((word, index) => {
      const chosen = span !== null && index >= span[0] && index < span[1];
      word.classList.toggle("chosen", chosen);
      word.setAttribute("aria-pressed", String(chosen));
    });
    const wide = span !== null && span[1] - span[0] >= 2;
    buttons.require.disabled = !wide;
    buttons.forbid.disabled = !wide || span[1] - span[0] === this.words.length;
    buttons.clear.disabled = !this.constraints;
    told.textContent = span === null ? "" : `“${this.words.slice(...span).join(" ")}” [${span[0]}, ${span[1]}]`;
    const chip = (kind) => ([start, end]) => element(
      "button",
      { type: "button", class: kind === "require" ? "required" : "forbidden", onclick: () => this.remove(kind, [start, end]) },
      `${kind} “${this.words.slice(start, end).join(" ")}” ✕`,
    );
    chips.replaceChildren(...this.require.map(chip("require")), ...this.forbid.map(chip("forbid")));
  }
}
