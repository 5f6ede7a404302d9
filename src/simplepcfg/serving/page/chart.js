// The triangle of span marginals: what a cell says, and how it is reached by pointer and keyboard.

import { asButton, makeInteractive, percent, showPicture } from "./dom.js";

export class ChartView {
  constructor(place, details, onChoose) {
    this.place = place;
    this.details = details;
    this.onChoose = onChoose;
    place.addEventListener("keydown", (event) => this.move(event));
  }

  show(chart) {
    this.chart = chart;
    this.cells = new Map();
    this.spans = new Map(chart.spans.map((span) => [`${span.start} ${span.end}`, span]));
    const picture = showPicture(this.place, chart.svg, "Triangle of span marginals");
    makeInteractive(picture);
    for (const cell of picture.querySelectorAll(".cell")) {
      const key = `${cell.dataset.start} ${cell.dataset.end}`;
      this.cells.set(key, cell);
      asButton(cell, cell.querySelector("title").textContent, false);
      cell.addEventListener("pointerenter", () => this.tell(key));
      cell.addEventListener("focus", () => this.tell(key));
      cell.addEventListener("click", () => this.choose(key));
    }
    this.cells.get(`0 ${chart.words.length}`)?.setAttribute("tabindex", "0");
  }

  // Spans of the sentence's words as keys of cells: words that the run drops are passed over.
  key(start, end) {
    const inside = this.chart.places.map((place, index) => [place, index]).filter(([place]) => place >= start && place < end);
    return inside.length ? `${inside[0][1]} ${inside[inside.length - 1][1] + 1}` : "";
  }

  mark(tree, required, forbidden) {
    if (!this.chart) return;
    const marks = { "in-tree": tree.map(([start, end]) => [start, end]), required, forbidden };
    for (const [name, spans] of Object.entries(marks)) {
      const keys = new Set(spans.map(([start, end]) => this.key(start, end)));
      for (const [key, cell] of this.cells) {
        cell.classList.toggle(name, keys.has(key));
        // Painted last, so that no neighbour covers the outline; what has the focus would lose it by being moved.
        if (keys.has(key) && cell !== document.activeElement) cell.parentNode.append(cell);
      }
    }
  }

  tell(key) {
    const span = this.spans.get(key);
    const words = this.chart.words.slice(span.start, span.end).join(" ");
    const symbols = span.symbols.map((item) => `${item.symbol} ${percent(item.probability)}`).join(", ");
    this.details.textContent = `“${words}” [${span.start}, ${span.end}]: probability ${percent(span.probability)}` + (symbols ? `; likeliest symbols: ${symbols}` : "");
    for (const [other, cell] of this.cells) cell.classList.toggle("here", other === key);
  }

  choose(key) {
    const span = this.spans.get(key);
    this.onChoose(this.chart.places[span.start], this.chart.places[span.end - 1] + 1);
  }

  // Left and right go along the sentence, up to wider spans and down to narrower ones; Enter chooses.
  move(event) {
    const cell = event.target.closest?.(".cell");
    if (!cell) return;
    const [start, end] = [Number(cell.dataset.start), Number(cell.dataset.end)];
    const steps = { ArrowLeft: [-1, -1], ArrowRight: [1, 1], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Enter" || event.key === " ") {
      this.choose(`${start} ${end}`);
    } else if (event.key in steps) {
      const [a, b] = steps[event.key];
      const next = this.cells.get(`${start + a} ${end + b}`) ?? (event.key === "ArrowUp" ? this.cells.get(`${start - 1} ${end}`) : undefined);
      if (next) {
        cell.setAttribute("tabindex", "-1");
        next.setAttribute("tabindex", "0");
        next.focus();
      }
    } else {
      return;
    }
    event.preventDefault();
  }
}
