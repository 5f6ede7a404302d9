"""A run in a few facts and a learning curve."""

from __future__ import annotations

from html import escape

from simplepcfg.data.brackets import parse_tree
from simplepcfg.drawing import Series, line_plot, standalone, tree_picture
from simplepcfg.errors import InputError
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.runs.history import TrainingHistory, duration, read_history

MOST_MOMENTS = 16  # of a training that is replayed


def run_facts(run: TrainedModel, history: TrainingHistory) -> list[tuple[str, str]]:
    """Return names and values, as they stand in a table."""
    model, best = run.config.model, run.best
    sizes = {name: getattr(model, name, None) for name in ("nonterminals", "preterminals", "states")}
    facts = [
        ("model", model.kind),
        *((name, f"{size:,}") for name, size in sizes.items() if size),
        ("vocabulary", f"{len(run.vocabulary):,} words"),
        ("weights", f"{sum(weight.numel() for weight in run.model.parameters()):,}"),
        ("epochs", f"{history.epochs[-1]['epoch']:,}" if history.epochs else None),
        ("best epoch", f"{best['epoch']:,}" if best.get("epoch") is not None else None),
        ("validation perplexity", f"{best['perplexity']:.2f}" if best.get("perplexity") is not None else None),
        ("training time", duration(history.seconds) if history.seconds is not None else None),
        ("seed", str(run.config.seed)),
    ]
    return [(name, value) for name, value in facts if value is not None]


def sample_parses(history: TrainingHistory, most: int = MOST_MOMENTS) -> list[tuple[str, str]]:
    """Return the sample parse at several epochs, the last one included, each with a caption and a picture.

    Constituents that the parse before did not have are marked.
    """
    moments = [line for line in history.epochs if isinstance(line.get("sample_parse"), str)]
    if len(moments) > most:
        moments = [moments[round(k * (len(moments) - 1) / (most - 1))] for k in range(most)]
    pictures: list[tuple[str, str]] = []
    before: set[tuple[int, int]] | None = None
    for line in moments:
        try:
            tree = parse_tree(line["sample_parse"])
        except InputError:  # the file was changed by hand
            continue
        spans = {(i, j) for i, j, _ in tree.spans}
        caption, perplexity = f"epoch {line['epoch']}", line.get("valid_perplexity")
        if isinstance(perplexity, int | float):
            caption += f", validation perplexity {perplexity:.1f}"
        pictures.append((caption, tree_picture(tree, wrong=() if before is None else spans - before)))
        before = spans
    return pictures


def perplexity_curve(histories: list[tuple[str, TrainingHistory]]) -> str | None:
    """Draw training and validation perplexity by epoch of one run or several; None where none has a record."""
    series = []
    for index, (name, history) in enumerate(histories):
        prefix = f"{name}: " if len(histories) > 1 else ""
        if history.epochs:
            # With several runs a colour is a run; with one it is the kind of text.
            train, valid = (index, index) if len(histories) > 1 else (0, 1)
            series.append(Series(f"{prefix}training", history.by_epoch("train_perplexity"), True, train))
            series.append(Series(f"{prefix}validation", history.by_epoch("valid_perplexity"), False, valid))
    if not series:
        return None
    told = "training and validation perplexity by epoch"
    return line_plot(series, x_label="epoch", y_label="perplexity (logarithmic)", label=told, log=True)


def run_html(run: TrainedModel) -> str:
    """See ``Run._repr_html_``."""
    history = read_history(run.directory)
    rows = "".join(
        f'<tr><th style="text-align: left">{escape(name)}</th><td style="text-align: left">{escape(value)}</td></tr>'
        for name, value in run_facts(run, history)
    )
    curve = perplexity_curve([(run.name, history)])
    picture = standalone(curve) if curve is not None else ""
    return f"<div><p><strong>{escape(run.name)}</strong></p><table>{rows}</table>{picture}</div>"
