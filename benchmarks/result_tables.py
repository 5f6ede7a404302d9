"""Which measured tables the documentation has: from which results, with which columns."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import mean, stdev

Row = Mapping[str, str]


@dataclass(frozen=True)
class Table:
    """Which results are shown and how: `columns` are headers by column, `setting` tells rows apart.

    Without `columns` every one that is not about the machine is shown, and without `setting` all rows of the commit
    that was measured last. A column in which no row has anything is left out.
    """

    csv: str
    command: str  # what measures it
    columns: Mapping[str, str] | None = None
    setting: Sequence[str] = ()
    keep: Callable[[Row], bool] = lambda row: True  # the rest is in the CSV file only
    # Rows that differ in these columns alone become one, with what each of these makes of their values.
    fold: Mapping[str, Callable[[Sequence[str]], str]] = field(default_factory=dict)


def _worth_showing(row: Row) -> bool:
    """Of a GPU's many variants: the baseline, the paper's kernel as it is described, and ours as it is used."""
    shown = {("log_einsum_exp", "fp32"), ("paper_recompute", "fp32"), ("paper_recompute", "tf32")}
    ours = row["backend"] == "triton" and row["mode"] == "graph" and row["precision"] != "tf32"
    return ours or (row["backend"], row["precision"]) in shown


def _mean_and_deviation(values: Sequence[str]) -> str:
    """Of the runs of one setting; the standard deviation where there are several."""
    if len(values) == 1:
        return values[0]
    if not all(values):
        return ""
    numbers = [float(value) for value in values]
    return f"{mean(numbers):.1f} ± {stdev(numbers):.1f}"


def _is_current(row: Row) -> bool:
    """Test trees, parsed by configurations that are built in, by groups of them, and by their students."""
    return row["trees"].endswith(" test") and row["system"] in CURRENT_SYSTEMS


def cell(value: str) -> str:
    """Text as it is, numbers to four significant digits, nothing as a dash."""
    if not value:
        return "–"
    if not is_number(value):
        return value.replace("|", "\\|")
    number = float(value)
    if number == int(number) and "." not in value:
        return f"{int(number):,}"
    digits = max(0, 3 - len(str(int(abs(number)))) + 1) if abs(number) >= 1 else 4
    return f"{number:,.{digits}f}"


def is_number(value: str) -> bool:
    try:
        float(value)
    except ValueError:
        return False
    return True


TREES = {
    "trees": "trees",
    "system": "system",
    "seed": "seeds",
    "nonterminals": "N",
    "epochs": "epochs",
    "training_text": "text",
    "sentence_f1": "S-F1",
    "interval": "95 % interval",
    "corpus_f1": "corpus F1",
    "perplexity": "perplexity",
    "right_branching": "right branching, S-F1",
}
CURRENT_SYSTEMS = {
    *("sn-pcfg", "sn-pcfg-1024", "rank-pcfg-biased", "tn-pcfg-biased"),
    *("two each of sn-pcfg-1024 and rank-pcfg-biased", "two each of sn-pcfg-1024 and tn-pcfg-biased"),
    "two each of sn-pcfg-1024 and tn-pcfg-biased, geometric mean",
    *("sn-pcfg-128", "rank-pcfg-64", "two each of sn-pcfg-128 and rank-pcfg-64, geometric mean"),
    "sn-pcfg-128, student of two each of sn-pcfg-128 and rank-pcfg-64",
    "sn-pcfg, student of two each of sn-pcfg-1024 and rank-pcfg-biased",
    "sn-pcfg, student of two each of sn-pcfg-1024 and tn-pcfg-biased",
}
TREES_APART = ("trees", "system", "seed", "nonterminals", "training_text", "machine")
FOLD_SEEDS = {
    "seed": ", ".join,
    "sentence_f1": _mean_and_deviation,
    "interval": lambda values: values[0] if len(values) == 1 else "",
    "corpus_f1": _mean_and_deviation,
    "perplexity": _mean_and_deviation,
}
SIZES = {"B": "B", "n": "n", "N": "N", "P": "P"}
TABLES = {
    "surprisal": Table(
        "surprisal.csv",
        "python benchmarks/surprisal.py",
        {
            "words": "words",
            "N": "N = P",
            "V": "V",
            "machine": "machine",
            "threads": "threads",
            "first_seconds": "seconds, first time",
            "seconds": "seconds",
            "cpu_seconds": "CPU seconds",
            "floor_seconds": "floor (CPU seconds)",
            "commit": "commit",
            "peak_mb": "peak (MB)",
        },
        ("data", "words", "N", "V", "device", "machine", "threads"),
    ),
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
        ("data", "V", "commit"),
    ),
    "cpu-inside": Table(
        "inside_cpu.csv",
        "python benchmarks/inside_cpu.py",
        {
            **SIZES,
            "torch_ms_p50": "`torch` (ms)",
            "log_einsum_exp_ms_p50": "`log_einsum_exp` (ms)",
            "speedup": "times faster",
            "torch_peak_mb": "`torch` peak (MB)",
            "log_einsum_exp_peak_mb": "`log_einsum_exp` peak (MB)",
            "products_ms": "the matrix products alone (ms)",
            "torch_over_products": "`torch` over these",
        },
        (*SIZES, "machine", "threads"),
    ),
    "demo": Table(
        "demo.csv",
        "python benchmarks/demo.py",
        {
            "seed": "seed",
            "training_s": "training (s)",
            "perplexity": "perplexity",
            "true_perplexity": "the true grammar's",
            "over_true_percent": "above it (%)",
            "sentence_f1": "S-F1",
            "best_trivial_f1": "best trivial trees'",
            "over_trivial": "above it",
        },
        ("seed",),
    ),
    "inside-gpu": Table(
        "inside_gpu.csv",
        "python benchmarks/inside_gpu.py",
        {
            **SIZES,
            "lengths": "lengths",
            "backend": "backend",
            "precision": "precision",
            "mode": "mode",
            "ms_p50": "median (ms)",
            "peak_mb": "peak (MB)",
            "floor_ms": "floor (ms)",
            "ratio": "times the floor",
            "failure": "not measured because",
        },
        ("backend", "precision", "mode", *SIZES, "lengths", "machine"),
        _worth_showing,
    ),
    "trees": Table("trees.csv", "simplepcfg evaluate RUN TREES", TREES, TREES_APART, _is_current, FOLD_SEEDS),
    "trees-tried": Table(
        "trees.csv", "simplepcfg evaluate RUN TREES", TREES, TREES_APART, lambda row: not _is_current(row), FOLD_SEEDS
    ),
    "word-models": Table(
        "word_models.csv",
        "python benchmarks/collect.py word-models FOLDER",
        {
            "system": "model",
            "seed": "seed",
            "training_text": "text",
            "syntaxgym": "SyntaxGym (%)",
            "blimp": "BLiMP (%)",
            "perplexity": "perplexity of novels",
            "mean_rt": "reading times as published",
            "mean_rt_shifted": "shifted by a word",
        },
        ("system", "seed", "training_text"),
    ),
    "plain-call-gpu": Table(
        "plain_call_gpu.csv",
        "python benchmarks/plain_call_gpu.py",
        {
            **SIZES,
            "lengths": "lengths",
            "plain_ms_p50": "launched (ms)",
            "call_ms_p50": "replayed (ms)",
            "graph_ms_p50": "one graph (ms)",
            "speedup": "times faster",
            "over_graph": "over one graph",
            "plain_peak_mb": "launched (MB)",
            "call_peak_mb": "replayed (MB)",
            "graph_peak_mb": "one graph (MB)",
            "failure": "not measured because",
        },
        (*SIZES, "lengths", "machine"),
    ),
    "plain-call-host": Table(
        "plain_call_host.csv",
        "python benchmarks/plain_call_host.py",
        {
            **SIZES,
            "graph_us": "one graph (µs)",
            "call_us": "the call (µs)",
            "in_this_thread_us": "in one thread (µs)",
            "empty_function_us": "an empty function (µs)",
            "call_over_graph": "call over one graph",
            "in_this_thread_over_graph": "in one thread over one graph",
        },
        (*SIZES, "machine"),
    ),
    "plain-questions-gpu": Table(
        "plain_questions_gpu.csv",
        "python benchmarks/plain_questions_gpu.py",
        {
            "question": "question",
            **SIZES,
            "plain_ms_p50": "launched (ms)",
            "call_ms_p50": "replayed (ms)",
            "graph_ms_p50": "one graph (ms)",
            "speedup": "times faster",
            "plain_peak_mb": "launched (MB)",
            "call_peak_mb": "replayed (MB)",
            "failure": "not measured because",
        },
        ("question", *SIZES, "machine"),
    ),
    "questions-gpu": Table(
        "questions_gpu.csv",
        "python benchmarks/questions_gpu.py",
        {
            "question": "question",
            **SIZES,
            "ms_p50": "median (ms)",
            "ratio": "times the forward pass",
            "peak_mb": "peak (MB)",
            "memory_ratio": "times its memory",
        },
        ("question", *SIZES, "machine"),
    ),
    "inside-cpu-parts": Table(
        "inside_cpu_parts.csv",
        "python benchmarks/inside_cpu_parts.py",
        {
            **SIZES,
            "products_percent": "matrix products (%)",
            "split_sums_percent": "split sums (%)",
            "copies_percent": "copies (%)",
            "rest_percent": "the rest (%)",
            "most_by_split_sums": "times as fast without split sums",
        },
        (*SIZES, "machine"),
    ),
    "inside-floor": Table(
        "inside_floor.csv",
        "python benchmarks/inside_floor.py",
        {
            **SIZES,
            "flops_ms": "flops alone (ms)",
            "products_ms": "products, width by width (ms)",
            "splits_ms": "split sums (ms)",
            "floor_ms": "floor (ms)",
            "graph_ms": "one graph (ms)",
            "ratio": "times the floor",
        },
        (*SIZES, "machine"),
    ),
    "step-parts": Table(
        "step_parts.csv",
        "python benchmarks/step_parts.py",
        {
            "part": "part",
            "direction": "direction",
            "N": "N",
            "P": "P",
            "precision": "precision",
            "ms_p50": "median (ms)",
            "floor_ms": "floor (ms)",
            "ratio": "times the floor",
            "failure": "not measured because",
        },
        ("part", "direction", "N", "precision", "machine"),
    ),
    "machinery": Table(
        "machinery.csv",
        "python benchmarks/machinery.py",
        {
            "piece": "piece",
            "N": "N",
            "unit": "unit",
            "with": "with it",
            "without": "without it",
            "gain_percent": "longer without it (%)",
            "lines": "lines of code",
            "failure": "not comparable because",
        },
        ("piece", "N", "P", "B", "n", "machine"),
        lambda row: row["machine"].startswith("NVIDIA"),  # a CPU only tests the script
    ),
    "train-step": Table(
        "train_step.csv",
        "python benchmarks/train_step.py",
        {
            "data": "text",
            "N": "N",
            "P": "P",
            "B": "batch",
            "n": "n",
            "ms_p50": "step of n words (ms)",
            "floor_ms": "floor (ms)",
            "ratio": "times the floor",
            "words_per_s": "words a second",
            "first_epoch_s": "first epoch (s)",
            "epoch_s": "epoch (s)",
            "steps_s": "measured steps (s)",
            "peak_mb": "peak (MB)",
            "valid_perplexity": "validation perplexity",
            "test_sentences": "test sentences",
            "score_s": "scored in (s)",
            "parse_s": "parsed in (s)",
        },
        ("data", "N", "P", "B", "precision", "captured", "machine"),
    ),
    "models-gpu": Table(
        "models_gpu.csv",
        "python benchmarks/models_gpu.py",
        {
            "config": "configuration",
            "parameters": "parameters",
            "epochs": "epochs",
            "seconds_an_epoch": "seconds an epoch",
            "peak_mb": "peak (MB)",
            "valid_perplexity": "validation perplexity",
            "failure": "not measured because",
        },
        ("config", "data", "epochs", "machine"),
    ),
    "curves": Table(
        "curves.csv",
        "python experiments/run.py experiments/networks.toml",
        {
            "name": "row",
            "precision": "precision",
            "seed": "seed",
            "epoch": "epochs",
            "train_perplexity": "training perplexity, last epoch",
            "valid_perplexity": "validation, epoch by epoch",
            "test_perplexity": "test",
        },
        ("name", "precision", "seed", "epoch", "machine", "commit"),  # epochs of two runs do not mix
        fold={
            "epoch": lambda values: values[-1],
            "train_perplexity": lambda values: values[-1],
            "valid_perplexity": lambda values: ", ".join(cell(value) for value in values),
            "test_perplexity": lambda values: "".join(values),
        },
    ),
    "rivals": Table(
        "../../experiments/rivals.csv",
        "python experiments/run.py experiments/rivals.toml",
        {"experiment": "model", "seed": "seeds", "test_perplexity": "test perplexity"},
        ("experiment", "seed"),
        lambda row: bool(row["test_perplexity"]),
        {"seed": ", ".join, "test_perplexity": _mean_and_deviation},
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
    "dense-cpu": Table(
        "dense_cpu.csv",
        "python benchmarks/dense_cpu.py",
        {
            **SIZES,
            "threads": "threads",
            "torch_ms_p50": "ours (ms)",
            "log_sum_exp_ms_p50": "textbook log-sum-exp (ms)",
            "torch_struct_ms_p50": "torch-struct (ms)",
        },
        (*SIZES, "machine", "threads"),
    ),
    "step-cpu": Table(
        "step_cpu.csv",
        "python benchmarks/step_cpu.py",
        {
            "machine": "processor",
            **SIZES,
            "V": "V",
            "baseline_ms_p50": "plain autograd (ms)",
            "fp32_ms_p50": "ours, fp32 (ms)",
            "bf16_ms_p50": "ours, bf16 (ms)",
            "products_ms_p50": "the products alone, fp32 (ms)",
            "fp32_speedup": "times faster, fp32",
            "fp32_speedup_same_adam": "with the same Adam",
            "bf16_speedup": "times faster, bf16",
        },
        (*SIZES, "V", "machine", "threads"),
    ),
    "serve-load": Table(
        "serve_load.csv",
        "python benchmarks/serve_load.py",
        {
            "question": "question",
            "nonterminals": "N",
            "length": "words",
            "at_once": "at once",
            "requests": "requests",
            "errors": "errors",
            "p50_s": "p50 (s)",
            "p95_s": "p95 (s)",
            "requests_per_s": "requests a second",
        },
        ("question", "nonterminals", "length", "at_once", "machine", "threads"),
    ),
    "parse-throughput": Table(
        "parse_throughput.csv",
        "python benchmarks/parse_throughput.py",
        {
            "command": "command",
            "data": "data",
            "sentences": "sentences",
            "words": "words",
            "nonterminals": "N",
            "operation_s": "the operation alone (s)",
            "command_s": "with everything around it (s)",
            "ratio": "ratio",
            "sentences_per_s": "sentences a second",
        },
        ("command", "data", "nonterminals", "machine", "threads"),
    ),
}
