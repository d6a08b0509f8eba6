"""What other systems cannot compute is refused."""

import pytest
from random_models import SMALL, random_translator

import keras_transformer as kt
from keras_transformer.export import save_ctranslate2, save_huggingface
from keras_transformer.support.errors import InputError


def refused(translator, tmp_path, *messages):
    for save, system in (
        (save_ctranslate2, "CTranslate2"),
        (save_huggingface, "Marian of Hugging Face"),
    ):
        with pytest.raises(InputError) as caught:
            save(translator, tmp_path / "model")
        for message in (f"{system} ", "Export a SavedModel", *messages):
            assert message in str(caught.value)
    assert not list(tmp_path.iterdir())


def test_everything_is_named_at_once(tokenizer, tmp_path):
    model = random_translator(tokenizer, attention_window=3).model
    refused(
        kt.Translator([model] * 2, tokenizer),
        tmp_path,
        "runs one model that translates, without restricted attention and ",
        "Received: 2 models: LiteRT has ensembles too, attention_window=3",
    )


class OtherFeedForward(kt.layers.FeedForward):
    """Computes the same."""


def test_subclasses(tokenizer, tmp_path):
    config = kt.TransformerConfig(vocab_size=tokenizer.vocab_size, **SMALL)
    model = kt.Transformer(config, feed_forward_class=OtherFeedForward)
    message = "layer_0/feed_forward, OtherFeedForward instead of FeedForward"
    refused(kt.Translator(model, tokenizer), tmp_path, message)


@pytest.mark.parametrize(
    "change",
    [
        lambda projection: projection.enable_lora(2),
        lambda projection: projection.quantize("int8"),
    ],
    ids=["lora", "quantized"],
)
def test_weights_that_are_not_plain(tokenizer, tmp_path, change):
    translator = random_translator(tokenizer)
    layer = translator.model.decoder.layers[1]
    change(layer.cross_attention.value_projection)
    refused(translator, tmp_path, "layer_1/cross_attention/value, Dense")
