"""Training: configuration, the training loop, checkpoints and run folders."""

from simplepcfg.training.config.files import builtin_configs, load_config, save_config
from simplepcfg.training.config.schema import DataConfig, RunConfig, TrainingConfig
from simplepcfg.training.loop import TrainingResult, train
from simplepcfg.training.machine.device import resolve_device
from simplepcfg.training.machine.signals import Interrupted
from simplepcfg.training.reporting.live_display import LiveReporter
from simplepcfg.training.reporting.progress import PlainReporter, Reporter
from simplepcfg.training.reporting.reporters import make_reporter
from simplepcfg.training.step.timing import StepTime, StepTimer
from simplepcfg.training.storage.run_folder import LoadedRun, RunFolder, load_run

__all__ = [
    "DataConfig",
    "Interrupted",
    "LiveReporter",
    "LoadedRun",
    "PlainReporter",
    "Reporter",
    "RunConfig",
    "RunFolder",
    "StepTime",
    "StepTimer",
    "TrainingConfig",
    "TrainingResult",
    "builtin_configs",
    "load_config",
    "load_run",
    "make_reporter",
    "resolve_device",
    "save_config",
    "train",
]
