"""Which measured tables the documentation has: from which results, with which columns."""

from collections.abc import Sequence

from table_format import Row, Table, cell, mean_and_deviation


def _worth_showing(row: Row) -> bool:
    """Keep PyTorch alone, the paper's kernel at its fastest, and ours as it is used, at four sizes of equal lengths."""
    sizes = {
        ("16", "20", "512"),
        ("16", "20", "4096"),
        ("16", "40", "8192"),
        ("16", "20", "32768"),
    }
    ours = (row["backend"], row["precision"], row["mode"]) == ("triton", "bf16", "graph")
    others = {("log_einsum_exp", "fp32"), ("paper", "tf32")}
    shown = ours or (row["backend"], row["precision"]) in others
    return shown and (row["B"], row["n"], row["N"]) in sizes


def _trains_as_today(row: Row) -> bool:
    """Keep, of a GPU, steps of the recipe or of a large grammar, whole epochs, and the largest grammar that fits."""
    if not row["machine"].startswith("NVIDIA"):
        return False
    if row["data"].endswith("n = 21 alone"):
        return row["N"] == "32768"
    whole = row["data"].endswith("sn-pcfg-4096") or bool(row["epoch_s"])
    return whole or (row["N"] == "72704" and not row["valid_perplexity"])


def _is_current(row: Row) -> bool:
    """Test trees, parsed by configurations that are built in, by groups of them, and by their students."""
    replaced = row["trees"] in SHORT_TEXTS and "tn-pcfg" in row["system"]
    return row["trees"].endswith(" test") and row["system"] in CURRENT_SYSTEMS and not replaced


def _best_settings(row: Row) -> bool:
    """Keep, of each baseline, the settings with the best perplexities."""
    family = row["experiment"].split(",")[0]
    return bool(row["test_perplexity"]) and row["experiment"].endswith(BASELINES[family])


def _side_by_side(values: Sequence[str]) -> str:
    """Write the values of several seeds beside each other."""
    return ", ".join(cell(value) for value in values)


TREES = {
    "trees": "trees",
    "system": "system",
    "seed": "seeds",
    "sentence_f1": "S-F1",
    "perplexity": "perplexity",
    "right_branching": "right branching, S-F1",
}
CURRENT_SYSTEMS = {
    *("sn-pcfg", "sn-pcfg-1024", "rank-pcfg-biased", "tn-pcfg-biased"),
    "sn-pcfg, branching bonus 0.4, separators",
    "sn-pcfg-biased, branching bonus 0.4, separators",
    "sn-pcfg, student of two each of sn-pcfg-1024 and tn-pcfg-biased",
    "sn-pcfg, student of two each of sn-pcfg-1024 and rank-pcfg-biased, branching bonus 0.4, separators throughout",
    (
        "sn-pcfg, student of two each of sn-pcfg-1024, rank-pcfg-biased and tn-pcfg-biased, branching bonus 0.4, "
        "separators throughout"
    ),
    "sn-pcfg of GUM, PTB and CRAFT, branching bonus 0.4, separators, classes of unknown words",
    (
        "sn-pcfg, student of eight grammars of three texts and of english, branching bonus 0.4, separators, classes of "
        "unknown words"
    ),
    (
        "sn-pcfg, student of seven grammars of three texts and of english, branching bonus 0.4, separators, classes of "
        "unknown words"
    ),
    "sn-pcfg-1024, branching bonus 0.4, separators, classes of unknown words",
    "sn-pcfg-1024, student of two sn-pcfg-1024, branching bonus 0.4, separators, classes of unknown words",
    "sn-pcfg with 2048 symbols, branching bonus 0.4, classes of unknown words",
    "sn-pcfg with 2048 symbols, student of two such, branching bonus 0.4, classes of unknown words",
    *("sn-pcfg-128", "two each of sn-pcfg-128 and rank-pcfg-64, geometric mean"),
    "rank-pcfg-128, separators, on two CPU cores",
    "two rank-pcfg-128, geometric mean, separators, on two CPU cores",
    "rank-pcfg-128 and english, geometric mean, separators, on a CPU core",
}
SHORT_TEXTS = ("CESS-ESP test", "Sinica test")  # where grammars that were trained again have replaced the first ones
TREES_APART = ("trees", "system", "seed", "nonterminals", "training_text", "machine")
FOLD_SEEDS = {
    "seed": ", ".join,
    "sentence_f1": mean_and_deviation,
    "interval": lambda values: values[0] if len(values) == 1 else "",
    "perplexity": mean_and_deviation,
}
SYMBOLS_IN_USE = ("nonterminals_used", "preterminals_used")  # exp of the entropy of their uses
SEEDS_SIDE_BY_SIDE = ("valid_perplexity", "test_sentence_f1")
# How the names of the settings end that are shown of each baseline.
BASELINES = {
    "HMM": ("states",),
    "Rank HMM": ("ranks",),
    "LHMM": ("ten epochs",),
    "Rank-PCFG": ("logit std 3", "ten epochs"),
    "TN-PCFG": ("rate 0.001",),
}
SIZES_BUT_P = {"B": "B", "n": "n", "N": "N"}  # where P = 2N in all rows
SIZES = {**SIZES_BUT_P, "P": "P"}
TABLES = {
    "read-text": Table(
        "read_text.csv",
        "python benchmarks/read_text.py",
        {
            "sentences": "sentences",
            "words": "words",
            "V": "V",
            "cpu_seconds": "CPU seconds",
            "peak_mb": "memory (MB)",
        },
        ("data", "V"),
    ),
    "cpu-inside": Table(
        "inside_cpu.csv",
        "python benchmarks/inside_cpu.py",
        {
            **SIZES_BUT_P,
            "torch_ms_p50": "`torch` (ms)",
            "log_einsum_exp_ms_p50": "`log_einsum_exp` (ms)",
            "speedup": "times faster",
            "products_ms": "the matrix products alone (ms)",
        },
        (*SIZES, "machine", "threads"),
    ),
    "inside-gpu": Table(
        "inside_gpu.csv",
        "python benchmarks/inside_gpu.py",
        {
            **SIZES_BUT_P,
            "backend": "backend",
            "precision": "precision",
            "ms_p50": "median (ms)",
            "peak_mb": "peak (MB)",
            "ratio": "times the floor",
            "failure": "not measured because",
        },
        ("backend", "precision", "mode", *SIZES, "lengths", "machine"),
        _worth_showing,
    ),
    "trees": Table("trees.csv", "simplepcfg evaluate RUN TREES", TREES, TREES_APART, _is_current, FOLD_SEEDS),
    "word-models": Table(
        "word_models.csv",
        "python benchmarks/collect.py word-models FOLDER",
        {
            "system": "model",
            "seed": "seeds",
            "training_text": "text",
            "syntaxgym": "SyntaxGym (%)",
            "blimp": "BLiMP (%)",
            "perplexity": "perplexity of novels",
            "mean_rt": "reading times as published, last seed",
            "mean_rt_shifted": "shifted by a word",
        },
        ("system", "seed", "training_text"),
        fold={"seed": ", ".join, **dict.fromkeys(("syntaxgym", "blimp", "perplexity"), mean_and_deviation)},
    ),
    "plain-call-gpu": Table(
        "plain_call_gpu.csv",
        "python benchmarks/plain_call_gpu.py",
        {
            **SIZES_BUT_P,
            "lengths": "lengths",
            "plain_ms_p50": "launched (ms)",
            "call_ms_p50": "replayed (ms)",
            "graph_ms_p50": "one graph (ms)",
            "speedup": "times faster",
            "failure": "not measured because",
        },
        (*SIZES, "lengths", "machine"),
        lambda row: (
            (row["B"], row["n"], row["N"]) not in {("64", "40", "4096"), ("16", "40", "512"), ("16", "20", "8192")}
        ),
    ),
    "questions-gpu": Table(
        "questions_gpu.csv",
        "python benchmarks/questions_gpu.py",
        {
            "question": "question",
            "ms_p50": "median (ms)",
            "ratio": "times the forward pass",
            "peak_mb": "peak (MB)",
        },
        ("question", *SIZES, "machine"),
        lambda row: (
            (row["n"], row["N"]) == ("40", "4096") and row["question"] not in {"viterbi-chart", "prefix-closure"}
        ),
    ),
    "train-step": Table(
        "train_step.csv",
        "python benchmarks/train_step.py",
        {
            "data": "text",
            "N": "N",
            "ms_p50": "step of 21 words (ms)",
            "floor_ms": "floor (ms)",
            "words_per_s": "words a second",
            "epoch_s": "epoch (s)",
            "peak_mb": "peak (MB)",
        },
        ("data", "N", "P", "B", "precision", "captured", "machine"),
        _trains_as_today,
    ),
    "models-gpu": Table(
        "models_gpu.csv",
        "python benchmarks/models_gpu.py",
        {
            "config": "configuration",
            "seconds_an_epoch": "seconds an epoch",
            "peak_mb": "peak (MB)",
            "failure": "not measured because",
        },
        ("config", "data", "epochs", "machine"),
        lambda row: row["config"] not in {"rank-pcfg-8192", "rank-hmm-32768"},  # sizes that are settings today
    ),
    "network-differences": Table(
        "../../experiments/differences.csv",
        "python experiments/run.py experiments/differences.toml",
        {
            "experiment": "networks",
            "valid_perplexity": "validation perplexity",
            "test_sentence_f1": "S-F1 of GUM's validation trees",
            "nonterminals_used": "nonterminals in use, of 1024",
            "preterminals_used": "preterminals, of 2048",
        },
        ("experiment", "seed"),
        fold=dict.fromkeys(("seed", *SEEDS_SIDE_BY_SIDE, *SYMBOLS_IN_USE), _side_by_side),
    ),
    "paper-parsing": Table(
        "../../experiments/paper_parsing.csv",
        "python experiments/run.py experiments/paper_parsing.toml",
        {
            "experiment": "model",
            "seed": "seed",
            "epochs": "epochs",
            "valid_perplexity": "validation perplexity, PTB text",
            "test_sentence_f1": "S-F1, GUM test",
        },
        ("experiment", "seed"),
    ),
    "paper-lm": Table(
        "../../experiments/paper_lm.csv",
        "python experiments/run.py experiments/paper_lm.toml",
        {
            "experiment": "model",
            "seed": "seed",
            "epochs": "epochs",
            "best_epoch": "best epoch",
            "train_perplexity": "training perplexity, last epoch",
            "valid_perplexity": "validation",
            "test_perplexity": "test",
        },
        ("experiment", "seed"),
    ),
    "rivals": Table(
        "../../experiments/rivals.csv",
        "python experiments/run.py experiments/rivals.toml",
        {"experiment": "model", "seed": "seeds", "test_perplexity": "test perplexity"},
        ("experiment", "seed"),
        _best_settings,
        {"seed": ", ".join, "test_perplexity": mean_and_deviation},
    ),
    "time-to-perplexity": Table(
        "time_to_perplexity.csv",
        "python benchmarks/time_to_perplexity.py",
        {
            "config": "configuration",
            "epochs": "epochs",
            "seconds": "seconds, everything included",
            "test_perplexity": "test perplexity",
            "goal": "the paper's",
        },
        ("config", "epochs", "machine"),
    ),
    "laptop": Table(
        "laptop.csv",
        "python benchmarks/laptop.py OLDER TREES",
        {
            "question": "question",
            "machine": "processor",
            "sentences": "sentences",
            "words": "words",
            "older_busy_s": "56349dc, processor seconds",
            "newer_busy_s": "now",
            "busy_ratio": "ratio",
            "floor_busy_s": "floor of the matrix products",
        },
        ("question", "machine"),
    ),
    "grammar-sizes": Table(
        "grammar_sizes.csv",
        "python benchmarks/grammar_sizes.py RUN… --trees gum/dev.trees --suites syntaxgym",
        {
            "N": "nonterminals",
            "sentence_f1": "S-F1, GUM dev",
            "perplexity": "perplexity",
            "syntaxgym": "SyntaxGym (%)",
            "sentences_a_second": "sentences a second",
        },
        ("run", "machine"),
    ),
    "laptop-families": Table(
        "laptop_families.csv",
        "python benchmarks/laptop_families.py OLDER",
        {
            "family": "grammar",
            "question": "question",
            "sentences_a_second": "sentences a second",
            "ratio": "times 56349dc",
        },
        ("family", "question", "machine"),
        lambda row: row["question"] != "exact-mbr",
        {"question": ", ".join, "sentences_a_second": _side_by_side, "ratio": _side_by_side},
    ),
}
