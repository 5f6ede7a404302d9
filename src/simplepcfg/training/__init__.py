"""Training: configuration, the loop, checkpoints, and the folder that a run leaves behind."""

from simplepcfg.training.config import DataConfig, RunConfig, TrainingConfig
from simplepcfg.training.config_files import builtin_configs, load_config, save_config
from simplepcfg.training.device import resolve_device
from simplepcfg.training.live_display import LiveReporter
from simplepcfg.training.loop import TrainingResult, train
from simplepcfg.training.progress import PlainReporter, Reporter
from simplepcfg.training.reporters import make_reporter
from simplepcfg.training.run_folder import LoadedRun, RunFolder, load_run
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.timing import StepTime, StepTimer

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
