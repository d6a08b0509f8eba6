"""Translation, the paper's main task (sections 5 and 6.1)."""

import itertools
import logging
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.tasks.task import Pairs, Task
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import normalize_source

logger = logging.getLogger(__name__)


class TranslationTask(Task):
    """Text to text, scored by BLEU."""

    name = "translation"
    output = "translations"
    search = BeamSearch()
    metrics: ClassVar[dict[str, str]] = {
        "bleu": "BLEU",
        "chrf": "chrF",
        "tokenized_bleu": "tokenized BLEU",
        "ter": "TER",
    }
    # TER takes about a second per 100 sentences.
    default_metrics = ("bleu", "chrf", "tokenized_bleu")
    watched_metric = "bleu"

    def train_tokenizer(
        self, pairs: Pairs, vocab_size: int, tags: Sequence[str] = ()
    ) -> Tokenizer:
        # One vocabulary for both sides, as in the paper (section 5.1).
        sides = ((normalize_source(x), y) for x, y in pairs)
        texts = itertools.chain.from_iterable(sides)
        return Tokenizer.train(texts, vocab_size, tags=tags)

    def check_tokenizer(self, vocabulary: Tokenizer, pairs: Pairs) -> None:
        vocabulary.check_languages(source for source, _ in pairs)

    def check_metrics(
        self, language: str | None, metrics: Sequence[str]
    ) -> None:
        super().check_metrics(language, metrics)
        # sacreBLEU needs a package of its own for some languages.
        self.scores([""], [""], language, metrics)

    def choose_metric(
        self, references: Sequence[str], language: str | None
    ) -> str:
        """Returns chrF if no reference has the four tokens that BLEU needs.

        Even a perfect translation then has a BLEU of 0.
        """
        perfect = self.scores(references, references, language, ["bleu"])
        if perfect["bleu"] > 0:
            return "bleu"
        logger.info(
            "valid: all references are too short for BLEU; the best checkpoint "
            "is chosen by chrF"
        )
        return "chrf"

    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None,
        metrics: Sequence[str],
    ) -> dict[str, Any]:
        # Half a second to import, which translating does without.
        from keras_transformer.tasks.bleu import corpus_scores

        return corpus_scores(hypotheses, references, language or "en", metrics)
