"""A translator without a model, for tests of whatever uses translators."""

from keras_transformer.inference.backend import Backend
from keras_transformer.inference.records import Score, Translation
from keras_transformer.inference.translator import Translator
from keras_transformer.tasks import TranslationTask


class FakeTask(TranslationTask):
    """The word "differ" sets `numbers_differ`."""

    def numbers_differ(self, source, output):
        return "differ" in source


class FakeBackend(Backend):
    """Translates into upper case; its tokens are words.

    The word "limit" sets `at_length_limit`.
    """

    task = FakeTask()

    def __init__(self, num_translations, **attributes):
        self.num_translations = num_translations
        self.batches = []  # the texts of each batch
        vars(self).update(attributes)

    def encode_sources(self, texts):
        return [text.split() for text in texts]

    encode_targets = encode_sources

    def encode_prefixes(self, texts):
        return texts

    def translate(self, pairs, workers):
        self.batches.append([pair.text for pair in pairs])
        longest = self.max_length or 10**9
        return [
            Translation(
                [f"{pair.target}{pair.text.upper()}"] * self.num_translations,
                [-float(i) for i in range(self.num_translations)],
                len(pair.source) >= longest,
                "limit" in pair.text,
            )
            for pair in pairs
        ]

    def score(self, pairs, workers):
        self.batches.append([" ".join(pair.target) for pair in pairs])
        longest = (self.max_length or 10**9) - 1
        return [
            None
            if max(len(pair.source), len(pair.target)) > longest
            else Score(
                -(len(pair.target) + 1) / 2,
                -float(len(pair.target) + 1),
                2.7,
                len(pair.target) + 1,
            )
            for pair in pairs
        ]


class FakeTranslator(Translator):
    """A translator of a `FakeBackend`, or of a different one."""

    backend_class = FakeBackend

    def __init__(self, num_translations=1, **attributes):
        self.backend = self.backend_class(num_translations, **attributes)
        vars(self).update(attributes)
        self.batches = getattr(self.backend, "batches", [])
