"""Trees drawn with lines, one node a line, or as words with brackets around them."""

from simplepcfg.drawing.trees import AnyTree, parents_of


def draw_tree(tree: AnyTree, tags: bool = False) -> list[str]:
    """Return the lines of a drawing of a tree; with `tags` each word has its tag before it."""
    last_spans, last_words = _last_children(tree)
    lines: list[str] = []
    guides: list[tuple[int, str]] = []  # for every open span: where it ends, and what its children's lines begin with
    following = 0
    for i, word in enumerate(tree.words):
        while guides and guides[-1][0] <= i:
            guides.pop()
        while following < len(tree.spans) and tree.spans[following][0] == i:
            _, j, label = tree.spans[following]
            lines.append(_line(guides, label, last_spans[following]))
            guides.append((j, _below(guides, last_spans[following])))
            following += 1
        text = f"{tree.tags[i]} {word}" if tags else word
        lines.append(_line(guides, text, last_words[i]))
    return lines


def nested_words(tree: AnyTree) -> str:
    """Return the words of a tree on one line, with brackets around every span of two words or more but the whole."""
    n = len(tree.words)
    opened, closed = [0] * (n + 1), [0] * (n + 1)
    for i, j in {(i, j) for i, j, _ in tree.spans}:  # a unary chain has one pair of brackets
        if 1 < j - i < n:
            opened[i] += 1
            closed[j] += 1
    return " ".join(f"{'[' * opened[k]}{word}{']' * closed[k + 1]}" for k, word in enumerate(tree.words))


def _last_children(tree: AnyTree) -> tuple[list[bool], list[bool]]:
    """Tell of each span and of each word whether it is the last child of its parent."""
    parents, above_word = parents_of(tree)
    ends = [j for _, j, _ in tree.spans]
    spans = [parent < 0 or ends[parent] == end for parent, end in zip(parents, ends, strict=True)]
    return spans, [parent < 0 or ends[parent] == i + 1 for i, parent in enumerate(above_word)]


def _line(guides: list[tuple[int, str]], text: str, is_last: bool) -> str:
    if not guides:
        return text
    return f"{guides[-1][1]}{'└─' if is_last else '├─'} {text}"


def _below(guides: list[tuple[int, str]], is_last: bool) -> str:
    if not guides:
        return ""
    return guides[-1][1] + ("   " if is_last else "│  ")
