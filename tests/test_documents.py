"""The programs of the documents, and of own-data.md every command, are run."""

import contextlib
import io
import json
import os
import re
import socket
import subprocess
import sys
from pathlib import Path

import keras
import numpy as np
import pytest
from documents import DOCUMENTS, ROOT, all_blocks, blocks, read
from helpers import randomise
from run_fixtures import create_run

import keras_transformer as kt


def replaced(text, *pairs):
    for old, new in pairs:
        assert text.count(old) == 1, old
        text = text.replace(old, new)
    return text


@contextlib.contextmanager
def inside(folder):
    before = os.getcwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)


# === Python ===


def shortened(program, *pairs):
    """Returns a program that trains a smaller model for one step."""
    return replaced(
        program,
        ("epochs=5", "epochs=1"),
        ("steps_per_epoch=200", "steps_per_epoch=1"),
        ('"tiny", vocab', '"tiny", num_layers=1, vocab'),
        *pairs,
    )


@pytest.fixture(scope="module")
def readme(tmp_path_factory):
    """The names that the README's program leaves, and its folder.

    It trains a smaller model for one step.
    """
    program, _ = blocks("README.md", "python")
    program = shortened(program, ("beam_size=4", "beam_size=4, extra_length=3"))
    folder = tmp_path_factory.mktemp("documents")
    names, output = {}, io.StringIO()
    with inside(folder), contextlib.redirect_stdout(output):
        exec(program, names)
    return folder, names, output.getvalue()


@pytest.mark.slow
def test_readme_program(readme):
    folder, names, output = readme
    assert names["model"].optimizer.iterations.numpy() == 1
    assert output.endswith(f"\n{names['translator']('I am a student')}\n")
    (exported,) = folder.glob("exported/ten-lines/*/saved_model.pb")
    assert exported.parent.name.isdecimal()


def test_readme_layer():
    _, program = blocks("README.md", "python")
    x = np.random.default_rng(0).normal(size=(2, 10, 16)).astype("float32")
    names = {"kt": kt, "x": x}
    exec(program, names)
    y = names["y"]
    assert y.shape == x.shape
    # Causal: an output depends on the positions up to its own.
    x[:, 6:] = 0.0
    changed = np.abs(names["attention"](x, x, kt.masks.causal_mask(x)) - y)
    assert changed[:, :6].max() < 1e-6
    assert changed[:, 6:].max() > 1e-3


@pytest.mark.slow
def test_guide_programs(readme):
    folder, made, _ = readme
    model, translator = made["model"], made["translator"]
    run = create_run(folder / "runs" / "demo", model, made["tokenizer"])
    run.save_best(model, 1, 0.0)
    (exported,) = folder.glob("exported/ten-lines/*")
    (folder / "exported" / "1").symlink_to(exported.resolve())
    names = {}
    with inside(folder):
        for program in [
            *blocks("docs/guide.md", "python"),
            *blocks("docs/layers.md", "python"),
        ]:
            if "KERAS_BACKEND" not in program:
                # tests/layers/test_block.py registers these names too.
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
    classify, predict = names["classifier"], names["language_model"]
    np.testing.assert_allclose(classify(short), classify(padded), atol=1e-5)
    assert classify(short).shape == (1, 2)
    changed = np.abs(predict(short) - predict(np.array([[5, 6, 8]])))[0]
    assert changed[:2].max() < 1e-5 < changed[2].max()
    gated = names["gated"].decoder.layers[0]
    assert type(gated.cross_attention) is names["GatedAttention"]
    found = kt.Translator(names["gated"], made["tokenizer"]).translate("A dog.")
    assert np.isfinite(found.scores).all()
    layer = names["model"].decoder.layers[1]
    assert type(layer.feed_forward_norm) is names["PreNorm"]
    assert type(layer.feed_forward) is names["GatedFeedForward"]


def test_sublayers_of_the_guide_are_those_that_are_tested():
    tested = read("tests/layers/test_block.py")
    shown = [b for b in blocks("docs/layers.md", "python") if "my_project" in b]
    shown = [b for b in shown if "MultiHeadAttention" not in b]
    assert len(shown) == 3
    for block in shown:
        assert block in tested
        assert len(block.splitlines()) < 15


def guide_program(part):
    """Returns the block of the guide that contains a text."""
    (found,) = [b for b in blocks("docs/layers.md", "python") if part in b]
    return found


def test_attention_of_the_guide():
    names = {"keras": keras, "kt": kt}
    exec(guide_program("class GatedAttention").replace("my_", "a_"), names)
    attention = names["GatedAttention"](num_heads=2)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    y = np.array(attention(x, x, kt.masks.causal_mask(5)))

    def heads(layer):
        return np.array(layer(x)).reshape(2, 5, 2, 4).swapaxes(1, 2)

    query, key, value = (
        heads(getattr(attention, f"{name}_projection"))
        for name in ("query", "key", "value")
    )
    key /= np.linalg.norm(key, axis=-1, keepdims=True)
    scores = np.exp(query @ key.swapaxes(2, 3) / 2) * np.tri(5)
    scores /= scores.sum(-1, keepdims=True)
    joined = (scores @ value).swapaxes(1, 2).reshape(2, 5, 8)
    expected = attention.output_projection(joined) * attention.gate(x)
    np.testing.assert_allclose(y, expected, atol=1e-5)
    # As a search computes it: the keys and values of each position once.
    pairs = [attention.project_memory(x[:, i : i + 1]) for i in range(5)]
    key, value = (
        keras.ops.concatenate(part, 2) for part in zip(*pairs, strict=True)
    )
    last, _ = attention.attend(x[:, 4:], key, value)
    np.testing.assert_allclose(last, y[:, 4:], atol=1e-5)


@pytest.mark.parametrize("name", ("RotaryAttention", "LinearBiasAttention"))
def test_positions_of_the_guide(name):
    names = {"keras": keras, "kt": kt}
    exec(guide_program(f"class {name}").replace("my_", "a_"), names)
    config = kt.TransformerConfig(
        vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2
    )
    model = kt.Transformer(config, attention_class=names[name])
    plain = kt.Transformer(config)
    randomise(model), randomise(plain)
    source = np.array([[5, 6, 7, 3], [8, 3, 0, 0]], "int32")
    ids = np.random.default_rng(0).integers(4, 13, (2, 3, 6), "int32")
    decoder = kt.decoding.StepDecoder(model, max_length=6, beam_size=3)
    cache, steps = decoder.init_cache(model.encode(source)), []
    for i in range(6):
        parents = np.array([[0, 1, 2]] * 2)
        logits, cache = decoder.decode_step(ids[:, :, i], parents, cache, i)
        steps.append(logits)
    found = np.stack(steps, axis=2).reshape(6, 6, 13)
    targets = (ids.reshape(6, 6), np.repeat(source, 3, axis=0))
    both = (m.decode(targets[0], m.encode(targets[1])) for m in (model, plain))
    expected, others = both
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-5)
    assert np.abs(expected - others).max() > 0.02
    # RoPE and ALiBi depend on distances alone.
    attention = names[name](num_heads=2)
    x = np.random.default_rng(0).normal(size=(2, 5, 8)).astype("float32")
    attention(x, x)
    first, second = (
        attention.attend(
            x, *attention.project_memory(x, keys), None, None, (keys, keys)
        )[0]
        for keys in (keras.ops.arange(5), keras.ops.arange(5) + 7)
    )
    np.testing.assert_allclose(first, second, atol=1e-5)
    np.testing.assert_allclose(first, attention(x, x), atol=1e-5)


def test_lora_of_the_guide(tmp_path):
    names = {"kt": kt}
    exec(guide_program("enable_lora"), names)
    tuned = names["tuned"]
    assert len(tuned.trainable_variables) == 2 * 2 * 4  # of A and B per layer
    random = np.random.default_rng(0)
    for weight in tuned.trainable_variables:
        weight.assign(random.normal(size=weight.shape))
    with inside(tmp_path):
        exec(guide_program("merged.load"), names)
    ids = dict(source=np.array([[5, 6, 7]]), target=np.array([[1, 8]]))
    expected, plain = tuned(ids), kt.Transformer(tuned.config)(ids)
    np.testing.assert_allclose(names["merged"](ids), expected, atol=1e-4)
    assert np.abs(plain - expected).max() > 0.1


def test_migration_table():
    table = (
        read("docs/layers.md").partition("| `mha = ")[2].partition("\n\n")[0]
    )
    rows = [re.findall("`([^`]*)`", row) for row in table.splitlines()[2:]]
    constructors, *calls, weights = rows
    random = np.random.default_rng(0)
    d_model = 16
    x, y = (
        random.normal(size=(2, n, d_model)).astype("float32") for n in (5, 7)
    )
    mask, padding = random.random((2, 5, 7)) < 0.6, random.random((2, 7)) < 0.6
    mask[:, :, 0] = padding[:, 0] = True
    arrays = dict(x=x, y=y, mask=mask, padding=padding)
    names = dict(kt=kt, x=x, y=y, mask=mask, padding=padding, d_model=d_model)
    for name, layers, constructor in zip(
        ("mha", "attention"),
        (keras.layers, kt.layers),
        constructors,
        strict=True,
    ):
        names[name] = eval(constructor, vars(layers))
        names[name](x, y)
    for statement in weights:
        exec(statement, names)
    assert len(calls) == 5
    for theirs, ours in calls:
        expected, found = eval(theirs, names), eval(ours, names)
        # In a functional model, and as the first call of a new layer.
        inputs = {
            key: keras.Input((None, *x.shape[2:]), dtype=str(x.dtype), name=key)
            for key, x in arrays.items()
        }
        new = eval(constructors[1], vars(kt.layers))
        symbolic = eval(ours, {**names, **inputs, "attention": new})
        new.set_weights(names["attention"].get_weights())
        in_model = keras.Model(inputs, symbolic)(arrays)
        results = map(keras.tree.flatten, (expected, found, in_model))
        for a, b, c in zip(*results, strict=True):
            np.testing.assert_allclose(a, b, atol=1e-5, err_msg=ours)
            np.testing.assert_allclose(a, c, atol=1e-5, err_msg=ours)


@pytest.mark.slow
def test_training_programs(tmp_path, monkeypatch):
    """The second program trains on two replicas."""
    calls = []

    class Trained:
        def load_model(self):
            return None

    def train(corpus, output, preset, recipe):
        calls.append((corpus.name, output, preset, recipe))
        return Trained()

    monkeypatch.setattr(kt.train, "train", train)
    _, of_program, of_fit = blocks("docs/training.md", "python")
    names = {}
    exec(of_program, names)
    recipe = kt.train.Recipe.from_preset("tiny", steps=20, steps_per_epoch=10)
    assert calls == [("embedded", "runs/short", "tiny", recipe)]
    with inside(tmp_path):
        exec(shortened(of_fit), names)
    model, results = names["model"], names["results"]
    assert model.distribute_strategy.num_replicas_in_sync == 2
    assert model.optimizer.iterations.numpy() == 1
    history = {name: value[0] for name, value in model.history.history.items()}
    # An untrained model of 2,000 tokens.
    assert 1_000 < history["val_perplexity"] < 10_000
    assert 0.0 <= history["val_accuracy"] < 0.5
    assert sorted(results) == ["accuracy", "loss", "perplexity"]
    assert results["loss"] == pytest.approx(history["val_loss"], rel=1e-5)
    assert (tmp_path / "best.keras").exists()


def test_every_program_is_run():
    counts = {d: len(blocks(d, "python")) for d in DOCUMENTS}
    # They need a server, a downloaded model and Argos Translate.
    not_run = {"docs/serving.md", "docs/import.md", "docs/argos.md"}
    tested = {
        "README.md",
        "docs/guide.md",
        "docs/layers.md",
        "docs/training.md",
    }
    tested |= {"docs/own-data.md", *not_run}
    # By test_parse, test_litert_specification, test_to_ctranslate2,
    # test_huggingface, test_translating and test_model_folder_included.
    tested |= {
        "docs/bulk.md",
        "docs/en-de.md",
        "docs/parsing.md",
        "docs/litert-format.md",
        "docs/litert.md",
        "docs/ctranslate2.md",
        "docs/huggingface.md",
    }
    assert {d for d, count in counts.items() if count} == tested


# === From your own data to a served model ===


@pytest.mark.slow
def test_own_data(tmp_path):
    """Runs every command of the page; only port and steps are others."""
    script, left_out = [], []
    for language, text in all_blocks("docs/own-data.md"):
        if language == "python":
            text = f"python - <<'PROGRAM'\n{text}PROGRAM\n"
        (left_out if "docker" in text else script).append(text)
    assert len(left_out) == 1
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    # A server must not outlive a failure.
    start = "set -euo pipefail\ntrap 'kill $(jobs -p) || true' EXIT\n"
    program = replaced(
        start + "".join(script),
        ("--steps 100 --steps-per-epoch 25", "--steps 20 --steps-per-epoch 10"),
        ("--output runs/mine --steps 150", "--output runs/mine --steps 30"),
    )
    (tmp_path / "train").symlink_to(ROOT / "train")
    folder = Path(sys.executable).parent
    environment = dict(os.environ, PATH=f"{folder}:{os.environ['PATH']}")
    found = subprocess.run(
        ["bash", "-c", program.replace("8501", str(port))],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert found.returncode == 0, found.stdout + found.stderr

    def lines(name):
        return (tmp_path / name).read_text("utf-8").splitlines()

    assert len(lines("my-data/train.en")) == 3600
    assert len(lines("test.de")) == len(lines("scores.tsv")) == 200
    results = json.loads("\n".join(lines("runs/mine-average/results.json")))
    assert results[-1]["split"] == "test"
    for name in (
        "models/en-de/1/saved_model.pb",
        "en-de/model.tflite",
    ):
        assert (tmp_path / name).exists()
    assert (tmp_path / "curve.png").stat().st_size > 10_000
    # Of `curl` and the client; the last command translates with LiteRT.
    assert '"translations"' in found.stdout
    assert "\nI am a student. -> " in found.stdout
