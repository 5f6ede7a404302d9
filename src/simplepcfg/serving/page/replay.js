// The training of a run replayed: the parse of one sentence at several moments.

import { showPicture } from "./dom.js";

const FRAME = 700; // milliseconds

export function showReplay(card, moments) {
  if (!moments?.length) return;
  card.hidden = false;
  const [slider, play, told, place] = [".epoch", ".play", ".moment", ".replay"].map((selector) => card.querySelector(selector));
  slider.max = moments.length - 1;
  let timer;
  const show = () => {
    const moment = moments[slider.value];
    showPicture(place, moment.svg, `Sample parse: ${moment.told}`);
    told.textContent = moment.told;
  };
  const stop = () => { clearInterval(timer); timer = undefined; play.textContent = "Play"; };
  play.addEventListener("click", () => {
    if (timer) return stop();
    if (Number(slider.value) === moments.length - 1) slider.value = 0;
    show();
    play.textContent = "Pause";
    timer = setInterval(() => {
      slider.value = Number(slider.value) + 1;
      show();
      if (Number(slider.value) === moments.length - 1) stop();
    }, FRAME);
  });
  slider.addEventListener("input", () => { stop(); show(); });
  slider.value = moments.length - 1;
  show();
}
