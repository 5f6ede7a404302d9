"""Configuration classes of a run: data, model and training. The reference page of keys is generated from them."""

from typing import Annotated, Literal, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.models import KINDS, ModelConfig, SimpleNPCFGConfig

Precision = Literal["auto", "fp32", "tf32", "bf16"]
# Larger counts are mistakes and overflow in torch.
LIMIT = 2**31
MAX_THREADS = 1024  # With far more, the thread library ends the process.
Count = Annotated[int, Field(ge=0, lt=LIMIT)]
Positive = Annotated[int, Field(ge=1, lt=LIMIT)]
Share = Annotated[float, Field(ge=0, lt=1)]
Weight = Annotated[float, Field(ge=0, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, le=1)]
LogWeight = Annotated[float, Field(ge=0, le=100)]
Default = TypeVar("Default")


def key(default: Default, description: str) -> Default:
    """Return the field of a key with its default and what the reference page says of it."""
    field: Default = Field(default, description=description)
    return field


class DataConfig(Preprocessing):
    """The text of a run and how it is split into words."""

    train: str | tuple[str, ...] | None = key(
        None,
        "Training file, folder or pattern, or a list of these: one sentence a line, or bracketed trees; `.gz` is read "
        "too.",
    )
    valid: str | None = key(
        None, "Validation file, which chooses the best epoch; without one, a seeded 5 % of the training text."
    )
    raw: bool = key(False, "Text files are raw paragraphs, to be split into sentences and words. Needs data.tokenize.")
    vocabulary_size: Count = key(10_000, "Number of most frequent training words to keep; 0 keeps all.")
    min_count: Count = key(
        0,
        "Rarer words become `<unk>`. 0: words seen once do if otherwise no word would, up to a tenth of the text, so "
        "that unknown words are learned.",
    )
    unknown_classes: Literal["none", "endings"] = key(
        "none",
        "`endings` gives unknown words classes by capital, digit, hyphen and endings that rare words of the training "
        "text have, such as `<unk:cap:-ung>`. Perplexities are not comparable.",
    )
    max_length: Count = key(40, "Longer training sentences are left out; 0 keeps all. Validation is never cut.")
    separator_weight: LogWeight = key(
        0.0,
        "When trees are chosen, log-weight that a span loses if it crosses a comma, bracket or other separator that "
        "was dropped; also for the trees of a teacher. Probabilities and the most probable trees are not affected.",
    )
    branching_bonus: Fraction = key(
        0.0,
        "When trees are chosen, what is added to the marginal of every span that ends the sentence: a preference of "
        "trees that branch to the right. Ensembles and the most probable trees take no notice of it.",
    )

    @model_validator(mode="after")
    def _raw_text_is_tokenized(self) -> "DataConfig":
        if self.raw and not self.tokenize:
            raise ValueError("data.raw = true needs data.tokenize = true; set both")
        return self

    @property
    def preprocessing(self) -> Preprocessing:
        """The settings that also apply to new text after training.

        With learned classes of unknown words the case of words is kept: the vocabulary looks them up without it.
        """
        settings = {name: getattr(self, name) for name in Preprocessing.model_fields}
        return Preprocessing(**settings | {"lowercase": self.lowercase and self.unknown_classes != "endings"})


class TrainingConfig(BaseModel):
    """Optimisation, regularisation, precision and checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: Positive = key(30, "Passes over the training text, at most.")
    patience: Count = key(5, "Stop after so many epochs without a better validation likelihood; 0: never.")
    max_minutes: Weight = key(
        0.0, "Begin no epoch after so many minutes, earlier parts of a resumed run included; 0: no limit."
    )
    batch_size: Positive = key(16, "Sentences a step.")
    learning_rate: Rate = key(0.002, "Adam's highest step size.")
    network_lr_multiplier: Rate = key(
        1.0, "Learning-rate multiplier of the networks; embeddings and a compound model's encoder have the full rate."
    )
    betas: tuple[float, float] = key((0.75, 0.999), "Adam's decay rates of the two moments, each in [0, 1).")
    schedule: Literal["constant", "linear", "plateau"] = key(
        "constant",
        "`linear`: the learning rate falls to 0 over all epochs. `plateau`: it is multiplied by "
        "training.plateau_factor after training.plateau_epochs without a better validation.",
    )
    plateau_epochs: Positive = key(3, "Epochs after which `plateau` lowers the rate.")
    plateau_factor: Annotated[float, Field(gt=0, lt=1)] = key(0.5, "Factor of `plateau`.")
    warmup_steps: Count = key(0, "Steps over which the learning rate rises from 0.")
    clip: Weight = key(3.0, "Largest gradient norm; 0 does not clip.")
    weight_decay: Weight = key(0.0, "Decoupled weight decay, as in AdamW.")
    weight_decay_per_epoch: Weight = key(
        0.0,
        "Sets training.weight_decay to this divided by the learning rate and by the steps of an epoch, at least "
        "1,250: with 1, weights without gradients shrink to 1 / e in an epoch. 0 takes training.weight_decay.",
    )
    start_from: str | None = key(
        None,
        "A run folder whose best weights this run begins with. Vocabulary and sizes must be the same, except that N "
        "and P may both be m times as large here: each symbol is then split into m.",
    )
    start_noise: Weight = key(
        0.1, "Standard deviation of the noise of split symbols, relative to that of the embeddings."
    )
    word_neighbours: Fraction = key(
        0.0,
        "Initialise word embeddings from each word's neighbours in the training text: 0 at random, 1 by neighbours "
        "alone. No effect with training.start_from.",
    )
    state_dropout: Share = key(
        0.0,
        "Share of the symbols (nonterminals and preterminals each, or states) that every step leaves out. Training "
        "perplexities are those of the smaller grammars.",
    )
    embedding_dropout: Share = key(0.0, "Dropout rate of the embeddings of symbols and words.")
    feature_dropout: Share = key(0.0, "Dropout rate of the kernel features of an LHMM.")
    logit_dropout: Share = key(
        0.0,
        "Share of the logits in both factors of a Rank HMM's transitions that every step sets to −∞; with the "
        "authors' networks, of its start embeddings as well.",
    )
    branching_bias: Annotated[float, Field(ge=-100, le=100)] = key(
        0.0,
        "Branching bias of the first steps: log-weight of every span that ends the sentence (if negative, its "
        "absolute value, of every span that begins it). 0.4 leads to right-branching trees, as in English; with 0 "
        "chance decides.",
    )
    branching_bias_words: Annotated[int, Field(ge=2, lt=LIMIT)] = key(
        2, "Number of words of the shortest span to which the branching bias applies."
    )
    pair_bias: LogWeight = key(
        0.0, "Log-weight of every span of two words in the first steps, so that short phrases form first."
    )
    branching_bias_steps: Annotated[int, Field(ge=0)] = key(
        600, "Steps with the branching bias and the pair bias. Their perplexity is an upper bound."
    )
    punctuation_weight: LogWeight = key(
        0.0,
        "How much less a span counts in training, as a log-weight, that has a dropped comma, bracket or other "
        "separator inside and neither begins nor ends at one. Training perplexity is an upper bound with it.",
    )
    teacher: tuple[str, ...] = key(
        (),
        "Run folders (or folders of runs) with the same data.punctuation and data.eos, from whose mean span marginals "
        "this run learns; kept in `teacher.safetensors`.",
    )
    teacher_form: Literal["prior", "targets"] = key(
        "prior",
        "`prior`: training.teacher_weight times the teachers' marginal is a span's log-weight. `targets`: the loss "
        "has training.teacher_weight times the divergence of the model's span marginals from the teachers', which "
        "takes more time and memory.",
    )
    teacher_mean: Literal["arithmetic", "geometric"] = key(
        "arithmetic",
        "Mean of the marginals of several teachers; the geometric one (of each plus 0.001) trusts only spans that all "
        "of them expect.",
    )
    teacher_weight: LogWeight = key(1.0, "Weight of the teachers at the first step.")
    teacher_steps: Count = key(
        0,
        "Steps over which training.teacher_weight falls linearly to 0; 0 keeps it. Training perplexity is an upper "
        "bound until then.",
    )
    ema_decay: Share = key(
        0.0,
        "Decay of an exponential moving average (EMA) of the weights, which becomes the model: 0.999 averages about a "
        "thousand steps; 0: none.",
    )
    curriculum_start: Count = key(0, "Longest training sentence of the first epoch; 0 trains on all.")
    curriculum_growth: Count = key(1, "Words by which that length grows each epoch.")
    precision: Precision = key(
        "auto",
        "Arithmetic of training. `auto`: bf16 on a GPU, fp32 on a CPU, where bf16 only rounds the operands of "
        "networks, rules and emissions. Validation has fp32 rules, multiplied in TF32 on a GPU unless this is fp32, "
        "the model is compound or its rules are dense.",
    )
    device: str = key("auto", "`auto` (a CUDA GPU if there is one), `cpu`, `cuda` or `cuda:1`.")
    threads: Annotated[int, Field(ge=0, le=MAX_THREADS)] = key(
        0, "CPU threads; 0: torch's choice. Bit-for-bit repeats need the same number."
    )
    mesh: tuple[Positive, ...] = key(
        (),
        "How the processes of torchrun are arranged: `[2, 4]` divides every batch in 2 and the grammar in 4; by "
        "default each process has the whole grammar.",
    )
    timeout_minutes: Rate = key(30.0, "Minutes after which a process that waits for another one ends the run.")
    checkpoint_minutes: Weight = key(10.0, "Minutes between checkpoints, besides one an epoch; 0: none.")
    checkpoint_steps: Count = key(0, "Steps between checkpoints, besides one an epoch; 0: none.")
    log_every: Positive = key(100, "Steps between two lines of metrics.jsonl.")
    captured_shapes: Count = key(
        96, "Largest number of batch shapes whose steps are captured as CUDA graphs on a GPU; 0: none."
    )
    stop_at_skipped: bool = key(
        False,
        "End the run, with exit code 3, at the first step without a finite loss and gradient, instead of skipping it "
        "(twenty in a row always end the run).",
    )
    check_identity: bool = key(
        False,
        "Add `rule_count_ratio` to every line of metrics, by one more pass: 1 if the inside algorithm is exact. Not "
        "for hidden Markov models.",
    )

    @field_validator("teacher", mode="before")
    @classmethod
    def _one_teacher(cls, value: object) -> object:
        return (value,) if isinstance(value, str) else value

    @model_validator(mode="after")
    def _betas_below_one(self) -> "TrainingConfig":
        if not all(0 <= beta < 1 for beta in self.betas):
            raise ValueError(f"training.betas = {list(self.betas)}; each must be at least 0 and below 1")
        return self

    @field_validator("mesh")
    @classmethod
    def _mesh_has_two_sides(cls, mesh: tuple[int, ...]) -> tuple[int, ...]:
        if len(mesh) not in (0, 2):
            raise ValueError(f"training.mesh = {list(mesh)}; give two numbers, of data and of grammar")
        return mesh

    @model_validator(mode="after")
    def _one_weight_decay(self) -> "TrainingConfig":
        if self.weight_decay and self.weight_decay_per_epoch:
            raise ValueError(
                f"training.weight_decay = {self.weight_decay:g} and training.weight_decay_per_epoch = "
                f"{self.weight_decay_per_epoch:g}; set one of them to 0"
            )
        return self


def _with_kind(model: object) -> object:
    """Add the default kind, SN-PCFG, to a table without one; raise ValueError for an unknown kind."""
    if not isinstance(model, dict):
        return model
    model = {"kind": SimpleNPCFGConfig.kind, **model}
    if model["kind"] not in list(KINDS):
        raise ValueError(f'model.kind = "{model["kind"]}"; take one of {", ".join(sorted(KINDS))}')
    return model


class RunConfig(BaseModel):
    """Configuration of a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str = key("run", "Name in reports.")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = key(
        0, "Source of every random draw: weights, batch order, held-out sentences."
    )
    data: DataConfig = Field(default_factory=DataConfig, description="The text.")
    model: Annotated[ModelConfig, Field(discriminator="kind"), BeforeValidator(_with_kind)] = Field(
        default_factory=SimpleNPCFGConfig, description="The grammar."
    )
    training: TrainingConfig = Field(default_factory=TrainingConfig, description="Training.")

    @model_validator(mode="after")
    def _sentences_end(self) -> "RunConfig":
        if getattr(self.model, "needs_eos", False) and not self.data.eos:
            raise ValueError(
                f"data.eos = false; a model of kind {self.model.kind} ends sentences by the word <eos> alone, set "
                "data.eos = true"
            )
        return self
