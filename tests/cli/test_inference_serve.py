"""What `serve` opens: a SavedModel, and the signatures of a run."""

import pytest
from commands import check_refused

from keras_transformer import serving
from keras_transformer.inference.saved_model import SavedModelTranslator


@pytest.fixture
def served(monkeypatch):
    found = []
    monkeypatch.setattr(serving, "serve", lambda *given: found.append(given))
    return found


def test_a_saved_model_has_the_name_above_its_version(
    run_cli, served, exported
):
    assert run_cli("serve", exported, "--port", 0).code == 0
    assert run_cli("serve", exported.parent, "--port", 0).code == 0
    for translator, name, _, max_characters, signatures in served:
        assert isinstance(translator, SavedModelTranslator)
        assert (name, translator.version) == ("en-de", 1)
        assert max_characters == 2000 and not signatures


@pytest.mark.parametrize(
    "flags",
    [
        "--beam-size 2",
        "--n-best 99",
        "--dtype float16",
        "--checkpoint best",
        "x",
    ],
)
def test_a_saved_model_is_as_it_was_exported(run_cli, served, exported, flags):
    result = run_cli("serve", exported, *flags.split(), "--port", 0)
    check_refused(result, "exported", flags.split()[0])
    assert not served


def test_a_run_has_the_signatures_of_its_export(run_cli, served, trained):
    assert run_cli("serve", trained.run, "--port", 0).code == 0
    ((translator, *_, found),) = served
    assert translator.example == "the cat number 0 sleeps"
    run, checkpoint = translator.checkpoints[0]
    assert run.metadata(checkpoint)["example"] == translator.example
    assert "sample" in found and "tokenize" in found
    assert list(found["score"].inputs) == ["text", "translation"]
