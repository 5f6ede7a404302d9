"""Configuration classes of a run: data, model and training. The reference page of keys is generated from them."""

from typing import Annotated, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

from simplepcfg.data.preprocessing import Preprocessing
from simplepcfg.models import KINDS, ModelConfig, SimpleNPCFGConfig

Precision = Literal["auto", "fp32", "tf32", "bf16"]
# Larger counts are mistakes and overflow in torch.
LIMIT = 2**31
MAX_THREADS = 1024  # With far more, the thread library ends the process.


class DataConfig(Preprocessing):
    """The text of a run and how it is split into words."""

    train: str | None = Field(
        default=None, description="Training file: one sentence a line, or bracketed trees; `.gz` is read too."
    )
    valid: str | None = Field(
        default=None,
        description="Validation file, from which the best epoch is chosen. Without one, a seeded 5 % of the "
        "training sentences is held out.",
    )
    raw: bool = Field(
        default=False,
        description="Files of text are raw: paragraphs, folded or one a line, which are split into sentences and "
        "words. Needs data.tokenize.",
    )
    vocabulary_size: int = Field(
        default=10_000, ge=0, lt=LIMIT, description="The most frequent training words that are kept; 0 keeps all."
    )
    min_count: int = Field(default=1, ge=1, lt=LIMIT, description="A word seen less often than this becomes `<unk>`.")
    unknown_classes: Literal["none", "signature"] = Field(
        default="none",
        description="`signature` gives words outside the vocabulary a class each by capital, digit, hyphen and English "
        "ending, such as `<unk-ing>`, instead of `<unk>` for all. Perplexities with and without are not comparable.",
    )
    max_length: int = Field(
        default=40,
        ge=0,
        lt=LIMIT,
        description="Longer training sentences are left out (validation is never cut); 0 keeps all.",
    )

    @model_validator(mode="after")
    def _raw_text_is_tokenized(self) -> "DataConfig":
        if self.raw and not self.tokenize:
            raise ValueError("data.raw = true needs data.tokenize = true; set both")
        return self

    @property
    def preprocessing(self) -> Preprocessing:
        """The settings that also apply to new text after training."""
        return Preprocessing(**{name: getattr(self, name) for name in Preprocessing.model_fields})


class TrainingConfig(BaseModel):
    """Optimisation, regularisation, precision and checkpoints."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    epochs: int = Field(default=30, ge=1, lt=LIMIT, description="Passes over the training text, at most.")
    patience: int = Field(
        default=5,
        ge=0,
        lt=LIMIT,
        description="Stop after this many epochs without a better validation likelihood; 0 never does.",
    )
    max_minutes: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Begin no further epoch after this many minutes of training; 0 sets no limit. The best epoch so "
        "far is kept, and a resumed run counts the minutes before.",
    )
    batch_size: int = Field(default=16, ge=1, lt=LIMIT, description="Sentences a step.")
    learning_rate: float = Field(
        default=0.002, gt=0, allow_inf_nan=False, description="Adam's step size at its highest."
    )
    network_lr_multiplier: float = Field(
        default=1.0,
        gt=0,
        allow_inf_nan=False,
        description="Multiplier of the learning rate for the weights of the networks; embeddings and a compound "
        "model's encoder have the full rate. Large grammars need 0.1, since the updates of consecutive layers "
        "multiply, unless model.rms_norm is true; with model.dedicated_preterminals and embeddings of 512 they need "
        "0.3 even then.",
    )
    betas: tuple[float, float] = Field(
        default=(0.75, 0.999),
        description="Adam's decay rates of the first and the second moment, each in [0, 1).",
    )
    schedule: Literal["constant", "linear", "plateau"] = Field(
        default="constant",
        description="`linear` lets the learning rate fall to 0 over all epochs. `plateau` multiplies it by "
        "training.plateau_factor whenever validation has not become better for training.plateau_epochs.",
    )
    plateau_epochs: int = Field(
        default=3, ge=1, lt=LIMIT, description="Epochs without a gain after which `plateau` lowers the rate."
    )
    plateau_factor: float = Field(
        default=0.5, gt=0, lt=1, description="What `plateau` multiplies the learning rate by each time."
    )
    warmup_steps: int = Field(
        default=0,
        ge=0,
        lt=LIMIT,
        description="Steps over which the learning rate rises from 0; 0 starts at full rate.",
    )
    clip: float = Field(
        default=3.0, ge=0, allow_inf_nan=False, description="Largest gradient norm of a step; 0 does not clip."
    )
    weight_decay: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Share of each weight, times the learning rate, by which a step shrinks it, as in AdamW.",
    )
    weight_decay_per_epoch: float = Field(
        default=0.0,
        ge=0,
        allow_inf_nan=False,
        description="Weight decay that fits every amount of text: training.weight_decay becomes this divided by the "
        "learning rate and by the steps of an epoch. With 1, weights shrink to 1 / e within an epoch at the full rate "
        "where no gradient keeps them, but in no fewer than 1,250 steps, several epochs of a short text. 0 takes "
        "training.weight_decay as it is.",
    )
    start_from: str | None = Field(
        default=None,
        description="A run folder whose best weights this run begins with. It may have fewer symbols: if there are m "
        "times as many here, N and P alike, each is split into m. Vocabulary and other sizes must be the same.",
    )
    start_noise: float = Field(
        default=0.1,
        ge=0,
        allow_inf_nan=False,
        description="Standard deviation of the noise that is added to the copies of a split symbol, relative to that "
        "of the embeddings.",
    )
    word_neighbours: float = Field(
        default=0.0,
        ge=0,
        le=1,
        description="Initialise word embeddings from each word's neighbours in the training text: words with the same "
        "neighbours then have similar embeddings, which removes the plateau at the beginning of training. 0 draws "
        "embeddings at random, 1 uses the neighbours alone. Has no effect where training.start_from is set.",
    )
    state_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the symbols (nonterminals and preterminals each, or states) that every step leaves out, "
        "drawn anew for each; the rules of the others are normalised without them. It regularises, and the step is "
        "cheaper. Training perplexities are then those of grammars without the dropped symbols.",
    )
    embedding_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the numbers in the embeddings of symbols and words that every step sets to 0.",
    )
    feature_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the kernel features of an LHMM that every step leaves out, drawn anew for each.",
    )
    logit_dropout: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Share of the single logits in both factors of a Rank HMM's transitions that every step sets to "
        "−∞, drawn anew for each; with the authors' networks, of the numbers of its start embeddings as well.",
    )
    branching_bias: float = Field(
        default=0.0,
        ge=-100,
        le=100,
        description="Branching bias of the first steps: the log-weight of every span of a tree that ends the sentence "
        "(if negative, its absolute value is that of every span that begins the sentence). 0.4 leads to "
        "right-branching trees, as English has; with 0 chance decides between left and right.",
    )
    branching_bias_steps: int = Field(
        default=600,
        ge=0,
        description="Number of steps with the branching bias, where training.branching_bias is not 0. Their perplexity "
        "is an upper bound.",
    )
    teacher: tuple[str, ...] = Field(
        default=(),
        description="Run folders (or folders of runs) whose span marginals this run learns from, on average; their "
        "preprocessing must be the same. They are computed once and kept in `teacher.safetensors`.",
    )
    teacher_form: Literal["prior", "targets"] = Field(
        default="prior",
        description="`prior`: every span of a tree counts for exp of training.teacher_weight times the teachers' "
        "marginal of it. `targets`: the loss has training.teacher_weight times the divergence of the model's span "
        "marginals from the teachers', summed over spans, which takes more time and memory; on a GPU such steps are "
        "not captured as CUDA graphs.",
    )
    teacher_weight: float = Field(
        default=1.0, ge=0, le=100, description="How much the teachers count at the first step."
    )
    teacher_steps: int = Field(
        default=0,
        ge=0,
        lt=LIMIT,
        description="Steps over which training.teacher_weight falls to 0, in equal parts; 0 keeps it to the end. The "
        "perplexity of training text is an upper bound until then.",
    )
    ema_decay: float = Field(
        default=0.0,
        ge=0,
        lt=1,
        description="Decay of an exponential moving average (EMA) of the weights, which is validated and saved as the "
        "model: 0.999 averages about the last thousand steps; 0 uses the weights themselves.",
    )
    curriculum_start: int = Field(
        default=0,
        ge=0,
        lt=LIMIT,
        description="Longest training sentence of the first epoch; longer ones wait. 0 trains on all from the start.",
    )
    curriculum_growth: int = Field(
        default=1, ge=0, lt=LIMIT, description="Words by which that length grows each epoch, where there is a start."
    )
    precision: Precision = Field(
        default="auto",
        description="Arithmetic of training. `auto`: bf16 on a GPU, fp32 on a CPU. Validation has fp32 rules; "
        "on a GPU it multiplies with them in TF32 unless this is fp32, the model is compound or its rules are dense. "
        "Everything else that a trained model computes has fp32 accuracy. "
        "On a CPU bf16 rounds the operands of networks, rules and emissions; the inside algorithm stays fp32 there.",
    )
    device: str = Field(default="auto", description="`auto` (a CUDA GPU if there is one), `cpu`, `cuda` or `cuda:1`.")
    threads: int = Field(
        default=0,
        ge=0,
        le=MAX_THREADS,
        description="CPU threads; 0 leaves the choice to torch. Bit-for-bit repeats need the same number.",
    )
    checkpoint_minutes: float = Field(
        default=10.0,
        ge=0,
        allow_inf_nan=False,
        description="A checkpoint at least this often, besides one an epoch; 0 writes none by the clock.",
    )
    checkpoint_steps: int = Field(
        default=0,
        ge=0,
        lt=LIMIT,
        description="A checkpoint every so many steps, besides one an epoch; 0 writes none by steps.",
    )
    log_every: int = Field(default=100, ge=1, lt=LIMIT, description="Steps between two lines of metrics.jsonl.")
    captured_shapes: int = Field(
        default=96,
        ge=0,
        lt=LIMIT,
        description="On a GPU: largest number of batch shapes (sentences, length) whose steps are captured as CUDA "
        "graphs, so that a step is one launch; 0 captures none.",
    )
    stop_at_skipped: bool = Field(
        default=False,
        description="End the run, with exit code 3, at the first step without a finite loss and gradient. Otherwise "
        "it is skipped, and twenty in a row end the run. Its sentences are written to `skipped.jsonl` either way.",
    )
    check_identity: bool = Field(
        default=False,
        description="With every line of metrics, compute `rule_count_ratio` of the last batch by one more pass: its "
        "expected rule counts over the 3n − 1 of each sentence (2n for dense grammars), which is 1 if the inside "
        "algorithm is exact. Hidden Markov models have none.",
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

    name: str = Field(default="run", description="What the run is called in reports.")
    seed: int = Field(
        default=0,
        ge=0,
        lt=2**63,
        description="The one source of every random draw: weights, batch order, held-out sentences.",
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
