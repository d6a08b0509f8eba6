"""A model that was written is compared with the translator that it is from."""

import dataclasses
import math
from types import SimpleNamespace

import pytest

from keras_transformer.export.dtypes import TOLERANCES
from keras_transformer.export.verification import PROBES, check_scores
from keras_transformer.inference.records import Score


@dataclasses.dataclass
class FakeTranslator:
    """Scores a source by its length."""

    tokenizer: object
    computes_in: str = "float32"
    max_length: int = 24
    error: float = 0.0  # per token
    scored: list = dataclasses.field(default_factory=list)

    @property
    def model(self):
        return SimpleNamespace(compute_dtype=self.computes_in)

    def score(self, sources, targets):
        self.scored += zip(sources, targets, strict=True)
        return [
            Score(0.0, -len(source) - 7 * self.error, 0.0, 7)
            for source in sources
        ]


@pytest.mark.parametrize(
    ("format", "dtype"),
    [(format, dtype) for format in TOLERANCES for dtype in TOLERANCES[format]],
)
def test_tolerances(tokenizer, format, dtype):
    translator = FakeTranslator(tokenizer)
    tolerance = TOLERANCES[format][dtype]
    written = FakeTranslator(tokenizer, error=-0.9 * tolerance)
    check_scores(written.score, translator, format, dtype)
    for error in (1.1 * tolerance, -1.1 * tolerance, math.nan):
        written = FakeTranslator(tokenizer, error=error)
        with pytest.raises(RuntimeError, match="LoRA"):
            check_scores(written.score, translator, format, dtype)


def test_the_wider_dtype_counts(tokenizer):
    translator = FakeTranslator(tokenizer, "bfloat16")
    written = FakeTranslator(tokenizer, error=0.1)
    check_scores(written.score, translator, "ctranslate2", "float32")


def test_every_probe_is_scored_with_every_probe(tokenizer):
    translator = FakeTranslator(tokenizer, max_length=100)
    check_scores(translator.score, translator, "litert", "float32")
    pairs = [(source, target) for source in PROBES for target in PROBES]
    assert translator.scored == 2 * pairs


def test_texts_are_shortened_to_what_can_be_scored(tokenizer):
    translator = FakeTranslator(tokenizer, max_length=6)
    check_scores(translator.score, translator, "litert", "float32")
    assert translator.scored
    for pair in translator.scored:
        assert all(1 <= len(ids) < 6 for ids in tokenizer.encode(pair))
