"""Layers that other systems do not compute are noticed."""

import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer import export


class OtherAttention(kt.layers.MultiHeadAttention):
    """Attends with other weights."""

    def attend(self, query, *arguments, **options):
        return super().attend(2.0 * query, *arguments, **options)


class OtherFeedForward(kt.layers.FeedForward):
    """Computes something else, which LiteRT can compute too."""

    def call(self, x, *arguments, **options):
        return super().call(x, *arguments, **options) + 0.1 * x


def add_lora(model):
    layer = model.decoder.layers[1].cross_attention.value_projection
    layer.enable_lora(2)
    layer.lora_kernel_b.assign(layer.lora_kernel_b + 1.0)


def quantize(model):
    model.decoder.layers[1].cross_attention.value_projection.quantize("int8")


CHANGES = {"lora": add_lora, "quantized": quantize}
CLASSES = {
    "attention": dict(attention_class=OtherAttention),
    "feed-forward": dict(feed_forward_class=OtherFeedForward),
}


def changed_translator(tokenizer, change):
    translator = random_translator(tokenizer, layer_norm_epsilon=1e-5)
    model = translator.model
    if change in CHANGES:
        CHANGES[change](model)
    else:
        weights = model.get_weights()
        model = kt.Transformer(model.config, **CLASSES[change])
        model.set_weights(weights)
    return kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))


@pytest.mark.parametrize("change", ["feed-forward", "lora", "quantized"])
def test_a_different_model_is_not_written(tokenizer, tmp_path, change):
    translator = changed_translator(tokenizer, change)
    with pytest.raises(RuntimeError):
        export.save_ctranslate2(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["attention", "lora"])
def test_a_different_attention_is_not_converted(tokenizer, tmp_path, change):
    translator = changed_translator(tokenizer, change)
    with pytest.raises(kt.InputError, match="LoRA"):
        export.save_litert(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())
