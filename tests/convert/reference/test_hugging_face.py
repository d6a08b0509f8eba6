"""Random models of transformers, imported, against transformers itself.

Needs PyTorch and transformers.
"""

from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("transformers")
import torch
from marian_models import CONFIGURATIONS, read_marian, write_marian
from tokenizer_texts import odd_texts

import keras_transformer as kt
from keras_transformer.convert.foreign_model import NEVER

DEMO = Path(kt.train.__file__).parent / "data" / "demo"
ENGLISH, GERMAN = (
    (DEMO / f"test.{language}").read_text("utf-8").splitlines()
    for language in ("en", "de")
)
# What the tokenizer of transformers also finds inside a text.
SPECIAL = ("<s>", "</s>", "<unk>", "<pad>", ">>", "<<")


def has_unknown_run(processor, text):
    """Whether SentencePiece makes one unknown piece of several characters.

    transformers has one id for it. Here each character has its own, if any.
    """
    pieces = processor.encode(text, out_type=str)
    return any(
        len(piece) > 1 and processor.is_unknown(processor.piece_to_id(piece))
        for piece in pieces
    )


class Case:
    """A model of transformers, and what we make of its folder."""

    def __init__(self, folder):
        self.folder = folder
        self.model, self.tokenizer = read_marian(folder)
        self.translator = kt.convert.load(folder, "huggingface")
        self.pad = self.tokenizer.pad_token_id
        # What is padding is left out before the softmax. transformers does so
        # afterwards, and then divides by the sum of what is left.
        self.model.final_logits_bias[:, self.pad] = NEVER
        for side in (self.model.model.encoder, self.model.model.decoder):
            # A file in half precision has them rounded, and we compute them.
            table = side.embed_positions.weight
            half = table.shape[1] // 2
            rates = 10000.0 ** -(np.arange(half) / half)
            angles = np.arange(len(table))[:, None] * rates
            exact = np.concatenate([np.sin(angles), np.cos(angles)], axis=1)
            table.data = torch.tensor(exact, dtype=torch.float32)

    def sources(self, texts):
        return self.tokenizer(texts, return_tensors="pt", padding=True)

    def generate(self, texts, beam_size, early_stopping):
        """Returns ids and score of each text; we never write <unk>."""
        with torch.no_grad():
            found = self.model.generate(
                **self.sources(texts),
                num_beams=beam_size,
                early_stopping=early_stopping,
                bad_words_ids=[[self.tokenizer.unk_token_id]],
                renormalize_logits=False,
                return_dict_in_generate=True,
                output_scores=True,
                output_logits=True,  # with <unk>
            )
        ids = [
            [i for i in row if i != self.pad]
            for row in found.sequences.tolist()
        ]
        if beam_size > 1:
            return ids, found.sequences_scores.tolist()
        # `compute_transition_scores` fails with separate vocabularies.
        chosen = found.sequences[:, 1:]
        log_probs = torch.stack(found.logits, dim=1).log_softmax(dim=-1)
        scores = log_probs.gather(-1, chosen[..., None])[..., 0]
        totals = torch.where(chosen == self.pad, 0.0, scores).sum(dim=1)
        power = self.translator.search.alpha
        return ids, [
            total / len(row) ** power
            for row, total in zip(ids, totals.tolist(), strict=True)
        ]


@pytest.fixture(scope="module", params=CONFIGURATIONS)
def case(request, tmp_path_factory):
    name = request.param
    return Case(write_marian(tmp_path_factory.mktemp("marian") / name, name))


def test_source_ids(case):
    texts = ENGLISH + [
        text
        for text in odd_texts(500)
        if not any(special in text for special in SPECIAL)
    ]
    odd = len(texts)
    texts = [
        text
        for text in texts
        if not has_unknown_run(case.tokenizer.spm_source, text)
    ]
    assert len(texts) > 0.9 * odd
    codes = case.tokenizer.supported_language_codes
    texts += [f"{code} {text}" for code in codes for text in ENGLISH[:50]]
    expected = case.tokenizer(texts)["input_ids"]
    end = case.translator.tokenizer.eos_id
    assert len(texts) > 700 and len(codes) in (0, 2)
    found = case.translator.tokenizer.encode_sources(texts)
    assert [[*ids, end] for ids in found] == expected


def test_logits(case):
    inputs = case.sources(ENGLISH[:64])
    ids = case.tokenizer(text_target=GERMAN[:64], padding=True)["input_ids"]
    ids = np.roll(np.array(ids, "int32"), 1, axis=1)
    ids[:, 0] = case.model.config.decoder_start_token_id
    with torch.no_grad():
        expected = case.model(
            **inputs, decoder_input_ids=torch.tensor(ids)
        ).logits.numpy()
    source = inputs["input_ids"].numpy().astype("int32")
    found = case.translator.model({"source": source, "target": ids}).numpy()
    assert expected.std() > 0.5  # the sentences have different logits
    np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-4)


@pytest.mark.parametrize(
    ("beam_size", "early_stopping", "stop"),
    [
        *((1, False, "heuristic"), (4, False, "heuristic")),
        *((4, True, "finished"), (4, "never", "exact")),
    ],
)
def test_search(case, beam_size, early_stopping, stop):
    texts = ENGLISH[:200]
    codes = case.translator.tokenizer.languages
    if codes:  # fewer of the outputs end
        texts = [f">>{codes[0]}<< {text}" for text in ENGLISH[:400]]
    expected, scores = case.generate(texts, beam_size, early_stopping)
    # Of what does not end there, the end token is forced, which costs nothing
    # in transformers.
    limit = case.model.generation_config.max_length - 1
    ended = [i for i, ids in enumerate(expected) if len(ids) < limit]
    assert len(ended) > 20
    search = dict(vars(case.translator.search), beam_size=beam_size, stop=stop)
    translator = kt.Translator(
        case.translator.model,
        case.translator.tokenizer,
        kt.BeamSearch(**search),
    )
    equal = 0
    for i, found in zip(
        ended, translator.translate([texts[i] for i in ended]), strict=True
    ):
        text = case.tokenizer.decode(expected[i], skip_special_tokens=True)
        if found.texts[0] == text:
            equal += 1
            assert found.scores[0] == pytest.approx(scores[i], abs=1e-4)
        else:  # a tie
            assert found.scores[0] == pytest.approx(scores[i], abs=1e-4), text
    assert equal >= 0.98 * len(ended)
