"""Old names of configuration keys are read with one line of advice, and removed keys are refused in one line."""

from pathlib import Path

import pytest

from simplepcfg.errors import InputError
from simplepcfg.runs.config.files import load_config, save_config
from simplepcfg.runs.config.keys import all_keys
from simplepcfg.runs.config.removed_keys import REMOVED
from simplepcfg.runs.config.renamed_keys import RENAMED

# Values that differ from the defaults and are allowed together.
VALUES = {
    "model.normalised": "true",
    "model.initial_scores": "2.0",
    "model.initial_emissions": "1.5",
    "model.own_tags": "0.5",
    "training.network_rate": "0.3",
    "training.average_decay": "0.9",
    "training.branching": "0.4",
    "training.branching_steps": "7",
}
NEEDED = ["model.rms_norm=true", "model.init_logit_std=2.0"]


def test_every_renamed_key_is_tried_and_leads_to_a_key() -> None:
    assert set(VALUES) == set(RENAMED)
    assert set(RENAMED.values()) <= {key.name for key in all_keys()}


@pytest.mark.parametrize("old", RENAMED)
def test_the_old_name_on_the_command_line_and_in_the_environment(old: str) -> None:
    new, value = RENAMED[old], VALUES[old]
    wanted = load_config("sn-pcfg", [*NEEDED, f"{new}={value}"], {})
    with pytest.warns(FutureWarning) as told:
        assert load_config("sn-pcfg", [*NEEDED, f"{old}={value}"], {}) == wanted
    assert [str(line.message) for line in told] == [f'override "{old}={value}": the key "{old}" is now "{new}"']
    variable = f"SIMPLEPCFG_{old.upper().replace('.', '__')}"
    with pytest.warns(FutureWarning, match=f'environment variable {variable}: the key "{old}" is now "{new}"'):
        assert load_config("sn-pcfg", [*NEEDED], {variable: value}).model_dump() is not None


@pytest.mark.parametrize("old", RENAMED)
def test_the_old_name_in_a_file(tmp_path: Path, old: str) -> None:
    new, value = RENAMED[old], VALUES[old]
    table, _, name = old.partition(".")
    path = tmp_path / "mine.toml"
    path.write_text(f"[{table}]\n{name} = {value}\n", encoding="utf-8")
    needed = [item for item in NEEDED if not item.startswith(new)]
    with pytest.warns(FutureWarning, match=f'{path}: the key "{old}" is now "{new}"'):
        found = load_config(path, needed, {})
    assert found == load_config(None, [*needed, f"{new}={value}"], {})


def test_both_names_at_once_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("[training]\nema_decay = 0.9\naverage_decay = 0.8\n", encoding="utf-8")
    with (
        pytest.warns(FutureWarning),
        pytest.raises(InputError, match=r'both "training\.ema_decay" and its old name "training\.average_decay"'),
    ):
        load_config(path, [], {})


def test_the_file_of_a_run_says_nothing(tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    """A run folder was written by the package itself; nobody edits it."""
    path = tmp_path / "config.toml"
    save_config(load_config("sn-pcfg", ["training.ema_decay=0.9"], {}), path)
    path.with_name("vocabulary.txt").write_text("", encoding="utf-8")
    path.write_text(path.read_text(encoding="utf-8").replace("ema_decay", "average_decay"), encoding="utf-8")
    assert load_config(path, [], {}).training.ema_decay == 0.9
    assert not list(recwarn)


@pytest.mark.parametrize("key", REMOVED)
def test_a_removed_key_is_refused_where_it_was_given(tmp_path: Path, key: str) -> None:
    with pytest.raises(InputError, match=rf'^override "{key}=2": the key "{key}" is gone: .*; leave it out$'):
        load_config("sn-pcfg", [f"{key}=2"], {})
    variable = f"SIMPLEPCFG_{key.upper().replace('.', '__')}"
    with pytest.raises(
        InputError, match=rf'^environment variable {variable}: the key "{key}" is gone: .*; leave it out$'
    ):
        load_config("sn-pcfg", [], {variable: "2"})
    table, _, name = key.partition(".")
    with pytest.raises(InputError, match=rf'^override "{table}=.*": the key "{key}" is gone: .*; leave it out$'):
        load_config("sn-pcfg", [f"{table}={{{name}=2}}"], {})
    path = tmp_path / "mine.toml"
    path.write_text(f"[{table}]\n{name} = 2\n", encoding="utf-8")
    with pytest.raises(InputError, match=rf'^{path}: the key "{key}" is gone: .* must be trained again$'):
        load_config(path, [], {})
