// Elements, pictures and files.

import { fit } from "./zoom.js";

export function element(name, properties = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(properties)) {
    if (key === "class") made.className = value;
    else if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else if (value !== undefined && value !== null) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// A picture is parsed as XML and adopted: nothing in it is ever run.
export function showPicture(place, svg, label) {
  const parsed = new DOMParser().parseFromString(svg, "image/svg+xml").documentElement;
  const picture = document.importNode(parsed, true);
  place.replaceChildren(picture);
  if (label) place.setAttribute("aria-label", label);
  fit(place);
  return picture;
}

// What can be focused must not lie inside an image.
export function makeInteractive(picture) {
  picture.setAttribute("role", "group");
}

export function asButton(shape, label, focusable = true) {
  shape.setAttribute("role", "button");
  shape.setAttribute("tabindex", focusable ? "0" : "-1");
  if (label) shape.setAttribute("aria-label", label);
}

export function percent(share) {
  if (share >= 0.9995) return share >= 0.999995 ? "100 %" : "> 99.9 %";
  if (share >= 0.01) return `${(100 * share).toFixed(1)} %`;
  if (share >= 0.00001) return `${Number((100 * share).toPrecision(2))} %`;
  return share > 0 ? share.toExponential(1) : "0 %";
}

export function saveFile(name, type, content) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  element("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

// A picture of the page as a file of its own: with the style sheet and a background in it, in its natural size.
export async function savePicture(name, picture) {
  const copy = picture.cloneNode(true);
  const [, , width, height] = copy.getAttribute("viewBox").split(" ");
  copy.setAttribute("width", width);
  copy.setAttribute("height", height);
  const make = (tag) => document.createElementNS("http://www.w3.org/2000/svg", tag);
  const style = make("style");
  style.textContent = await (await fetch("/figures.css")).text();
  const background = make("rect");
  for (const [key, value] of [["width", "100%"], ["height", "100%"], ["class", "halo"]]) background.setAttribute(key, value);
  copy.prepend(style, background);
  for (const shape of copy.querySelectorAll("[tabindex]")) shape.removeAttribute("tabindex");
  saveFile(name, "image/svg+xml", new XMLSerializer().serializeToString(copy));
}
