// The size of a picture: as wide as its place unless that makes it too small to read, and by buttons any other.

const LEAST = { chart: 0.3 }; // of the natural size; other pictures have words in every part
const LEAST_OF_OTHERS = 0.62;
const STEP = 1.3;

export function fit(place, whole = false) {
  const picture = place.querySelector("svg");
  if (!picture || !place.clientWidth) return;
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  const kind = [...place.classList].find((name) => name in LEAST);
  const tall = parseFloat(getComputedStyle(place).maxHeight) / height || 1;
  const room = Math.min(1, place.clientWidth / width, whole || kind ? tall : 1);
  resize(place, whole ? room : Math.max(room, LEAST[kind] ?? LEAST_OF_OTHERS));
  place.dataset.fitted = "true";
  place.scrollTop = place.scrollHeight; // where the words are
}

function resize(place, scale) {
  const picture = place.querySelector("svg");
  const [, , width, height] = picture.getAttribute("viewBox").split(" ").map(Number);
  place.dataset.scale = scale;
  picture.setAttribute("width", Math.round(width * scale));
  picture.setAttribute("height", Math.round(height * scale));
}

function zoom(place, factor) {
  if (!place.querySelector("svg")) return;
  const middle = [(place.scrollLeft + place.clientWidth / 2) * factor, (place.scrollTop + place.clientHeight / 2) * factor];
  resize(place, Math.min(4, Math.max(0.05, Number(place.dataset.scale) * factor)));
  delete place.dataset.fitted;
  place.scrollTo(middle[0] - place.clientWidth / 2, middle[1] - place.clientHeight / 2);
}

export function addZoom(group, place) {
  const actions = [["−", "smaller", () => zoom(place, 1 / STEP)], ["Fit", "fit to the window", () => fit(place, true)], ["+", "larger", () => zoom(place, STEP)]];
  for (const [text, label, act] of actions) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = text;
    button.setAttribute("aria-label", `${label}: ${group.getAttribute("aria-label").toLowerCase()}`);
    button.addEventListener("click", act);
    group.append(button);
  }
}

window.addEventListener("resize", () => {
  for (const place of document.querySelectorAll(".figure[data-fitted]")) fit(place);
});
