import dataclasses
import json

import pytest

from keras_transformer.config import TransformerConfig
from keras_transformer.support.errors import InputError


def test_defaults_are_the_base_model_of_the_paper():
    config = TransformerConfig(vocab_size=37_000)
    assert config.to_dict() == dict(
        vocab_size=37_000,
        num_layers=6,
        d_model=512,
        d_ff=2048,
        num_heads=8,
        d_k=64,
        d_v=64,
        dropout=0.1,
        positional_encoding="sinusoidal",
        attention_window=None,
        max_length=256,
        pad_id=0,
        bos_id=2,
        eos_id=3,
        activation="relu",
        norm_first=False,
        layer_norm_epsilon=1e-6,
        attention_bias=False,
        output_bias=False,
        tied_embeddings="all",
        source_vocab_size=None,
        embedding_scale=None,
        position_layout="interleaved",
        position_endpoint=False,
        position_offset=0,
        decoder_layers=None,
        decoder_heads=None,
        decoder_d_ff=None,
        attention_class="keras_transformer>MultiHeadAttention",
        feed_forward_class="keras_transformer>FeedForward",
        residual_class="keras_transformer>Residual",
    )
    assert TransformerConfig.from_preset("base") == config


def test_parameters_of_base_counted_by_hand():
    # 4 projections of 512 x 512, an inner layer of 2048, norms of 2 x 512.
    attention = 4 * 512 * 512
    feed_forward = 512 * 2048 + 2048 + 2048 * 512 + 512
    encoder = attention + feed_forward + 2 * 2 * 512
    decoder = 2 * attention + feed_forward + 3 * 2 * 512
    expected = 37_000 * 512 + 6 * (encoder + decoder)
    config = TransformerConfig.from_preset("base")
    assert config.num_parameters == expected == 63_045_632


def test_json_round_trip():
    config = TransformerConfig(
        vocab_size=50, num_heads=3, d_k=5, d_v=7, positional_encoding="learned"
    )
    values = json.loads(json.dumps(config.to_dict()))
    assert TransformerConfig(**values) == config


@pytest.mark.parametrize(
    "values",
    [
        dict(vocab_size=0),
        dict(d_model=-8),
        dict(d_ff=2.5),
        dict(num_heads=True),
        dict(num_heads=7),
        dict(d_k=5, num_heads=7),
        dict(d_v=-1),
        dict(attention_window=0),
        dict(dropout=1.0),
        dict(positional_encoding="rotary"),
        dict(position_layout="halves", positional_encoding="learned"),
        dict(position_endpoint=True, positional_encoding="learned"),
        dict(position_offset=2, positional_encoding="learned"),
        dict(pad_id=-1),
        dict(eos_id=0),
        dict(eos_id=50),
        dict(source_vocab_size=60),
        dict(eos_id=3, source_vocab_size=3, tied_embeddings="none"),
        dict(decoder_heads=3),
        dict(activation="tanh"),
        dict(norm_first=1),
        dict(embedding_scale=0),
    ],
    ids=repr,
)
def test_invalid_values_are_named(values):
    name = next(iter(values))
    with pytest.raises(InputError, match=name):
        TransformerConfig(**{"vocab_size": 50, **values})


def test_a_preset_can_be_changed():
    preset = TransformerConfig.from_preset("tiny", vocab_size=None)
    config = TransformerConfig.from_preset("tiny", 99, d_ff=64, d_k=5)
    changes = dict(vocab_size=99, d_ff=64, d_k=5)
    assert config == dataclasses.replace(preset, **changes)


@pytest.mark.parametrize(
    "values", (dict(bos_id=0), dict(bos_id=3), dict(num_heads=7, d_k=5, d_v=6))
)
def test_unusual_values_are_valid(values):
    config = TransformerConfig(vocab_size=50, **values).to_dict()
    assert config.items() >= values.items()
