"""A tree as an image of pixels, for logs that take no SVG; needs pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simplepcfg.drawing.style import LIGHT
from simplepcfg.drawing.trees import PLAIN_LABELS, AnyTree, layout_tree

if TYPE_CHECKING:
    from PIL.Image import Image

PIXELS = 2  # for each unit of the layout


def tree_image(tree: AnyTree) -> Image:
    """Return an image of the tree on white, as `tree_picture` lays it out."""
    from PIL import Image, ImageDraw, ImageFont

    layout = layout_tree(tree)
    pixels = (max(1, round(layout.width * PIXELS)), max(1, round(layout.height * PIXELS)))
    image = Image.new("RGB", pixels, LIGHT["paper"])
    canvas = ImageDraw.Draw(image)
    fonts = {
        kind: ImageFont.load_default(points * PIXELS) for kind, points in (("word", 14), ("tag", 12), ("span", 12))
    }
    for node in layout.nodes:
        if node.parent >= 0:
            above = layout.nodes[node.parent]
            if not (node.kind == "word" and above.kind == "tag"):
                ends = (above.x, above.y + 5, node.x, node.y - (12 if node.kind != "span" else 8))
                canvas.line([PIXELS * value for value in ends], fill=LIGHT["line"], width=PIXELS)
    for node in layout.nodes:
        x, y = PIXELS * node.x, PIXELS * node.y
        if node.kind == "span" and node.label in PLAIN_LABELS:
            radius = 4 * PIXELS
            canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=LIGHT["accent"])
        else:
            colour = LIGHT["ink" if node.kind == "word" else "accent"]
            canvas.text((x, y), node.label, fill=colour, font=fonts[node.kind], anchor="ms")
    return image
