import runpy

import pytest
from documents import ROOT, read

import keras_transformer as kt
from keras_transformer.convert.weight_table import OTHERS, PARTS, weight_names
from keras_transformer.weights import named_weights

SIZES = dict(vocab_size=11, num_layers=1, decoder_layers=2, d_model=4, d_ff=6)


def config(**values):
    return kt.TransformerConfig(**SIZES, num_heads=2, max_length=5, **values)


@pytest.mark.parametrize(
    ("tied", "switches"),
    [
        ("all", ()),
        ("all", ("output_bias",)),
        ("inputs", ("norm_first", "output_bias")),
        ("target", ("attention_bias", "output_bias")),
        ("none", ("output_bias",)),
        ("none", ("norm_first",)),
    ],
)
def test_names_of_the_model(tied, switches):
    one = config(tied_embeddings=tied, **dict.fromkeys(switches, True))
    names = weight_names(one, "keras_transformer")
    assert set(names) == set(named_weights(kt.Transformer(one)))


CROSS = "decoder/layer_1/cross_attention"
NORM = "encoder/layer_0/feed_forward_norm/norm/gamma"


@pytest.mark.parametrize(
    ("system", "pre_norm", "name", "expected"),
    [
        (
            *("hugging_face", False, f"{CROSS}/output/bias"),
            "model.decoder.layers.1.encoder_attn.out_proj.bias",
        ),
        ("marian", False, f"{CROSS}/key/kernel", "decoder_l2_context_Wk"),
        ("marian", False, f"{CROSS}/key/bias", "decoder_l2_context_bk"),
        ("marian", False, NORM, "encoder_l1_ffn_ffn_ln_scale"),
        ("marian", True, NORM, "encoder_l1_ffn_ffn_ln_scale_pre"),
        (
            *("opennmt_tf", False, NORM),
            "model/encoder/layers/0/ffn/output_layer_norm/gamma",
        ),
        (
            *("opennmt_tf", True, NORM),
            "model/encoder/layers/0/ffn/input_layer_norm/gamma",
        ),
    ],
)
def test_names_of_other_systems(system, pre_norm, name, expected):
    one = config(attention_bias=True, norm_first=pre_norm)
    assert weight_names(one, system)[name] == expected


def test_no_name_is_used_twice():
    """Except in CTranslate2, which fuses weights."""
    one = config(tied_embeddings="none", attention_bias=True, output_bias=True)
    for system in (set(PARTS[0]) & set(OTHERS[0])) - {"paper", "ctranslate2"}:
        names = list(weight_names(one, system).values())
        assert len(names) == len(set(names)), system


def test_the_page_of_the_table():
    """If it fails: python docs/weights_page.py > docs/weights.md"""
    page = runpy.run_path(str(ROOT / "docs/weights_page.py"))["page"]
    assert read("docs/weights.md") == page()
