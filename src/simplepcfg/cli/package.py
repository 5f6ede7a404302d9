"""`simplepcfg package`: a trained run as a wheel that others can install."""

from pathlib import Path
from tempfile import TemporaryDirectory

from simplepcfg.cli.options import Quiet
from simplepcfg.cli.output import note, write_lines
from simplepcfg.cli.requests import arg, flag, opt
from simplepcfg.errors import InputError

SUMMARY = "Build an installable package from a trained run."


def command(
    run: str = arg("RUN", "Folder of a trained run."),
    name: str = opt("--name", "simplepcfg-NAME", "Name of the package; NAME is that of the grammar.", ...),
    out: Path = opt("--out", "DIR", "Where the package is written.", Path("dist")),
    folder: bool = flag("--folder", "Write the packed folder DIR/NAME instead of a wheel."),
    quiet: Quiet = False,
) -> None:
    """Build a wheel that holds a grammar and registers its name, and print the wheel's path.

    Once it is installed, commands and load() know the grammar by its name. The package has weights in few bits, words,
    configuration, spellings, labels if the run has learned any, and the model card, README.md of the run, which should
    say what text the grammar learned from, its licence, figures and limits. Two builds have the same bytes.

    \b
    Example:
      simplepcfg package runs/french --name simplepcfg-french
      pip install dist/simplepcfg_french-*.whl
      echo "Le vieux chien dort près du feu." | simplepcfg parse french
    """
    if out.is_file():
        raise InputError(f"--out {out} is a file; give a folder")
    from simplepcfg.inference.packaging import PREFIX, build_wheel, pack
    from simplepcfg.inference.run import load

    model, grammar = load(run, "cpu"), name.removeprefix(PREFIX)
    if folder:
        target = out / grammar
        size = pack(model, target, grammar)
    else:
        with TemporaryDirectory(prefix="simplepcfg-") as temporary:
            pack(model, Path(temporary) / grammar, grammar)
            target = build_wheel(Path(temporary) / grammar, name, out)
        size = target.stat().st_size
    note(f"{size / 1e6:.1f} MB", quiet)
    write_lines([str(target)])
