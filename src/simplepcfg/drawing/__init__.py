"""Pictures as self-contained SVG strings: plain values in, text out, without any plotting library."""

from simplepcfg.drawing.charts import span_chart, surprisal_bars
from simplepcfg.drawing.plots import Series, line_plot
from simplepcfg.drawing.style import stylesheet
from simplepcfg.drawing.svg import standalone
from simplepcfg.drawing.trees import PLAIN_LABELS, tree_picture

__all__ = [
    "PLAIN_LABELS",
    "Series",
    "line_plot",
    "span_chart",
    "standalone",
    "stylesheet",
    "surprisal_bars",
    "tree_picture",
]
