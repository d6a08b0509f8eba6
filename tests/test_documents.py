"""The programs of the documents, and of own-data.md every command, are run."""

import contextlib
import io
import json
import re
import socket
from unittest import mock

import keras
import numpy as np
import pytest
from documents import ROOT, all_blocks, blocks, read
from helpers import randomise
from programs import run_script, smaller  # noqa: F401
from run_fixtures import create_run

import keras_transformer as kt


def replaced(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


# === Python ===


def shortened(program, *pairs):
    """Returns a program that trains for one step."""
    return replaced(
        program,
        ("epochs=5", "epochs=1"),
        ("steps_per_epoch=200", "steps_per_epoch=1"),
        *pairs,
    )


def test_readme_layer():
    _, program = blocks("README.md", "python")
    x = np.random.default_rng(0).normal(size=(2, 10, 16)).astype("float32")
    names = {"kt": kt, "x": x}
    exec(program, names)
    # Causal: an output depends on the positions up to its own.
    y = names["y"]
    x[:, 6:] = 0.0
    changed = np.abs(names["attention"](x, x, kt.masks.causal_mask(x)) - y)
    assert changed[:, :6].max() < 1e-6
    assert changed[:, 6:].max() > 1e-3


@pytest.mark.slow
@pytest.mark.usefixtures("smaller")
def test_programs_of_the_readme_and_the_guide(tmp_path):
    """The README's trains for one step; the guide uses its model."""
    folder, made, output = tmp_path, {}, io.StringIO()
    program, _ = blocks("README.md", "python")
    program = shortened(program, ("beam_size=4", "beam_size=4, extra_length=3"))
    with contextlib.chdir(folder), contextlib.redirect_stdout(output):
        exec(program, made)
    model, translator = made["model"], made["translator"]
    assert model.optimizer.iterations.numpy() == 1
    assert output.getvalue().endswith(f"\n{translator('I am a student')}\n")
    saved = kt.open_translator(folder / "runs" / "ten-lines")
    assert saved.score("I", "Ich") == translator.score("I", "Ich")

    run = create_run(folder / "runs" / "demo", model, made["tokenizer"])
    run.save_best(model, 1, 0.0)
    kt.export.save(translator, folder / "exported" / "1")
    names = {}
    with contextlib.chdir(folder):
        for program in [
            *blocks("docs/guide.md", "python"),
            *blocks("docs/layers.md", "python"),
        ]:
            if "KERAS_BACKEND" not in program:
                # test_transformer_layer.py registers these names too.
                exec(program.replace("my_project", "guide"), names)

    assert len(names["translation"].texts) == 4
    assert names["translation"].scores == sorted(
        names["translation"].scores, reverse=True
    )
    (expected,) = translator.translate(["I am a student."])
    outputs = names["outputs"]
    assert outputs["translations"][0, 0] == expected.texts[0].encode()
    np.testing.assert_allclose(
        outputs["scores"][0], expected.scores, rtol=1e-4, atol=1e-4
    )
    assert outputs["source_truncated"][0] == expected.source_truncated
    heads = model.config.num_heads
    assert len(names["figure"].axes) == heads + 1  # and the color bar
    assert (folder / "attention.png").stat().st_size > 10_000

    short, padded = np.array([[5, 6, 7]]), np.array([[5, 6, 7, 0, 0]])
    classify = names["classifier"]
    np.testing.assert_allclose(classify(short), classify(padded), atol=1e-5)
    assert classify(short).shape == (1, 2)
    layer = names["model"].decoder.layers[0]
    assert type(layer.feed_forward_norm) is names["PreNorm"]
    assert type(layer.feed_forward) is names["GatedFeedForward"]


def test_sublayers_of_the_guide_are_tested():
    tested = read("tests/layers/test_transformer_layer.py")
    shown = [b for b in blocks("docs/layers.md", "python") if "my_project" in b]
    shown = [b for b in shown if "MultiHeadAttention" not in b]
    assert len(shown) == 3
    assert all(block in tested for block in shown)


def guide_program(part):
    """Returns the block of the guide that contains a text."""
    (found,) = [b for b in blocks("docs/layers.md", "python") if part in b]
    return found


@pytest.mark.parametrize("name", ("RotaryAttention", "LinearBiasAttention"))
def test_positions_of_the_guide(name):
    """RoPE and ALiBi depend on distances alone, and decode step by step."""
    names = {"keras": keras, "kt": kt}
    exec(guide_program(f"class {name}").replace("my_", "a_"), names)
    attention = names[name](num_heads=2)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    attention(x, x)
    plain = kt.layers.MultiHeadAttention(num_heads=2)
    plain(x, x)
    plain.set_weights(attention.get_weights())
    first, second = (
        attention.attend(
            x, *attention.project_memory(x, keys), None, None, (keys, keys)
        )[0]
        for keys in (keras.ops.arange(5), keras.ops.arange(5) + 7)
    )
    np.testing.assert_allclose(first, second, atol=1e-5)
    np.testing.assert_allclose(first, attention(x, x), atol=1e-5)
    assert np.abs(first - plain(x, x)).max() > 0.02
    model = kt.Transformer.from_preset(
        "tiny", vocab_size=13, num_layers=1, attention_class=names[name]
    )
    randomise(model)
    # Raises if steps and the full pass differ.
    kt.decoding.StepDecoder(model, max_length=6, beam_size=2)


def test_lora_of_the_guide(tmp_path):
    names = {"kt": kt}
    program = guide_program("enable_lora")
    exec(program.replace('"tiny"', '"tiny", vocab_size=13'), names)
    tuned = names["tuned"]
    assert len(tuned.trainable_variables) == 2 * 2 * 4  # of A and B per layer
    random = np.random.default_rng(0)
    for weight in tuned.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    with contextlib.chdir(tmp_path):
        exec(guide_program("merged.load"), names)
    ids = dict(source=np.array([[5, 6, 7]]), target=np.array([[1, 8]]))
    expected, plain = tuned(ids), kt.Transformer(tuned.config)(ids)
    np.testing.assert_allclose(names["merged"](ids), expected, atol=1e-4)
    assert np.abs(plain - expected).max() > 0.1


def test_migration_table():
    table = read("docs/layers.md").partition("| `mha = ")[2]
    rows = table.partition("\n\n")[0].splitlines()[2:]
    rows = [re.findall("`([^`]*)`", row) for row in rows]
    constructors, *calls, weights = rows
    random = np.random.default_rng(0)
    x, y = (random.normal(size=(2, n, 16)).astype("float32") for n in (5, 7))
    mask, padding = random.random((2, 5, 7)) < 0.6, random.random((2, 7)) < 0.6
    mask[:, :, 0] = padding[:, 0] = True
    names = dict(kt=kt, x=x, y=y, mask=mask, padding=padding, d_model=16)
    names["mha"] = eval(constructors[0], vars(keras.layers))
    names["attention"] = eval(constructors[1], vars(kt.layers))
    names["mha"](x, y), names["attention"](x, y)
    for statement in weights:
        exec(statement, names)
    assert len(calls) == 5
    for theirs, ours in calls:
        expected, found = eval(theirs, names), eval(ours, names)
        for a, b in zip(
            *map(keras.tree.flatten, (expected, found)), strict=True
        ):
            np.testing.assert_allclose(a, b, atol=1e-5, err_msg=ours)


@pytest.mark.slow
@pytest.mark.usefixtures("smaller")
def test_training_programs(tmp_path, monkeypatch):
    """The second program trains on two replicas."""
    calls = []

    def train(corpus, output, preset, recipe):
        calls.append((corpus.name, output, preset, recipe))
        return mock.Mock()

    monkeypatch.setattr(kt.train, "train", train)
    calling, fitting = blocks("docs/training.md", "python")
    names = {}
    exec(calling, names)
    recipe = kt.train.Recipe.from_preset("tiny", steps=20, steps_per_epoch=10)
    assert calls == [("embedded", "runs/short", "tiny", recipe)]
    with contextlib.chdir(tmp_path):
        exec(shortened(fitting), names)
    model, results = names["model"], names["results"]
    assert model.distribute_strategy.num_replicas_in_sync == 2
    assert model.optimizer.iterations.numpy() == 1
    (loss,) = model.history.history["val_loss"]
    # An untrained model of 2,000 tokens: log(2,000) = 7.6.
    assert 6.9 < loss < 9.2
    assert results["loss"] == pytest.approx(loss, rel=1e-5)
    assert (tmp_path / "best.keras").exists()


# === From your own data to a served model ===


@pytest.mark.slow
@pytest.mark.usefixtures("smaller")
def test_own_data(tmp_path):
    """Runs every command of the page, with fewer pairs and steps."""
    script, left_out = [], []
    for _, text in all_blocks("docs/own-data.md"):
        (left_out if "docker" in text else script).append(text)
    assert len(left_out) == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    program = replaced(
        "".join(script).replace("head -n 4000", "head -n 400"),
        ("--vocab-size 1000", "--vocab-size 500"),
        ("--steps 100 --steps-per-epoch 25", "--steps 4 --steps-per-epoch 2"),
        ("--output runs/mine --steps 150", "--output runs/mine --steps 6"),
    )
    (tmp_path / "train").symlink_to(ROOT / "train")
    printed = run_script(program.replace("8501", str(port)), tmp_path)

    def lines(name):
        return (tmp_path / name).read_text("utf-8").splitlines()

    assert len(lines("my-data/train.en")) == 360
    assert len(lines("test.de")) == len(lines("scores.tsv")) == 20
    results = json.loads("\n".join(lines("runs/mine-average/results.json")))
    assert results[-1]["split"] == "test"
    for name in ("models/en-de/1/saved_model.pb", "mine-litert/model.tflite"):
        assert (tmp_path / name).exists()
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    assert '"translations"' in printed  # by curl
