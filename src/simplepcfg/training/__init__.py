"""Training: the start of a run, its loop, and what it reports."""

from simplepcfg.training.reporting.live_display import LiveReporter
from simplepcfg.training.reporting.progress import PlainReporter, Reporter
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import TrainingResult, train

__all__ = [
    "Interrupted",
    "LiveReporter",
    "PlainReporter",
    "Reporter",
    "TrainingResult",
    "make_reporter",
    "train",
]
