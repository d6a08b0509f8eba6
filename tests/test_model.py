import keras
import numpy as np
import pytest
from helpers import (
    BACKEND,
    TENSORFLOW_ONLY,
    check_examples,
    dtype_of,
    gradients,
    randomise,
    to_numpy,
)
from keras import ops

import keras_transformer as kt

SMALL = dict(
    vocab_size=13, num_layers=1, d_model=8, d_ff=16, num_heads=2, max_length=9
)
SOURCE = np.array([[5, 9, 12, 3, 0, 0], [7, 4, 8, 10, 6, 3]], "int32")
TARGET = np.array([[2, 6, 5, 0, 0], [2, 8, 11, 4, 9]], "int32")
BOTH = {"source": SOURCE, "target": TARGET}


def small(policy="float32", **changes):
    config = kt.TransformerConfig(**{**SMALL, **changes})
    model = kt.Transformer(config, dtype=policy)
    randomise(model)
    return model


@pytest.fixture(scope="module")
def model():
    """A model that no test changes."""
    return small()


@TENSORFLOW_ONLY
def test_examples_of_the_docstrings():
    from keras_transformer import model

    check_examples(model)


def test_summary_counts_the_parameters_and_has_shapes(model, capsys):
    model.summary()
    out = capsys.readouterr().out
    assert f"{model.config.num_parameters:,}" in out
    assert "(None, None, 8)" in out and "?" not in out


def test_logits_carry_no_keras_mask(model):
    logits = model(BOTH)
    # This layer averages over the positions that a mask does not hide.
    pooled = keras.layers.GlobalAveragePooling1D()(logits)
    np.testing.assert_allclose(
        to_numpy(pooled), to_numpy(logits).mean(axis=1), atol=1e-5
    )


def test_one_matrix_embeds_both_languages_and_gives_the_logits():
    model = small()
    (matrix,) = [w for w in model.weights if 13 in w.shape]
    memory = model.encode(SOURCE)
    before = [to_numpy(memory.states), to_numpy(model.decode(TARGET, memory))]
    matrix.assign(-matrix)
    changed = [
        to_numpy(model.encode(SOURCE).states),
        to_numpy(model.decode(TARGET, memory)),
    ]
    for a, b in zip(before, changed, strict=True):
        assert np.abs(a - b).max() > 1e-2
    # A state's logits are its products with the embeddings.
    states = model.decoder(
        model.target_positions(model.embedding(TARGET)),
        memory.states,
        np.tri(5, dtype=bool)[None],
        memory.mask,
    )
    np.testing.assert_allclose(
        changed[1], to_numpy(states) @ to_numpy(matrix).T, atol=1e-4
    )


@pytest.mark.parametrize("position", (1, 4))
def test_token_has_no_influence_on_earlier_positions(model, position):
    changed = TARGET.copy()
    changed[:, position] = 12
    before, after = (
        to_numpy(model({"source": SOURCE, "target": target}))
        for target in (TARGET, changed)
    )
    np.testing.assert_array_equal(before[:, :position], after[:, :position])
    assert (np.abs(before - after)[:, position:].max(axis=-1) > 1e-5).all()


@pytest.mark.parametrize(
    "changes", (dict(positional_encoding="learned"), dict(pad_id=1))
)
def test_padding_of_a_batch_has_no_influence(changes):
    model = small(**changes)
    pad_id = model.config.pad_id
    source, target = (np.where(x == 0, pad_id, x) for x in (SOURCE, TARGET))
    together = to_numpy(model({"source": source, "target": target}))[:1, :3]
    alone = model({"source": source[:1, :4], "target": target[:1, :3]})
    np.testing.assert_allclose(to_numpy(alone), together, atol=1e-5)


@pytest.mark.parametrize(
    "policy",
    [
        "float32",
        pytest.param("mixed_bfloat16", marks=TENSORFLOW_ONLY),
        pytest.param("mixed_float16", marks=TENSORFLOW_ONLY),
    ],
)
def test_source_of_only_padding_gives_finite_logits_and_gradients(policy):
    model = small(policy)
    inputs = {"source": 0 * SOURCE, "target": TARGET}
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    logits = model(inputs)
    assert np.isfinite(to_numpy(logits)).all()
    assert dtype_of(logits) == model.compute_dtype
    found = gradients(
        lambda: loss(TARGET, model(inputs)), model.trainable_variables
    )
    assert all(np.isfinite(gradient).all() for gradient in found)


@pytest.mark.parametrize("window", (None, 2))
def test_attention_scores_of_every_layer(window):
    model = small(attention_window=window)
    scores = model.attention_scores(SOURCE, TARGET)
    causal, padding = np.tri(5, dtype=bool)[None], (SOURCE != 0)[:, None]
    mode = dict(return_attention_scores=True)
    # The scores of the stacks themselves, for the same inputs.
    x = model.source_positions(model.embedding(SOURCE))
    states, encoder = model.encoder(x, padding, **mode)
    x = model.target_positions(model.embedding(TARGET))
    _, decoder, cross = model.decoder(x, states, causal, padding, **mode)
    for found, expected in zip(scores, (encoder, decoder, cross), strict=True):
        (found,), (expected,) = found, expected
        assert dtype_of(found) == "float32"
        np.testing.assert_allclose(
            to_numpy(found), to_numpy(expected), atol=1e-5
        )


def test_attention_scores_encode_the_source_once(model, monkeypatch):
    attended = []
    attend = kt.layers.MultiHeadAttention.attend

    def count(self, *arguments):
        attended.append(self.path.split("/", 1)[1])
        return attend(self, *arguments)

    monkeypatch.setattr(kt.layers.MultiHeadAttention, "attend", count)
    model.attention_scores(SOURCE, TARGET)
    assert attended == [
        "encoder/layer_0/self_attention",
        "decoder/layer_0/self_attention",
        "decoder/layer_0/cross_attention",
    ]


def test_model_can_be_part_of_a_functional_model(model):
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in BOTH
    }
    outer = keras.Model(inputs, ops.softmax(model(inputs)))
    assert outer.output_shape == (None, None, 13)
    np.testing.assert_allclose(
        to_numpy(outer(BOTH)), to_numpy(ops.softmax(model(BOTH))), atol=1e-5
    )


def fit(model, epochs):
    """Trains a model to copy its sources."""
    words = np.random.default_rng(0).integers(4, 13, (128, 4))
    labels, target = (
        np.pad(words, ((0, 0), pad), constant_values=special).astype("int32")
        for pad, special in (((0, 1), 3), ((1, 0), 2))
    )
    inputs = {"source": labels, "target": target}
    arguments = dict(batch_size=16, verbose=0, shuffle=False)
    return model.fit(inputs, labels, epochs=epochs, **arguments).history


@pytest.mark.parametrize(
    "policy",
    [
        "float32",
        pytest.param(
            "mixed_float16", marks=[TENSORFLOW_ONLY, pytest.mark.slow]
        ),
    ],
)
def test_fit_learns_to_copy_and_a_saved_model_resumes(policy, tmp_path):
    config = kt.TransformerConfig(
        **SMALL | dict(d_model=32, d_ff=64), dropout=0.0
    )
    model = kt.Transformer(config, dtype=policy)
    model.compile(
        optimizer=kt.optimizers.adam(config.d_model, warmup_steps=100),
        loss=kt.LabelSmoothedCrossEntropy(0.1),
        metrics=[kt.TokenNLL(), kt.TokenAccuracy()],
    )
    history = fit(model, epochs=12)
    assert np.isfinite(history["loss"]).all()
    assert history["loss"][-1] < history["loss"][0]
    # Knowing the length and guessing the words gives 4/5 log(9) = 1.76.
    assert history["nll"][0] > 2.3 and history["nll"][-1] < 1.5
    assert history["accuracy"][-1] > 0.5

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is kt.Transformer
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(to_numpy(loaded(BOTH)), to_numpy(model(BOTH)))
    assert int(loaded.optimizer.iterations) == int(model.optimizer.iterations)
    assert loaded.loss.get_config() == model.loss.get_config()
    # With the state of the optimizer, the next updates are the same.
    expected, found = (fit(m, epochs=1) for m in (model, loaded))
    assert set(expected) == set(found) >= {"loss", "nll", "accuracy"}
    for name, values in expected.items():
        np.testing.assert_allclose(values, found[name], rtol=1e-3)


@pytest.mark.skipif(BACKEND != "tensorflow", reason="writes a SavedModel")
def test_exported_by_keras(tmp_path):
    import tensorflow as tf

    model = small()
    model.export(tmp_path / "exported", verbose=False)  # without a call
    served = tf.saved_model.load(str(tmp_path / "exported"))
    for columns in (slice(None), slice(2)):
        ids = {name: tf.constant(x[:, columns]) for name, x in BOTH.items()}
        np.testing.assert_allclose(served.serve(ids), model(ids), atol=1e-5)


@pytest.mark.parametrize(
    "inputs", ((list(BOTH.values()),), ({"inputs": SOURCE},), (SOURCE, TARGET))
)
def test_inputs_are_a_dict(model, inputs):
    with pytest.raises(ValueError, match="dict"):
        model(*inputs)


def test_config_holds_the_arguments_of_init():
    model = small("mixed_bfloat16", positional_encoding="learned")
    config = model.get_config()
    assert set(config) == {"name", "dtype", "config", "trainable"}
    copy = kt.Transformer.from_config(config)
    assert copy.config == model.config
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert [w.path for w in copy.weights] == [w.path for w in model.weights]


def test_a_model_of_a_preset(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tiny").mkdir()
    changes = dict(vocab_size=13, num_layers=1)
    config = kt.Transformer.from_preset("tiny", **changes).config
    assert config == kt.TransformerConfig.from_preset("tiny", **changes)
    for name, received in (("./tiny", "config.json"), ("a", "tiny, .*: a, ")):
        with pytest.raises(kt.InputError, match=received):
            kt.Transformer.from_preset(name)
