"""Layers that other runtimes do not support are noticed."""

import dataclasses

import keras
import pytest
from random_models import random_translator

import keras_transformer as kt
from keras_transformer import export


@keras.saving.register_keras_serializable()
class OtherAttention(kt.layers.MultiHeadAttention):
    def attend(self, query, *arguments, **options):
        return super().attend(2.0 * query, *arguments, **options)


@keras.saving.register_keras_serializable()
class OtherFeedForward(kt.layers.FeedForward):
    def call(self, x, *arguments, **options):
        return super().call(x, *arguments, **options) + 0.1 * x


CLASSES = {
    "attention": dict(attention_class=OtherAttention),
    "feed-forward": dict(feed_forward_class=OtherFeedForward),
    "lora": {},
    "quantized": {},
}


def changed_translator(tokenizer, change):
    original = random_translator(tokenizer, num_layers=1).model
    config = dataclasses.replace(original.config, **CLASSES[change])
    model = kt.Transformer(config)
    model.set_weights(original.get_weights())
    layer = model.decoder.layers[0].cross_attention.value_projection
    if change == "lora":
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(layer.lora_kernel_b + 1.0)
    elif change == "quantized":
        layer.quantize("int8")
    return kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=1))


@pytest.mark.parametrize("change", ["feed-forward", "lora", "quantized"])
def test_a_different_model_is_not_written(tokenizer, tmp_path, change):
    translator = changed_translator(tokenizer, change)
    is_known = change == "feed-forward"
    with pytest.raises(kt.InputError if is_known else RuntimeError):
        export.save_ctranslate2(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("change", ["attention", "lora"])
def test_a_different_attention_is_not_converted(tokenizer, tmp_path, change):
    translator = changed_translator(tokenizer, change)
    with pytest.raises(kt.InputError, match="LoRA"):
        export.save_litert(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())
