"""Distillation: what is stored, gradients of both forms, right-branching teachers, resuming, refusals."""

import os
import signal
from pathlib import Path

import pytest
import torch

from simplepcfg import load
from simplepcfg.data.batching import Batch
from simplepcfg.data.trees import SpanTree
from simplepcfg.errors import InputError
from simplepcfg.inference.marginals import span_marginals
from simplepcfg.models import SimpleNPCFG, SimpleNPCFGConfig
from simplepcfg.models.npcfg import NPCFG, NPCFGConfig
from simplepcfg.ops.mbr import best_trees
from simplepcfg.runs.checksums import DamagedFileError
from simplepcfg.runs.config.files import load_config
from simplepcfg.runs.config.schema import RunConfig, TrainingConfig
from simplepcfg.runs.run_folder import RunFolder, load_run
from simplepcfg.runs.tensor_files import read_tensor_file
from simplepcfg.training import teachers as module
from simplepcfg.training.reporting.progress import Reporter, StepReport
from simplepcfg.training.signals import Interrupted
from simplepcfg.training.start import train
from simplepcfg.training.step.span_prior import SpanPrior
from simplepcfg.training.step.step import sentence_losses
from simplepcfg.training.step.teacher_loss import TeacherSignal, span_divergence, teacher_signal, teacher_weight
from simplepcfg.training.teachers import TeacherMarginals, padded_tables
from tiny_runs import SETTINGS, make_tiny_run, tiny_sentences

pytestmark = pytest.mark.usefixtures("one_thread")


def config(*settings: str) -> RunConfig:
    return load_config("sn-pcfg-small", [*SETTINGS, *settings], environment={})


@pytest.fixture(scope="module")
def teachers(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two right-branching grammars of different vocabularies."""
    folder = tmp_path_factory.mktemp("teachers")
    for seed, count in ((1, 1), (2, 3)):
        bias = ["training.branching_bias=10", "training.epochs=6", "training.learning_rate=0.02"]
        make_tiny_run(folder / f"seed-{seed}", *bias, f"seed={seed}", f"data.min_count={count}")
    return folder


def right_share(folder: Path) -> float:
    """Return the share of spans in a run's trees that end the sentence."""
    trees = [tree for tree in load(folder, "cpu").parse_spans(tiny_sentences(60, seed=77)) if len(tree) > 2]
    spans = [(j, len(tree)) for tree in trees for i, j, _ in tree.spans if j - i < len(tree)]
    return sum(j == n for j, n in spans) / len(spans)


def test_packed_marginals_come_back(tmp_path: Path) -> None:
    generator = torch.Generator().manual_seed(0)
    lengths = [2, 5, 3]
    tables = [torch.rand(n + 1, n + 1, generator=generator).triu(2).half().float() for n in lengths]
    stored = TeacherMarginals(lengths)
    stored.append(padded_tables(tables[:2])[0], torch.tensor([1.0, 2.0]))
    assert not stored.is_complete
    stored.save(tmp_path / "t", {"train": "x"})
    found = TeacherMarginals.load(tmp_path / "t", lengths, {"train": "x"})
    found.append(torch.stack(tables[2:]), torch.tensor([3.0]))
    assert found.is_complete
    assert found.packed.dtype == torch.float16
    assert len(found.packed) == 1 + 10 + 3
    given = found.of([2, 1], 5)
    assert torch.equal(given[1], tables[1])
    assert torch.equal(given[0, :4, :4], tables[2])
    assert given[0].sum() == tables[2].sum()
    assert found.best.tolist() == [1, 2, 3]
    with pytest.raises(InputError, match="another text"):
        TeacherMarginals.load(tmp_path / "t", lengths, {"train": "y"})
    data = bytearray((tmp_path / "t").read_bytes())
    data[-1] ^= 1
    (tmp_path / "t").write_bytes(data)
    with pytest.raises(DamagedFileError):
        TeacherMarginals.load(tmp_path / "t", lengths, {"train": "x"})


@pytest.mark.parametrize("form", ["prior", "targets"])
@pytest.mark.parametrize(("kind", "bias"), [("simple", False), ("simple", True), ("dense", False)])
def test_gradients_by_finite_differences(form: str, kind: str, bias: bool) -> None:
    torch.manual_seed(3)
    if kind == "simple":
        model: torch.nn.Module = SimpleNPCFG(SimpleNPCFGConfig(nonterminals=3, preterminals=4, embedding=4), 7)
    else:
        model = NPCFG(NPCFGConfig(nonterminals=3, preterminals=4, embedding=4), 7)
    model = model.double()
    words, lengths = torch.tensor([[1, 2, 3, 4], [5, 6, 1, 0]]), torch.tensor([4, 3])
    targets = torch.zeros(2, 5, 5, dtype=torch.float64)
    for row, n in enumerate((4, 3)):
        for i in range(n):
            targets[row, i, n] = 0.8 if 2 <= n - i < n else float(n - i == n)
        targets[row, 0, 2] += 0.2 if n == 3 else 0.1
    signal = TeacherSignal(form, 0.7, targets, torch.tensor([2.6, 1.8]))
    prior = None
    if bias:
        prior = SpanPrior(0.3 * torch.rand(2, 5, 5, dtype=torch.float64).triu(2), torch.ones(2, dtype=torch.float64))
    if form == "prior":
        prior = signal.prior() if prior is None else signal.prior() + prior

    def total() -> torch.Tensor:
        return sentence_losses(model, words, lengths, prior, signal if form == "targets" else None).sum()

    parameters = list(model.parameters())
    gradients = torch.autograd.grad(total(), parameters, allow_unused=True)
    checked = 0
    for parameter, gradient in zip(parameters, gradients, strict=True):
        if gradient is None:
            continue
        place = int(gradient.flatten().abs().argmax())
        found = []
        for step in (1e-5, -1e-5):
            with torch.no_grad():
                parameter.view(-1)[place] += step
            found.append(float(total().detach()))
            with torch.no_grad():
                parameter.view(-1)[place] -= step
        assert (found[0] - found[1]) / 2e-5 == pytest.approx(float(gradient.flatten()[place]), rel=1e-6, abs=1e-9)
        checked += 1
    assert checked >= 3


def test_divergence_is_zero_at_the_targets() -> None:
    targets = torch.tensor([[[0.0, 0.3], [1.0, 0.6]]], dtype=torch.float64)
    assert span_divergence(targets, targets).abs().max() < 1e-12
    marginals = torch.tensor([[[0.0, 0.5], [1.0, 0.6]]], dtype=torch.float64, requires_grad=True)
    by_hand = 0.3 * torch.log(torch.tensor(0.3 / 0.5)) + 0.7 * torch.log(torch.tensor(0.7 / 0.5))
    assert span_divergence(marginals, targets).item() == pytest.approx(by_hand.item(), rel=1e-6)
    assert bool(torch.autograd.grad(span_divergence(marginals, targets).sum(), marginals)[0].isfinite().all())


@pytest.mark.parametrize(("steps", "weights"), [(0, [2, 2, 2]), (4, [2, 1, 0])])
def test_weights_fall(steps: int, weights: list[float]) -> None:
    settings = TrainingConfig(teacher=("x",), teacher_weight=2, teacher_steps=steps)
    assert [teacher_weight(settings, step) for step in (0, 2, 4)] == weights
    batch, marginals = Batch(torch.tensor([[1, 2]]), torch.tensor([2]), [0]), TeacherMarginals([2])
    assert (teacher_signal(settings, marginals, 9, batch) is None) == bool(steps)
    assert teacher_signal(settings, None, 0, batch) is None


STUDENT = ["seed=5", "training.epochs=3", "training.learning_rate=0.02"]


@pytest.fixture(scope="module")
def share_without_teachers(tmp_path_factory: pytest.TempPathFactory) -> float:
    """The share of spans that end the sentence in the trees of an untaught student."""
    return right_share(make_tiny_run(tmp_path_factory.mktemp("untaught") / "control", *STUDENT))


def test_the_teachers_branch_to_the_right(teachers: Path) -> None:
    assert min(right_share(teachers / "seed-1"), right_share(teachers / "seed-2")) > 0.9


@pytest.mark.parametrize("form", ["prior", "targets"])
def test_students_of_right_branching_teachers_branch_to_the_right(
    teachers: Path, share_without_teachers: float, tmp_path: Path, form: str
) -> None:
    taught = [f'training.teacher=["{teachers}"]', f"training.teacher_form={form}", "training.teacher_weight=3"]
    student = make_tiny_run(tmp_path / "student", *STUDENT, *taught)
    assert right_share(student) > share_without_teachers + 0.2
    # What is kept are the teachers' mean marginals, in the order of the training sentences.
    folder = RunFolder(student)
    saved = folder.read_config()
    assert saved.training.teacher == tuple(str(teachers / f"seed-{k}") for k in (1, 2))
    assert folder.teacher.exists()
    assert load(student, "cpu").score(["the dog sees a cat"])[0] < 0  # an ordinary run


@pytest.mark.parametrize("kind", ["arithmetic", "geometric"])
def test_stored_marginals_are_the_mean_of_the_teachers(teachers: Path, tmp_path: Path, kind: str) -> None:
    sentences = [text for text in tiny_sentences(30, seed=8) if 2 <= len(text.split()) <= 30]
    chosen = config(f'training.teacher=["{teachers}"]', f"training.teacher_mean={kind}")
    train(chosen, tmp_path / "run", train_text=sentences, valid_text=sentences)
    folder = RunFolder(tmp_path / "run")
    tensors, record, *_ = read_tensor_file(folder.teacher)
    assert record["done"] == len(sentences)
    runs = [load(teachers / f"seed-{k}", "cpu") for k in (1, 2)]
    tokens = [item.tokens for item in runs[0].prepare(sentences)]
    identity = {key: value for key, value in record.items() if key != "done"}
    kept = TeacherMarginals.load(folder.teacher, list(map(len, tokens)), identity)
    tables = [run.span_marginals(tokens) for run in runs]
    for index, words in enumerate(tokens):
        stored = kept.of([index], len(words))
        one, other = tables[0][index], tables[1][index]
        mean = (one + other) / 2 if kind == "arithmetic" else ((one + 1e-3) * (other + 1e-3)).sqrt() - 1e-3
        torch.testing.assert_close(stored[0], mean, atol=1e-3, rtol=1e-3)
        (best,) = best_trees(stored)
        total = sum(float(stored[0, i, j]) for i, j in best)
        assert float(tensors["best"][index]) == pytest.approx(total, rel=1e-5)


CLASSES = ["data.unknown_classes=endings", "data.min_count=2", "data.tokenize=true", "data.lowercase=true"]
PREPARED = ["data.lowercase=false", "data.numbers=keep", "data.punctuation=keep"]  # of a text that has none


@pytest.mark.parametrize(("settings", "form"), [(CLASSES, "text"), (CLASSES, "trees"), (PREPARED, "text")])
def test_a_teacher_prepares_words_in_its_own_way(tmp_path: Path, settings: list[str], form: str) -> None:
    """Its marginals are its own of the sentence as it was written, punctuation, capitals and numbers included."""
    text = [*tiny_sentences(24), "the dog saw N cats", "it saw N cats"]
    learned = config(*settings, "data.separator_weight=1", "training.epochs=2")
    train(learned, tmp_path / "teacher", train_text=text, valid_text=text)
    sentences = ["The Dog , 1,200 cats saw it .", "a cat sees Xerxes , the dog .", "It isn’t 7 ."] * 2
    trees = [SpanTree.from_spans(text.split(), []) for text in sentences]
    given = sentences if form == "text" else trees
    chosen = config(f'training.teacher=["{tmp_path / "teacher"}"]', "data.lowercase=false", "data.numbers=keep")
    train(chosen, tmp_path / "run", train_text=given, valid_text=given)
    teacher = load(tmp_path / "teacher", "cpu")
    prepared = [teacher.preprocessing.apply(line.split()) for line in sentences]
    file = RunFolder(tmp_path / "run").teacher
    identity = {key: value for key, value in read_tensor_file(file).record.items() if key != "done"}
    stored = TeacherMarginals.load(file, [len(item.kept) for item in prepared], identity)
    for index, table in enumerate(span_marginals(teacher, prepared, None, separators=True)):
        torch.testing.assert_close(stored.of([index], len(table) - 1)[0].triu(2), table.triu(2), atol=1e-3, rtol=0)


@pytest.mark.parametrize("form", ["prior", "targets"])
def test_resuming_is_bit_identical(teachers: Path, tmp_path: Path, form: str) -> None:
    class StopAt(Reporter):
        def step(self, report: StepReport) -> None:
            if report.step == 5:
                os.kill(os.getpid(), signal.SIGINT)

    settings = [f'training.teacher=["{teachers}"]', f"training.teacher_form={form}", "training.teacher_steps=12"]
    chosen = config(*settings, "training.epochs=2")
    text = tmp_path / "text.txt"
    text.write_text("\n".join(tiny_sentences(80)) + "\n")
    chosen = chosen.model_copy(update={"data": chosen.data.model_copy(update={"train": str(text)})})
    train(chosen, tmp_path / "whole")
    with pytest.raises(Interrupted):
        train(chosen, tmp_path / "parts", reporter=StopAt())
    before = (tmp_path / "parts/teacher.safetensors").read_bytes()
    train(None, tmp_path / "parts", resume=True)
    assert (tmp_path / "parts/teacher.safetensors").read_bytes() == before
    assert (tmp_path / "parts/metrics.jsonl").read_bytes() == (tmp_path / "whole/metrics.jsonl").read_bytes()
    one, other = (load_run(tmp_path / name, "cpu").model.state_dict() for name in ("parts", "whole"))
    assert all(torch.equal(one[name], other[name]) for name in one)


def test_an_interrupted_computation_goes_on(teachers: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen = config(f'training.teacher=["{teachers}"]')
    text = tiny_sentences(60)
    blocks: list[int] = []
    compute = module.Teacher.span_marginals

    def counted(*arguments: object) -> list[torch.Tensor]:
        blocks.append(1)
        if len(blocks) == 4:
            raise KeyboardInterrupt
        return compute(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(module, "BLOCK", 16)
    monkeypatch.setattr(module, "SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(module, "SECONDS_BEFORE_THE_FIRST", 0.0)
    train(chosen, tmp_path / "whole", train_text=text, valid_text=text)
    monkeypatch.setattr(module.Teacher, "span_marginals", counted)
    with pytest.raises(KeyboardInterrupt):
        train(chosen, tmp_path / "run", train_text=text, valid_text=text)
    blocks[:] = [1] * 10
    train(None, tmp_path / "run", resume=True, train_text=text, valid_text=text)
    done = len(blocks) - 10
    sentences = len(read_tensor_file(tmp_path / "run/teacher.safetensors")[0]["best"])
    assert done == 2 * -(-(sentences - 16) // 16)  # the first block was kept
    whole, parts = (read_tensor_file(tmp_path / name / "teacher.safetensors")[0] for name in ("whole", "run"))
    assert all(torch.equal(whole[name], parts[name]) for name in whole)


def test_refusals(teachers: Path, tmp_path: Path) -> None:
    text = tiny_sentences(40)
    for settings, named in [
        ([f'training.teacher="{tmp_path / "none"}"'], "no such run folder"),
        ([f'training.teacher="{teachers}"', "data.punctuation=keep"], "make data.punctuation the same"),
        ([f'training.teacher="{teachers}"', "data.eos=true"], "make data.eos the same"),
    ]:
        with pytest.raises(InputError, match=named):
            train(config(*settings), tmp_path / "new", train_text=text)
        assert not (tmp_path / "new/config.toml").exists()
    small = ["model.states=8", "model.embedding=8", "training.device=cpu", f'training.teacher="{teachers}"']
    with pytest.raises(InputError, match=r"has no trees|other tokens"):
        train(load_config("hmm-4096", small, environment={}), tmp_path / "new", train_text=text)
