// The same words in tree, triangle, bars and word strip: what is pointed at in one is marked in all.

// A span of words as characters of the sentence, without words at its ends that the run drops: runs may split sentences differently.
export function characters(tokens, start, end) {
  let [first, last] = [Number(start), Number(end) - 1];
  while (first < last && !tokens[first]?.used) first += 1;
  while (last > first && !tokens[last]?.used) last -= 1;
  return tokens[first] && tokens[last] ? [tokens[first].start, tokens[last].end] : null;
}

// `views` gives pairs of a root element and the tokens that its elements count.
export function linkViews(views) {
  let last = null;
  const point = (event) => {
    const shape = event.target.closest?.("[data-start]") ?? null;
    if (shape === last) return;
    last = shape;
    const all = views();
    const own = shape && all.find(([root]) => root.contains(shape));
    const span = own ? characters(own[1], shape.dataset.start, shape.dataset.end) : null;
    for (const [root, tokens] of all) {
      for (const other of root.querySelectorAll("[data-start]")) {
        const at = span && characters(tokens, other.dataset.start, other.dataset.end);
        const leaf = other.matches(".word, .bar, button");
        other.classList.toggle("here", Boolean(at) && (leaf ? at[0] >= span[0] && at[1] <= span[1] : at[0] === span[0] && at[1] === span[1]));
      }
    }
  };
  for (const kind of ["pointerover", "focusin"]) document.addEventListener(kind, point);
}
