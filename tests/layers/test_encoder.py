import numpy as np
import numpy_reference as reference
from helpers import normal, randomise, to_numpy, weights_by_path

from keras_transformer.layers import Encoder, EncoderLayer

X = normal(2, 4, 8)
MASK = np.array([[[True, True, False, True]], [[True, False, False, False]]])


def test_every_sublayer_has_its_norm_and_every_layer_its_weights():
    layer = EncoderLayer(num_heads=2, d_ff=12, d_k=3, d_v=5)
    layer(X)
    norms = [w.path for w in layer.weights if w.path.endswith("gamma")]
    assert len(norms) == 2
    # 4 projections, 2 norms with 2 weights, 2 transformations with a bias.
    assert len(layer.weights) == 4 + 4 + 4

    encoder = Encoder(num_layers=3, num_heads=2, d_ff=12, d_k=3, d_v=5)
    encoder(X)
    assert encoder.count_params() == 3 * layer.count_params()
    assert len(encoder.weights) == 3 * 12


def test_masked_positions_have_no_influence():
    encoder = Encoder(2, num_heads=2, d_ff=12)
    changed = np.where(MASK.swapaxes(1, 2), X, 100.0).astype("float32")
    shown = np.broadcast_to(MASK.swapaxes(1, 2), X.shape)
    np.testing.assert_array_equal(
        to_numpy(encoder(X, MASK))[shown],
        to_numpy(encoder(changed, MASK))[shown],
    )


def test_attention_weights_of_each_layer():
    encoder = Encoder(2, num_heads=2, d_ff=12)
    encoder(X)
    randomise(encoder)
    weights = weights_by_path(encoder)
    first, second = encoder.weights_of(X, MASK)
    x = X.astype("float64")
    for i, found in enumerate((first, second)):
        layer = reference.inside(weights, f"layer_{i}")
        heads = [
            np.split(x @ layer[f"self_attention/{name}/kernel"], 2, axis=-1)
            for name in ("query", "key")
        ]
        for head in range(2):
            np.testing.assert_allclose(
                to_numpy(found)[:, head],
                reference.attention_weights(
                    heads[0][head], heads[1][head], MASK
                ),
                atol=1e-5,
            )
        x = reference.encoder_layer(layer, 2, x, MASK)
