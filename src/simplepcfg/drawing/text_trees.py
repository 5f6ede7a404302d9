"""Trees drawn with lines, one node a line, or as words with brackets around them."""

from simplepcfg.drawing.trees import AnyTree


def draw_tree(tree: AnyTree, tags: bool = False) -> list[str]:
    """Return the lines of a drawing of a tree; with `tags` each word has its tag before it."""
    lines: list[str] = []
    guides: list[tuple[int, str]] = []  # for every open span: where it ends, and what its children's lines begin with

    def add_line(text: str, end: int) -> str:
        """Add the line of a node that ends at `end`; return what the lines of its children begin with."""
        if not guides:
            lines.append(text)
            return ""
        end_of_parent, guide = guides[-1]
        is_last = end == end_of_parent
        lines.append(f"{guide}{'└─' if is_last else '├─'} {text}")
        return guide + ("   " if is_last else "│  ")

    following = 0
    for i, word in enumerate(tree.words):
        while guides and guides[-1][0] <= i:
            guides.pop()
        while following < len(tree.spans) and tree.spans[following][0] == i:
            _, j, label = tree.spans[following]
            guides.append((j, add_line(label, j)))
            following += 1
        add_line(f"{tree.tags[i]} {word}" if tags else word, i + 1)
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
