"""A run in a few facts and a learning curve."""

from __future__ import annotations

from html import escape

from simplepcfg.drawing import Series, line_plot, standalone
from simplepcfg.inference.trained_model import TrainedModel
from simplepcfg.runs.history import TrainingHistory, duration, read_history


def run_facts(run: TrainedModel, history: TrainingHistory) -> list[tuple[str, str]]:
    """Return names and values, as they stand in a table."""
    model = run.config.model
    facts: list[tuple[str, str]] = [("model", model.kind)]
    for field, name in (("nonterminals", "nonterminals"), ("preterminals", "preterminals"), ("states", "states")):
        if getattr(model, field, None):
            facts.append((name, f"{getattr(model, field):,}"))
    facts.append(("vocabulary", f"{len(run.vocabulary):,} words"))
    facts.append(("weights", f"{sum(weight.numel() for weight in run.model.parameters()):,}"))
    if history.epochs:
        facts.append(("epochs", f"{history.epochs[-1]['epoch']:,}"))
    if run.best.get("epoch") is not None:
        facts.append(("best epoch", f"{run.best['epoch']:,}"))
    if run.best.get("perplexity") is not None:
        facts.append(("validation perplexity", f"{run.best['perplexity']:.2f}"))
    if history.seconds is not None:
        facts.append(("training time", duration(history.seconds)))
    facts.append(("seed", str(run.config.seed)))
    return facts


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
