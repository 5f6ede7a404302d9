"""Configurations: files, built-in names, overrides, the environment, and the one line for each mistake."""

from pathlib import Path

import pytest

from configuration_page import INHERITED, config_reference
from simplepcfg import __version__
from simplepcfg.errors import InputError
from simplepcfg.models import KINDS
from simplepcfg.runs.config.files import builtin_configs, load_config, parse_value, save_config
from simplepcfg.runs.config.keys import all_keys, nearest_key
from simplepcfg.runs.config.schema import RunConfig


def write(path: Path, text: str) -> Path:
    path.write_text(text, "utf-8")
    return path


@pytest.mark.parametrize("name", builtin_configs())
def test_builtin_configs_load(name: str) -> None:
    config = load_config(name, environment={})
    assert config.name == name
    if hasattr(config.model, "preterminals"):
        # Twice as many, as the papers have it; or one for each nonterminal, where each has a preterminal of its own or,
        # to compare with that, short phrases are preferred at first.
        dedicated = getattr(config.model, "dedicated_preterminals", 0)
        ratios = (1, 2) if dedicated or config.training.pair_bias else (2,)
        assert config.model.preterminals in [ratio * config.model.nonterminals for ratio in ratios]


def test_paper_recipe() -> None:
    config = load_config("sn-pcfg-4096-paper", environment={})
    training = config.training
    assert (training.betas, training.learning_rate, training.clip) == ((0.75, 0.999), 0.002, 3.0)
    assert (training.batch_size, training.epochs, training.patience) == (16, 30, 5)
    assert (config.model.nonterminals, config.model.embedding, config.data.eos) == (4096, 512, False)
    assert config.model.networks == load_config("sn-pcfg-paper", environment={}).model.networks == "released"


def test_command_line_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path / "a.toml", "[training]\nepochs = 2\nbatch_size = 3\npatience = 4\n")
    environment = {"SIMPLEPCFG_TRAINING__EPOCHS": "7", "SIMPLEPCFG_TRAINING__BATCH_SIZE": "8", "OTHER": "1"}
    training = load_config(file, ["training.epochs=9"], environment).training
    assert (training.epochs, training.batch_size, training.patience, training.log_every) == (9, 8, 4, 100)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("3", 3),
        ("0.5", 0.5),
        ("true", True),
        ("[1, 2]", [1, 2]),
        ('"a b"', "a b"),
        ("linear", "linear"),
        ("data/x.txt", "data/x.txt"),
        ("", ""),
    ],
)
def test_override_values(text: str, value: object) -> None:
    assert parse_value(text) == value


@pytest.mark.parametrize(
    ("text", "overrides", "message"),
    [
        (
            "[training]\nepoch = 3\n",
            [],
            'a.toml:2: unknown key "training.epoch"; did you mean "training.epochs"?',
        ),
        ("epochs = 3\n", [], 'a.toml:1: unknown key "epochs"; did you mean "training.epochs"?'),
        ("[modle]\nnonterminals = 3\n", [], 'a.toml:1: unknown key "modle"; did you mean "model"?'),
        ("", ["traning.epochs=3"], 'unknown key "traning"; did you mean "training"?'),
        (
            "[model]\nnonterminal = 3\n",
            [],
            'a.toml:2: unknown key "model.nonterminal"; did you mean "model.nonterminals"?',
        ),
        (
            "",
            ["training.epcohs=3"],
            'override "training.epcohs=3": unknown key "training.epcohs"; did you mean "training.epochs"?',
        ),
        (
            "[training]\nepochs = 'many'\n",
            [],
            "a.toml:2: training.epochs = 'many': input should be a valid integer",
        ),
        (
            "[training]\nepochs = 0\n",
            [],
            "a.toml:2: training.epochs = 0: input should be greater than or equal to 1",
        ),
        ("[training]\nbetas = [0.5, 1.0]\n", [], "a.toml:2: training.betas = [0.5, 1.0]; each must be"),
        ("[model]\nnonterminals = 0\n", [], "a.toml:2: model.nonterminals = 0; it must be at least 1"),
        ("[training]\nepochs = \n", [], "a.toml:2: not valid TOML: Invalid value"),
        ("[training\n", [], "a.toml:1: not valid TOML"),
        (
            "training = 3\n",
            ["training.epochs=3"],
            'override "training.epochs=3": "training" is a single value',
        ),
        ("", ["training.epochs"], 'override "training.epochs" is not of the form key=value'),
        (
            "seed = 1\n",
            ["training.inner.deep=3"],
            'override "training.inner.deep=3": unknown key "training.inner"',
        ),
        ("", ['training={epochs="x"}'], 'override "training={epochs="x"}": training.epochs = \'x\''),
        (
            "",
            ["training.threads=99999999999"],
            "training.threads = 99999999999: input should be less than or equal to 1024",
        ),
        ("", [f"training.batch_size={10**21}"], "input should be less than 2147483648"),
        ("", [f"training.epochs={10**21}"], "input should be less than 2147483648"),
        ("", [f"data.max_length={10**21}"], "input should be less than 2147483648"),
        ("", [f"model.embedding={10**21}"], f"model.embedding = {10**21}; it must be below 16777216"),
        ("", ["model.init_logit_std=inf"], "model.init_logit_std = inf; it must be finite"),
        ("", ["training.learning_rate=inf"], "training.learning_rate = inf: input should be a finite number"),
        ("", ["training.clip=inf"], "training.clip = inf: input should be a finite number"),
        ("", ["training.checkpoint_minutes=inf"], "training.checkpoint_minutes = inf: input should be a finite number"),
    ],
)
def test_mistakes_are_one_line(tmp_path: Path, text: str, overrides: list[str], message: str) -> None:
    file = write(tmp_path / "a.toml", text)
    with pytest.raises(InputError) as caught:
        load_config(file, overrides, environment={})
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        ("SIMPLEPCFG_TRAINING_EPOCHS", "names no key; did you mean SIMPLEPCFG_TRAINING__EPOCHS?"),
        ("SIMPLEPCFG_training__epochs", "names no key; did you mean SIMPLEPCFG_TRAINING__EPOCHS?"),
        ("SIMPLEPCFG_SEEDS", "names no key; did you mean SIMPLEPCFG_SEED?"),
        ("SIMPLEPCFG_FOO", "names no key; write SIMPLEPCFG_TABLE__KEY, such as SIMPLEPCFG_TRAINING__EPOCHS"),
        ("SIMPLEPCFG_", "names no key"),
        ("SIMPLEPCFG_TRAINING__EPCOHS", 'unknown key "training.epcohs"; did you mean "training.epochs"?'),
    ],
)
def test_unknown_variables_are_refused(variable: str, message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(environment={variable: "3"})
    assert f"environment variable {variable}" in str(caught.value)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("source", "overrides", "message"),
    [
        (
            "sn-pcfg-small",
            ["model.kind=hmm", "model.states=12", "data.eos=true"],
            (
                'override "model.kind=hmm": a model of kind hmm has no key "model.nonterminals", '
                "which built-in configuration sn-pcfg-small sets; configurations of this kind: hmm-4096"
            ),
        ),
        (
            "hmm-4096",
            ["model.nonterminals=8"],
            (
                'override "model.nonterminals=8": a model of kind hmm has no key "model.nonterminals"; '
                "kinds that have it: sn-pcfg, sc-pcfg"
            ),
        ),
        ("hmm-4096", ["model.nonsense=8"], 'override "model.nonsense=8": unknown key "model.nonsense"'),
    ],
)
def test_keys_of_another_kind_of_model(source: str, overrides: list[str], message: str) -> None:
    with pytest.raises(InputError) as caught:
        load_config(source, overrides, environment={})
    assert str(caught.value).startswith(message)


def test_a_run_of_a_newer_version_says_so(tmp_path: Path) -> None:
    file = write(tmp_path / "config.toml", "[training]\nfuture = 3\n")
    write(tmp_path / "run.json", '{"simplepcfg": "99.0.1"}')
    with pytest.raises(InputError, match=f"written by simplepcfg 99.0.1, this is {__version__}: upgrade"):
        load_config(file, environment={})
    write(tmp_path / "run.json", '{"simplepcfg": "0.0.1"}')
    with pytest.raises(InputError, match=r'unknown key "training\.future"$'):
        load_config(file, environment={})


def test_mistake_in_the_environment_names_the_variable() -> None:
    with pytest.raises(InputError, match=r"variable SIMPLEPCFG_TRAINING__EPOCHS: training\.epochs"):
        load_config(environment={"SIMPLEPCFG_TRAINING__EPOCHS": "x"})


def test_unknown_source() -> None:
    with pytest.raises(InputError, match='did you mean "sn-pcfg-small"'):
        load_config("sn-pcfg-smal")
    with pytest.raises(InputError, match=r"nowhere\.toml: cannot be read"):
        load_config("nowhere.toml")


def test_not_utf8(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"seed = 1\nname = '\xff'\n")
    with pytest.raises(InputError, match=r"a\.toml:2: not UTF-8"):
        load_config(tmp_path / "a.toml")


def test_a_byte_order_mark_is_no_part_of_the_text(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_bytes(b"\xef\xbb\xbfseed = 7\r\n")
    assert load_config(tmp_path / "a.toml").seed == 7


def test_saved_config_reads_back_equal(tmp_path: Path) -> None:
    config = load_config("demo", ["seed=5", 'data.train="x y.txt"', "training.betas=[0.5, 0.9]"], {})
    save_config(config, tmp_path / "config.toml")
    assert load_config(tmp_path / "config.toml", environment={}) == config


def test_configs_are_frozen() -> None:
    with pytest.raises(ValueError, match="frozen"):
        RunConfig().seed = 3  # type: ignore[misc]


def test_nearest_key_gives_up_on_nonsense() -> None:
    assert nearest_key("zzzzzzzz") is None
    assert nearest_key("training.future") is None
    assert nearest_key("trainin.epochs") == "training.epochs"


def test_reference_describes_every_key() -> None:
    page = config_reference()
    for key in all_keys():
        assert f"| `{key.name}` |" in page
        assert key.description or INHERITED[key.name]


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["model.kind=foo"], r'model\.kind = "foo"; take one of .*hmm, .*sn-pcfg'),
        (["model.kind=[1]"], r'model\.kind = "\[1\]"; take one of'),
        (["model.states=3"], r'sn-pcfg has no key "model\.states"; kinds that have it: hmm, lhmm, rank-hmm$'),
        (
            ["model.kind=hmm", "data.eos=true", "model.state=3"],
            r'unknown key "model\.state"; did you mean "model\.states"',
        ),
        (
            ["model.kind=hmm", "data.eos=true", "model.states=0"],
            r'^override "model\.states=0": model\.states = 0; it must',
        ),
    ],
)
def test_kinds_of_models_have_keys_of_their_own(overrides: list[str], message: str) -> None:
    with pytest.raises(InputError, match=message) as caught:
        load_config(None, overrides, environment={})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_written_and_read_back(kind: str, tmp_path: Path) -> None:
    config = load_config(None, [f"model.kind={kind}", "data.eos=true"], environment={})
    assert type(config.model) is KINDS[kind]
    save_config(config, tmp_path / "a.toml")
    assert load_config(tmp_path / "a.toml", environment={}) == config
