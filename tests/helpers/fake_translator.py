"""A translator without a model, for tests of whatever uses translators."""

from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.records import Score, Translation


class FakeTranslator(BaseTranslator):
    """Translates into upper case; its tokens are words.

    The word "limit" sets `at_length_limit`, "differ" `numbers_differ`.
    """

    def __init__(self, num_translations=1, max_length=None, **attributes):
        self.num_translations = num_translations
        self.max_length = max_length
        self.batches = []  # the texts of each batch
        vars(self).update(attributes)

    def _encode_sources(self, texts):
        return [text.split() for text in texts]

    _encode_targets = _encode_sources

    def _encode_prefixes(self, prefixes):
        return prefixes

    def _translate_batch(self, texts, sources, prefixes):
        self.batches.append(texts)
        return [
            Translation(
                [f"{start}{text.upper()}"] * self.num_translations,
                [-float(i) for i in range(self.num_translations)],
                bool(self.max_length and len(text.split()) >= self.max_length),
                "limit" in text,
                numbers_differ="differ" in text,
            )
            for text, start in zip(texts, prefixes, strict=True)
        ]

    def _score_batch(self, sources, targets):
        self.batches.append([" ".join(target) for target in targets])
        longest = (self.max_length or 10**9) - 1
        return [
            None
            if max(map(len, pair)) > longest
            else Score(
                -(len(pair[1]) + 1) / 2,
                -float(len(pair[1]) + 1),
                2.7,
                len(pair[1]) + 1,
            )
            for pair in zip(sources, targets, strict=True)
        ]
