"""A translator without a model, for tests of whatever uses translators."""

from keras_transformer.inference.base import CAPABILITIES, BaseTranslator
from keras_transformer.inference.records import EncodedTexts, Score, Translation
from keras_transformer.tasks import TranslationTask


class FakeTranslator(BaseTranslator):
    """Translates into upper case; its tokens are words.

    A text that has the word "limit" is at the limit of its length. The
    log-probability of a target is minus its number of tokens.
    """

    capabilities = frozenset(CAPABILITIES)
    description = "a fake"
    task = TranslationTask()

    def __init__(self, num_translations=1, max_length=None, **attributes):
        self.num_translations = num_translations
        self.max_length = max_length
        self.batches = []  # the texts of each batch
        vars(self).update(attributes)

    def _encode_sources(self, texts):
        ids = [text.split() for text in texts]
        return EncodedTexts(texts, list(map(len, ids)), ids)

    _encode_targets = _encode_sources

    def _translate_batch(self, rows, workers, sources, prefixes):
        texts = [sources.texts[row] for row in rows]
        self.batches.append(texts)
        starts = [""] * len(rows)
        if prefixes is not None:
            starts = [prefixes.texts[row] for row in rows]
        return [
            Translation(
                [f"{start}{text.upper()}"] * self.num_translations,
                [-float(i) for i in range(self.num_translations)],
                bool(self.max_length and len(text.split()) >= self.max_length),
                "limit" in text,
            )
            for text, start in zip(texts, starts, strict=True)
        ]

    def _score_batch(self, rows, workers, sources, targets):
        self.batches.append([targets.texts[row] for row in rows])
        counts = [len(targets.ids[row]) + 1 for row in rows]
        return [
            Score(-count / 2, -float(count), 2.7, count) for count in counts
        ]
