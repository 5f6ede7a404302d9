"""`python -m simplepcfg`, and the command `simplepcfg`, are the command line."""

import gc
import sys
from importlib import import_module
from types import ModuleType
from typing import Any

GARBAGE_AFTER = 50_000  # objects that were made since the last search for garbage
# Commands that neither compile nor trace anything with torch, and the module that only this needs: `import torch` takes
# a quarter of its time for it.
WITHOUT_TRACING = ("complete", "parse", "score")
TRACING = "torch._meta_registrations"


def main() -> int:
    """Run the command line and return its exit code; Ctrl-C during the imports, which take a while, counts, too."""
    # Importing torch makes very many objects that stay. Looking for garbage among them again and again took 6 % of the
    # processor time until the first tree.
    gc.set_threshold(GARBAGE_AFTER)
    if any(name in WITHOUT_TRACING for name in sys.argv[1:2]):
        sys.modules.setdefault(TRACING, Deferred(TRACING))
    try:
        from simplepcfg.cli.main import run

        return run()
    except KeyboardInterrupt:
        # The same line as that of simplepcfg.cli.failures, which may not have been imported yet.
        print("simplepcfg: interrupted", file=sys.stderr)
        return 130


class Deferred(ModuleType):
    """A module that is imported when one of its names is asked for."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        del sys.modules[self.__name__]
        vars(self).update(vars(import_module(self.__name__)))
        return vars(self)[name]


if __name__ == "__main__":
    sys.exit(main())
