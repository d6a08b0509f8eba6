import keras
import numpy as np
import pytest
from helpers import (
    POLICIES,
    check_examples,
    dtype_of,
    gradients,
    randomise,
    to_numpy,
)
from keras import ops

import keras_transformer as kt

SMALL = dict(
    vocab_size=13, num_layers=2, d_model=8, d_ff=16, num_heads=2, max_length=9
)
SOURCE = np.array([[5, 9, 12, 3, 0, 0], [7, 4, 8, 10, 6, 3]], "int32")
TARGET = np.array([[2, 6, 5, 0, 0], [2, 8, 11, 4, 9]], "int32")
BOTH = {"source": SOURCE, "target": TARGET}
MEMORY_MASK = (SOURCE != 0)[:, None, :]


def small(policy="float32", **changes):
    model = kt.Transformer(
        kt.TransformerConfig(**{**SMALL, **changes}), dtype=policy
    )
    randomise(model)
    return model


def test_examples_of_the_docstrings():
    from keras_transformer import model

    check_examples(model)


def test_summary_counts_the_parameters_and_has_shapes(capsys):
    small().summary()
    out = capsys.readouterr().out
    assert f"{small().config.num_parameters:,}" in out
    assert "(None, None, 8)" in out and "?" not in out


def test_source_longer_than_the_learned_positions_is_refused():
    model = small(positional_encoding="learned")
    with pytest.raises(ValueError, match="max_length=9"):
        model({"source": np.ones((1, 10), "int32"), "target": TARGET[:1]})


@pytest.mark.parametrize("policy", POLICIES)
def test_logits_have_the_compute_dtype_and_the_weights_float32(policy):
    model = small(policy)
    output = model(BOTH)
    assert tuple(output.shape) == (2, 5, 13)
    assert dtype_of(output) == model.compute_dtype
    assert {dtype_of(weight) for weight in model.weights} == {"float32"}


def test_logits_carry_no_keras_mask():
    logits = small()(BOTH)
    # This layer averages over the positions that a mask does not hide.
    pooled = keras.layers.GlobalAveragePooling1D()(logits)
    np.testing.assert_allclose(
        to_numpy(pooled), to_numpy(logits).mean(axis=1), atol=1e-5
    )


@pytest.mark.parametrize(
    "changes",
    (
        {},
        dict(d_k=3, d_v=5),
        dict(positional_encoding="learned"),
        dict(num_layers=3, num_heads=1, d_ff=7),
        dict(attention_window=3),
    ),
)
def test_number_of_parameters_is_that_of_the_configuration(changes):
    model = small(**changes)
    assert model.count_params() == model.config.num_parameters
    assert len(model.trainable_weights) == len(model.weights)


def test_one_matrix_embeds_both_languages_and_gives_the_logits():
    model = small()
    with_vocabulary = [w for w in model.weights if 13 in w.shape]
    assert len(with_vocabulary) == 1
    (matrix,) = with_vocabulary
    # A state's logits are its products with the embeddings.
    memory = model.encode(SOURCE)
    before = [to_numpy(memory.states), to_numpy(model.decode(TARGET, memory))]
    matrix.assign(-matrix)
    changed = [
        to_numpy(model.encode(SOURCE).states),
        to_numpy(model.decode(TARGET, memory)),
    ]
    for a, b in zip(before, changed, strict=True):
        assert np.abs(a - b).max() > 1e-2
    states = model.decoder(
        model.target_positions(model.embedding(TARGET)),
        memory.states,
        np.tril(np.ones((1, 5, 5), bool)),
        memory.mask,
    )
    np.testing.assert_allclose(
        changed[1], to_numpy(states) @ to_numpy(matrix).T, atol=1e-4
    )


@pytest.mark.parametrize("position", (1, 3, 4))
def test_token_has_no_influence_on_earlier_positions(position):
    model = small()
    changed = TARGET.copy()
    changed[:, position] = 12
    before, after = (
        to_numpy(model({"source": SOURCE, "target": target}))
        for target in (TARGET, changed)
    )
    np.testing.assert_array_equal(before[:, :position], after[:, :position])
    assert (np.abs(before - after)[:, position:].max(axis=-1) > 1e-5).all()


@pytest.mark.parametrize("positions", ("sinusoidal", "learned"))
def test_padding_of_a_batch_has_no_influence(positions):
    model = small(positional_encoding=positions)
    together = to_numpy(model(BOTH))[:1, :3]
    alone = model({"source": SOURCE[:1, :4], "target": TARGET[:1, :3]})
    np.testing.assert_allclose(to_numpy(alone), together, atol=1e-5)


def test_every_source_token_has_influence():
    model = small()
    before = to_numpy(model(BOTH))
    for position in range(6):
        source = SOURCE.copy()
        source[1, position] = 11
        after = to_numpy(model({"source": source, "target": TARGET}))
        assert np.abs(after - before)[1].max() > 1e-4
        np.testing.assert_allclose(after[0], before[0], atol=1e-5)


@pytest.mark.parametrize("policy", POLICIES)
def test_source_of_only_padding_gives_finite_logits_and_gradients(policy):
    model = small(policy)
    inputs = {"source": 0 * SOURCE, "target": TARGET}
    loss = kt.LabelSmoothedCrossEntropy(0.1)
    assert np.isfinite(to_numpy(model(inputs))).all()
    found = gradients(
        lambda: loss(TARGET, model(inputs)), model.trainable_variables
    )
    assert all(np.isfinite(gradient).all() for gradient in found)


def test_id_of_padding_comes_from_the_configuration():
    model = small(pad_id=1)
    padded = np.array([[5, 9, 3, 1, 1]], "int32")
    expected = model({"source": padded[:, :3], "target": TARGET[:1]})
    found = model({"source": padded, "target": TARGET[:1]})
    np.testing.assert_allclose(to_numpy(found), to_numpy(expected), atol=1e-5)


@pytest.mark.parametrize("window", (None, 2))
def test_attention_scores_of_every_layer(window):
    model = small(attention_window=window)
    scores = model.attention_scores(SOURCE, TARGET)
    causal = np.tril(np.ones((1, 5, 5), bool))
    # The scores of the stacks themselves, for the same inputs.
    x = model.source_positions(model.embedding(SOURCE))
    states, encoder = model.encoder(
        x, MEMORY_MASK, return_attention_scores=True
    )
    x = model.target_positions(model.embedding(TARGET))
    _, decoder, cross = model.decoder(
        x, states, causal, MEMORY_MASK, return_attention_scores=True
    )
    expected = dict(encoder=encoder, decoder=decoder, cross=cross)
    for name, layers in expected.items():
        assert len(layers) == 2
        for found, layer in zip(getattr(scores, name), layers, strict=True):
            assert dtype_of(found) == "float32"
            np.testing.assert_allclose(
                to_numpy(found), to_numpy(layer), atol=1e-5
            )


def test_attention_scores_encode_the_source_once(monkeypatch):
    model, attended = small(), []
    attend = kt.layers.MultiHeadAttention.attend

    def count(self, *arguments):
        attended.append(self.path.split("/", 1)[1])
        return attend(self, *arguments)

    monkeypatch.setattr(kt.layers.MultiHeadAttention, "attend", count)
    model.attention_scores(SOURCE, TARGET)
    assert attended == [
        "encoder/layer_0/self_attention",
        "encoder/layer_1/self_attention",
        "decoder/layer_0/self_attention",
        "decoder/layer_0/cross_attention",
        "decoder/layer_1/self_attention",
        "decoder/layer_1/cross_attention",
    ]


def test_model_can_be_part_of_a_functional_model():
    model = small()
    inputs = {
        name: keras.Input((None,), dtype="int32", name=name) for name in BOTH
    }
    outer = keras.Model(inputs, ops.softmax(model(inputs)))
    assert outer.output_shape == (None, None, 13)
    np.testing.assert_allclose(
        to_numpy(outer(BOTH)), to_numpy(ops.softmax(model(BOTH))), atol=1e-5
    )


def copy_task(count=128, length=4):
    """Targets are copies of the sources: `(inputs, labels)`."""
    random = np.random.default_rng(0)
    words = random.integers(4, 13, (count, length))
    ends = np.full((count, 1), 3)
    inputs = {
        "source": np.hstack([words, ends]).astype("int32"),
        "target": np.hstack([0 * ends + 2, words]).astype("int32"),
    }
    return inputs, np.hstack([words, ends]).astype("int32")


def compiled(policy):
    config = kt.TransformerConfig(
        **{**SMALL, "num_layers": 1, "d_model": 32, "d_ff": 64}, dropout=0.0
    )
    model = kt.Transformer(config, dtype=policy)
    model.compile(
        optimizer=kt.optimizers.adam(config.d_model, warmup_steps=100),
        loss=kt.LabelSmoothedCrossEntropy(0.1),
        metrics=[kt.TokenNLL(), kt.TokenAccuracy()],
    )
    return model


@pytest.mark.parametrize(
    "policy", ("float32", pytest.param("mixed_float16", marks=pytest.mark.slow))
)
def test_fit_learns_to_copy(policy):
    model = compiled(policy)
    inputs, labels = copy_task()
    history = model.fit(
        inputs, labels, batch_size=16, epochs=12, verbose=0, shuffle=False
    ).history
    assert np.isfinite(history["loss"]).all()
    assert history["loss"][-1] < history["loss"][0]
    # Knowing the length and guessing the words gives 4/5 log(9) = 1.76.
    assert history["nll"][0] > 2.3 and history["nll"][-1] < 1.5
    assert history["accuracy"][-1] > 0.5


def test_saved_model_resumes_training(tmp_path):
    model = compiled("mixed_bfloat16")
    inputs, labels = copy_task(16)
    model.fit(inputs, labels, batch_size=8, verbose=0, shuffle=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")

    assert type(loaded) is kt.Transformer
    assert loaded.config == model.config
    assert loaded.get_config() == model.get_config()
    np.testing.assert_array_equal(
        to_numpy(loaded(inputs)), to_numpy(model(inputs))
    )
    assert int(loaded.optimizer.iterations) == 2
    assert loaded.loss.get_config() == model.loss.get_config()
    # With the state of the optimizer, the next updates are the same.
    results = [
        m.fit(
            inputs, labels, batch_size=8, epochs=2, verbose=0, shuffle=False
        ).history
        for m in (model, loaded)
    ]
    assert set(results[0]) == set(results[1]) >= {"loss", "nll", "accuracy"}
    for name, values in results[0].items():
        np.testing.assert_allclose(values, results[1][name], rtol=1e-4)


@pytest.mark.parametrize("positions", ("sinusoidal", "learned"))
def test_weights_are_saved_and_loaded(positions, tmp_path):
    model = small(positional_encoding=positions)
    other = kt.Transformer(model.config, dtype="float32")
    model.save_weights(tmp_path / "model.weights.h5")
    assert np.abs(to_numpy(other(BOTH)) - to_numpy(model(BOTH))).max() > 0.1
    other.load_weights(tmp_path / "model.weights.h5")
    np.testing.assert_array_equal(to_numpy(other(BOTH)), to_numpy(model(BOTH)))


@pytest.mark.skipif(
    keras.backend.backend() != "tensorflow", reason="Keras exports others by it"
)
def test_exported_by_keras(tmp_path):
    import tensorflow as tf

    model = small()
    model.export(tmp_path / "exported", verbose=False)  # without a call
    served = tf.saved_model.load(str(tmp_path / "exported"))
    for columns in (slice(None), slice(2)):
        ids = {name: tf.constant(x[:, columns]) for name, x in BOTH.items()}
        np.testing.assert_allclose(served.serve(ids), model(ids), atol=1e-5)


@pytest.mark.parametrize("inputs", (list(BOTH.values()), {"inputs": SOURCE}))
def test_inputs_are_a_dict(inputs):
    with pytest.raises(ValueError, match="a dict"):
        small()(inputs)


def test_inputs_are_one_argument():
    with pytest.raises(ValueError, match="a dict"):
        small()(BOTH["source"], BOTH["target"])


def test_what_is_frozen_stays_frozen(tmp_path):
    model = kt.Transformer(small().config, trainable=False)
    assert not any(weight.trainable for weight in model.weights)
    assert not kt.Transformer.from_config(model.get_config()).trainable
    model = small()
    model.encoder.trainable = model.decoder.layers[1].trainable = False
    expected = [w.path for w in model.trainable_weights]
    assert not any("encoder/" in x or "layer_1/" in x for x in expected)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert [w.path for w in loaded.trainable_weights] == expected != []
    assert not loaded.encoder.trainable


def test_what_is_frozen_in_a_model_within_another():
    class Outer(keras.Model):
        def build(self, input_shape=None):
            self.inner = small()
            self.inner.encoder.layers[1].trainable = False

    outer = Outer()
    outer.build()
    config = outer.inner.get_config()
    assert config["frozen"] == ["encoder/layer_1"]
    copy = kt.Transformer.from_config(config)
    frozen = [w.path for w in copy.weights if not w.trainable]
    assert len(frozen) == 12 and all("encoder/layer_1/" in x for x in frozen)
    with pytest.raises(ValueError, match="'layer_1'"):
        kt.Transformer(copy.config, frozen=["layer_1"])


def test_config_holds_the_arguments_of_init():
    model = small("mixed_bfloat16", positional_encoding="learned")
    config = model.get_config()
    classes = {"attention_class", "feed_forward_class", "residual_class"}
    own = {"name", "dtype", "config", "trainable", "frozen"}
    assert set(config) == own | classes and config["frozen"] == []
    assert config["config"] == model.config.to_dict()
    copy = kt.Transformer.from_config(config)
    assert copy.config == model.config
    assert copy.dtype_policy.name == "mixed_bfloat16"
    assert [w.path for w in copy.weights] == [w.path for w in model.weights]
