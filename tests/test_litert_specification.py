"""docs/litert-format.md is enough to use the two signatures."""

import numpy as np
import pytest
from documents import blocks
from helpers import randomise
from translation_fixtures import PAIRS

import keras_transformer as kt
from keras_transformer.export import save_litert
from keras_transformer.runs.run_folder import find_folder

ALPHA = 1.5  # longer hypotheses often win
TEXTS = [
    *PAIRS,
    "The good house sleeps.",
    "dog",
    "The\u00a0red d\u00adog\u3000sleeps.\ufeff",
    " \u200b\0",
    "",
    "The red cat and the old tree. " * 9,  # is cut
    "A text with words that it has never seen, and numbers: 12,345!",
]


@pytest.fixture(scope="module")
def folder(tokenizer, tmp_path_factory):
    """Two models in one, with different numbers of heads."""
    models = []
    for seed in (1, 2):
        config = kt.TransformerConfig(
            vocab_size=tokenizer.vocab_size,
            num_layers=1,
            d_model=16,
            d_ff=16,
            num_heads=2 * seed,
            d_k=4,
            d_v=6,
            decoder_heads=4,
            attention_window=4,
            output_bias=True,
            max_length=60,
        )
        model = kt.Transformer(config)
        randomise(model, seed)
        # Hypotheses of all lengths.
        bias = model.output_embedding.bias
        bias.assign(bias.numpy() + 2.0 * np.eye(bias.shape[0])[config.eos_id])
        models.append(model)
    # It needs more candidates.
    search = kt.BeamSearch(5, alpha=ALPHA, extra_length=3, no_repeat_ngram=1)
    translator = kt.Translator(models, tokenizer, search, num_translations=5)
    return save_litert(translator, tmp_path_factory.mktemp("litert") / "en-de")


def program_of(folder):
    """Returns the names that the program of the page leaves."""
    (source,) = blocks("docs/litert-format.md", "python")
    assert source.count('"demo-litert"') == 1
    names = {}
    exec(source.replace('"demo-litert"', repr(str(folder))), names)
    return names


@pytest.fixture(scope="module")
def program(folder):
    return program_of(folder)


@pytest.mark.parametrize(
    ("beam_size", "count", "form", "stop", "size"),
    [
        (1, 1, "wu", "exact", 0),
        (5, 2, "wu", "exact", 1),
        (2, 1, "power", "exact", 2),
        (5, 2, "wu", "finished", 0),
        (2, 2, "power_without_end", "heuristic", 0),
    ],
)
def test_the_program_of_the_page_translates(
    folder, program, beam_size, count, form, stop, size
):
    values = dict(length_penalty=form, stop=stop, no_repeat_ngram=size)
    search = kt.BeamSearch(beam_size, alpha=ALPHA, extra_length=3, **values)
    translator = kt.open_translator(
        folder, search=search, num_translations=count
    )
    program["about"]["search"] |= values
    lengths = set()
    for text, expected in zip(TEXTS, translator.translate(TEXTS), strict=True):
        found = program["translate"](text, beam_size, ALPHA, count)
        texts, scores = expected.texts, expected.scores
        assert [text for _, text in found] == texts[: len(found)]
        assert [score for score, _ in found] == pytest.approx(
            scores[: len(found)], rel=1e-4
        )
        assert not any(texts[len(found) :])
        lengths.update(map(len, expected.texts))
    assert len(lengths) > 3


def test_the_program_of_the_page_translates_sentences():
    """With the included model, whose weights are int8."""
    sentences = [
        "If it rains tomorrow, we will stay at home and play cards.",
    ]
    translate = program_of(find_folder("en-de"))["translate"]
    translator = kt.open_translator("en-de", num_translations=4)
    for text, found in zip(
        sentences, translator.translate(sentences), strict=True
    ):
        expected = translate(text, 4, 0.6, 4)
        scores = [score for score, _ in expected]
        assert found.texts == [text for _, text in expected]
        assert found.scores == pytest.approx(scores, abs=5e-3)


def test_the_first_program_of_the_page(folder):
    (source,) = blocks("docs/litert.md", "python")
    names = {}
    exec(source.replace('"demo-litert"', repr(str(folder))), names)
    translate, sentences = names["translator"], names["sentences"]
    found = [translation.texts[0] for translation in names["translations"]]
    assert found == translate(sentences)
    assert names["greedy"].search == kt.BeamSearch(beam_size=1)
