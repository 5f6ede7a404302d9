// The likeliest next words, when somebody who types pauses.

import { ask, isAbort } from "./api.js";
import { element, percent } from "./dom.js";

const place = document.getElementById("suggestions");

export class Suggestions {
  constructor(input, onAccept) {
    this.input = input;
    this.onAccept = onAccept;
  }

  // The words before the caret on its line; one that is still being typed narrows the choice down.
  get prefix() {
    const line = this.input.value.slice(0, this.input.selectionStart).split("\n").pop();
    const words = line.split(/\s+/).filter(Boolean);
    const begun = /\S$/.test(line) ? words.pop() ?? "" : "";
    return { words, begun };
  }

  clear() {
    place.replaceChildren();
    delete place.dataset.after;
  }

  async refresh(run, signal) {
    this.clear();
    if (!run?.questions.includes("complete")) return;
    const { words, begun } = this.prefix;
    try {
      const found = await ask("complete", { run: run.name, prefix: words.join(" "), k: begun ? 50 : 8 }, signal);
      const fitting = found.words.filter((item) => item.word.startsWith(begun.toLowerCase()) && item.word !== begun && item.word !== "<unk>").slice(0, 8);
      const chips = fitting.map((item) => element(
        "button", { type: "button", onclick: () => this.accept(item.word, begun) }, item.word, " ", element("span", { class: "share" }, percent(item.probability)),
      ));
      if (!begun && words.length > 1) chips.push(element("span", { class: "share" }, `end ${percent(found.end)}`));
      if (chips.length) chips.unshift(element("span", { class: "share" }, begun ? "next words so begun:" : "next word:"));
      place.replaceChildren(...chips);
      place.dataset.after = words.join(" ");
    } catch (error) {
      if (!isAbort(error)) this.clear();
    }
  }

  accept(word, begun) {
    const caret = this.input.selectionStart;
    const before = this.input.value.slice(0, caret - begun.length);
    const space = before === "" || /\s$/.test(before) ? "" : " ";
    this.input.value = `${before}${space}${word} ${this.input.value.slice(caret).trimStart()}`;
    const at = before.length + space.length + word.length + 1;
    this.input.setSelectionRange(at, at);
    this.input.focus();
    this.onAccept();
  }
}
