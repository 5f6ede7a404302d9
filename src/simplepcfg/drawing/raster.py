"""A tree as an image of pixels, for logs that take no SVG; needs pillow."""

from __future__ import annotations

from typing import TYPE_CHECKING

from simplepcfg.drawing.style import LIGHT
from simplepcfg.drawing.trees import AnyTree, edge_points, layout_tree

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
    for points in edge_points(layout):
        canvas.line([(PIXELS * x, PIXELS * y) for x, y in points], fill=LIGHT["line"], width=PIXELS)
    for node in layout.nodes:
        x, y = PIXELS * node.x, PIXELS * node.y
        if node.is_dot:
            radius = 4 * PIXELS
            canvas.ellipse((x - radius, y - radius, x + radius, y + radius), fill=LIGHT["accent"])
        else:
            colour = LIGHT["ink" if node.kind == "word" else "accent"]
            canvas.text((x, y), node.label, fill=colour, font=fonts[node.kind], anchor="ms")
    return image
