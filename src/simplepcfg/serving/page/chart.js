// The triangle of span marginals: what a cell says, and how it is reached by pointer and keyboard.

import { asButton, makeInteractive, percent, showPicture } from "./dom.js";

export class ChartView {
  constructor(place, details, onChoose) {
    this.place = place;
    this.details = details;
    this.onChoose = onChoose;
    place.addEventListener("keydown", (event) => this.move(event));
  }

  // Cells name their spans as trees and constraints do, by the sentence's words; `spans` of the answer count the words of the chart.
  show(chart) {
    this.chart = chart;
    const { places } = chart;
    this.spans = new Map(chart.spans.map((span) => [`${places[span.start]} ${places[span.end - 1] + 1}`, span]));
    this.cells = new Map();
    const picture = showPicture(this.place, chart.svg, "Triangle of span probabilities");
    makeInteractive(picture);
    for (const cell of picture.querySelectorAll(".cell")) {
      const key = `${cell.dataset.start} ${cell.dataset.end}`;
      this.cells.set(key, cell);
      asButton(cell, cell.querySelector("title").textContent, false);
      cell.addEventListener("pointerenter", () => this.tell(key));
      cell.addEventListener("focus", () => this.tell(key));
      cell.addEventListener("click", () => this.choose(cell));
    }
    this.cell(0, chart.words.length)?.setAttribute("tabindex", "0");
    this.details.textContent = "Point at a cell, or use the arrow keys in the triangle.";
  }

  clear() {
    this.chart = undefined;
    this.place.replaceChildren();
    this.details.textContent = "";
  }

  // The cell of a span of the chart's words.
  cell(start, end) {
    const { places } = this.chart;
    return start >= 0 && end <= places.length ? this.cells.get(`${places[start]} ${places[end - 1] + 1}`) : undefined;
  }

  // `marks` has functions from a cell to whether it has a mark, by class.
  mark(marks) {
    for (const cell of [...this.cells.values()]) {
      let marked = false;
      for (const [name, has] of Object.entries(marks)) marked = cell.classList.toggle(name, has(cell)) || marked;
      // Painted last, so that no neighbour covers the outline; what has the focus would lose it by being moved.
      if (marked && cell !== document.activeElement) cell.parentNode.append(cell);
    }
  }

  tell(key) {
    const span = this.spans.get(key);
    const words = this.chart.words.slice(span.start, span.end).join(" ");
    const symbols = span.symbols.map((item) => `${item.symbol} (${item.name}) ${percent(item.probability)}`).join(", ");
    this.details.textContent = `“${words}” [${key.replace(" ", ", ")}]: probability ${percent(span.probability)}` + (symbols ? `; likeliest symbols: ${symbols}` : "");
  }

  choose(cell) {
    this.onChoose(Number(cell.dataset.start), Number(cell.dataset.end));
  }

  // Left and right go along the sentence, up to wider spans and down to narrower ones; Enter chooses.
  move(event) {
    const cell = event.target.closest?.(".cell");
    if (!cell) return;
    const { start, end } = this.spans.get(`${cell.dataset.start} ${cell.dataset.end}`);
    const steps = { ArrowLeft: [-1, -1], ArrowRight: [1, 1], ArrowUp: [0, 1], ArrowDown: [0, -1] };
    if (event.key === "Enter" || event.key === " ") {
      this.choose(cell);
    } else if (event.key in steps) {
      const [a, b] = steps[event.key];
      const next = this.cell(start + a, end + b) ?? (event.key === "ArrowUp" ? this.cell(start - 1, end) : undefined);
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
