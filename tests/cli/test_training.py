import dataclasses
import sys
import types

import keras
import numpy as np
import pytest
import yaml
from commands import check_error, write_corpus

import keras_transformer as kt
from keras_transformer.presets import PRESETS
from keras_transformer.runs.run_folder import Run
from keras_transformer.tasks import TranslationTask
from keras_transformer.train.arguments import TrainingArguments


def test_train_reports_what_it_drops(trained):
    code, out, _ = trained.result
    assert code == 0
    assert "1 longer than 32 tokens and 1 with an empty side" in out
    assert out.endswith(f"The run is in {trained.run}\n")


@pytest.fixture
def calls(monkeypatch):
    """Replaces the training; holds the arguments of each call."""
    calls = []

    def train(corpus, output, preset, recipe, **keywords):
        call = dict(corpus=corpus, output=output, preset=preset, recipe=recipe)
        calls.append(call | keywords)
        return types.SimpleNamespace(path=output, task=TranslationTask())

    monkeypatch.setattr("keras_transformer.train.train", train)
    return calls


def test_train_passes_its_flags_on(run_cli, calls, folder, tmp_path):
    output = tmp_path / "new"
    code, *_ = run_cli(
        *("train", "embedded", "--source", "de", "--target", "en"),
        *("--output", output, "--preset", "tiny", "--strategy", "mirrored"),
        *("--init-from", folder, "--vocab-size", 300),
        *("--clip-norm", 0.5, "--tensorboard", "--dtype", "mixed_bfloat16"),
        "--jit-compile",
        *("--d-model", 64, "--d-k", 5, "--positional-encoding", "learned"),
    )
    assert code == 0
    (call,) = calls
    corpus = call.pop("corpus")
    assert (corpus.name, corpus.source, corpus.target) == (
        *("embedded", "de", "en"),
    )
    assert call == dict(
        output=output,
        preset="tiny",
        recipe=dict(
            vocab_size=300,
            clip_norm=0.5,
            tensorboard=True,
            dtype="mixed_bfloat16",
            jit_compile=True,
        ),
        architecture=dict(d_model=64, d_k=5, positional_encoding="learned"),
        strategy="mirrored",
        init_from=str(folder),
        tokenizer=None,
        dry_run=False,
    )


def test_train_is_silent_on_other_workers(run_cli, monkeypatch, tmp_path):
    monkeypatch.setattr("keras_transformer.train.train", lambda *_, **__: None)
    result = run_cli("train", "embedded", "--output", tmp_path / "new")
    assert result == (0, "", "")


def test_a_run_is_repeated_from_its_flags(run_cli, trained, calls, tmp_path):
    file, output = trained.run / "train.yaml", tmp_path / "repeated"
    command = ("train", "--config", file, "--output", output)
    assert run_cli(*command).code == 0
    assert run_cli(*command, "--steps", 9, "--d-model", 8).code == 0
    names = [field.name for field in dataclasses.fields(TrainingArguments)]
    repeated, varied = (
        TrainingArguments(**{name: call[name] for name in names})
        for call in calls
    )
    run = Run.open(trained.run)
    values = repeated.for_new_run().items()
    assert {x: y for x, y in values if y is not None} == run.request
    assert repeated.config_with(run.tokenizer) == run.config
    assert varied.resolved_recipe.steps == 9
    assert varied.config_with(run.tokenizer).d_model == 8


def test_a_run_is_resumed_from_its_folder(run_cli, calls, folder):
    code, out, _ = run_cli("train", "--output", folder)
    assert code == 0 and f"{folder}\n" in out
    (call,) = calls
    assert call.pop("output") == folder
    assert call.pop("strategy") == "auto"
    assert not any(call.values())


def test_the_flags_of_several_corpora(run_cli, calls, tmp_path):
    write_corpus(tmp_path, a_en="a\n", a_de="b\n", c_tsv="c\td\n")
    entries = [
        dict(data=[str(tmp_path / "a.en"), str(tmp_path / "a.de")]),
        dict(
            data=str(tmp_path / "c.tsv"),
            tag="<bt>",
            weight=0.5,
            columns=[2, 1],
        ),
    ]
    for corpus in (
        kt.train.open_corpora(entries, "en", "de"),
        kt.train.open_corpus(entries[0]["data"], "en", "de"),
        kt.train.open_corpus(entries[1]["data"], columns=(2, 1)),
    ):
        file = tmp_path / "train.yaml"
        file.write_text(yaml.safe_dump(corpus.arguments()))
        run_cli("train", "--config", file, "--output", tmp_path / "run")
        opened = calls.pop()["corpus"]
        assert opened.arguments() == corpus.arguments()
        pairs = [list(x.pairs("train")) for x in (corpus, opened)]
        assert pairs[0] == pairs[1]
    entry = '{"data": "embedded"}'
    flags = ("--corpora", entry, "--source", "de", "--target", "en")
    run_cli("train", *flags, "--output", tmp_path / "run")
    corpus = calls.pop()["corpus"]
    assert (corpus.source, corpus.target) == ("de", "en")


def test_average_lists_what_it_averaged(run_cli, trained, tmp_path):
    code, out, _ = run_cli(
        "average", trained.run, "--output", tmp_path / "mean", "--last", 2
    )
    assert code == 0
    names = "step-00000001.weights.h5, step-00000002.weights.h5"
    assert out == f"{tmp_path / 'mean'} is the mean of {names}\n"
    assert (tmp_path / "mean" / "config.json").exists()


def test_presets_lists_every_preset_beside_the_paper(run_cli):
    code, out, _ = run_cli("presets")
    assert code == 0
    rows = {line.split()[0]: line.split() for line in out.splitlines() if line}
    assert set(PRESETS) <= set(rows)
    assert rows["base"][1:5] == ["63,045,632", "37,000", "50,000", "100,000"]
    assert rows["base"][5:8] == ["65M,", "4.92,", "25.8"]
    assert rows["big"][4:8] == ["300,000", "213M,", "4.33,", "26.4"]
    assert rows["tiny"][2:8] == ["2,000", "4,096", "1,000", "-", "for", "the"]


OWN_LAYER = """
import keras
import keras_transformer as kt

@keras.saving.register_keras_serializable(package="own")
class Uniform(kt.layers.MultiHeadAttention):
    def unnormalized_scores(self, query, key, positions):
        return 0.0 * super().unnormalized_scores(query, key, positions)
"""


def test_a_layer_of_ones_own(run_cli, trained, tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "path", [*sys.path])
    file, run = tmp_path / "own_layer.py", tmp_path / "run"
    module = ("--module", file)
    check_error(run_cli("presets", *module), "--module must", "own_layer.py")
    file.write_text(OWN_LAYER)
    train = ("train", "--config", trained.run / "train.yaml", "--output", run)
    train += ("--attention-class", "own>Uniform")
    check_error(run_cli(*train), "--attention-class", "own>Uniform", "--module")
    assert not run.exists()
    assert run_cli(*train, *module).code == 0
    # As in a new process.
    keras.saving.get_custom_objects().pop("own>Uniform")
    del sys.modules[next(x for x in sys.modules if str(file) in x)]
    translate = ("translate", run, "--input", file)
    check_error(run_cli(*translate), "own>Uniform", "--module")
    assert run_cli(*translate, *module).code == 0
    model = kt.open_translator(run, module=file).model
    source, target = np.array([[5, 6, 7, 3]]), np.array([[2]])
    (scores,) = model.attention_scores(source, target).encoder
    np.testing.assert_allclose(scores, 0.25, atol=1e-6)
