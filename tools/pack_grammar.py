"""Pack a trained run as a grammar that comes with the package: weights, words, configuration, model card.

Weights are stored in bfloat16, and those of words, which are most of the size, in int8 with a factor for each word.

    python tools/pack_grammar.py runs/english src/simplepcfg/pretrained/english --card card.md --tokenize

The packed folder is read as any run's: its files keep their checksums. Nothing that names the machine on which the run
was trained is packed, and no optimiser state.
"""

import argparse
from pathlib import Path

import torch

from simplepcfg.runs.config.files import save_config
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import host_copy, quantised_rows, write_tensor_file

MOST_BYTES = 15_000_000
MOST_BFLOAT16 = 2_000_000  # numbers; larger matrices are stored in int8


def pack(run: Path, out: Path, card: Path | None, tokenize: bool) -> int:
    """Write the packed grammar into a new folder; its size in bytes."""
    loaded = load_run(run, "cpu")
    folder = RunFolder(out)
    folder.refuse_if_taken()
    out.mkdir(parents=True, exist_ok=True)
    weights: dict[str, torch.Tensor] = {}
    for name, tensor in host_copy(loaded.model.state_dict()).items():
        is_large = tensor.dim() == 2 and tensor.numel() > MOST_BFLOAT16
        weights |= quantised_rows(name, tensor) if is_large else {name: tensor.to(torch.bfloat16)}
    loaded.vocabulary.save(folder.vocabulary)
    write_tensor_file(folder.model, weights, loaded.best, vocabulary=loaded.vocabulary.checksum)
    if loaded.spelling is not None:
        write_tensor_file(folder.spelling, loaded.spelling.to_tensors(), {})
    text = {"train": None, "valid": None, "tokenize": tokenize or loaded.config.data.tokenize, "raw": False}
    data = loaded.config.data.model_copy(update=text)
    training = loaded.config.training.model_copy(update={"start_from": None, "teacher": ()})
    packed = loaded.config.model_copy(update={"name": out.name, "data": data, "training": training})
    save_config(packed, folder.config)
    if card is not None:
        (out / "README.md").write_text(card.read_text(encoding="utf-8"), encoding="utf-8")
    return sum(path.stat().st_size for path in out.iterdir())


def main() -> None:
    """Pack, and say how large it is."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("run", type=Path, help="folder of a trained run")
    parser.add_argument("out", type=Path, help="new folder of the packed grammar")
    parser.add_argument("--card", type=Path, help="model card, kept as README.md")
    parser.add_argument(
        "--tokenize", action="store_true", help="the grammar is asked with sentences as people write them"
    )
    arguments = parser.parse_args()
    size = pack(arguments.run, arguments.out, arguments.card, arguments.tokenize)
    print(f"{arguments.out}: {size / 1e6:.1f} MB")
    if size > MOST_BYTES:
        raise SystemExit(f"larger than {MOST_BYTES / 1e6:.0f} MB; train a smaller grammar")


if __name__ == "__main__":
    main()
