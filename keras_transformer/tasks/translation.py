"""Translation, the paper's main task (sections 5 and 6.1)."""

import itertools
import logging
import re
import unicodedata
from collections.abc import Sequence
from typing import Any, ClassVar

from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.tasks.task import Pairs, Task
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import normalize_source
from keras_transformer.text.tags import TAG

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

    def train_tokenizer(
        self, pairs: Pairs, vocab_size: int, tags: Sequence[str] = ()
    ) -> Tokenizer:
        # One vocabulary for both sides, as in the paper (section 5.1).
        sides = ((normalize_source(x), y) for x, y in pairs)
        texts = itertools.chain.from_iterable(sides)
        return Tokenizer.train(texts, vocab_size, tags=tags)

    def check_tokenizer(self, tokenizer: Tokenizer, pairs: Pairs) -> None:
        tokenizer.check_languages(source for source, _ in pairs)

    def numbers_differ(self, source: str, output: str) -> bool:
        return _digits(source) != _digits(output)

    def check_metrics(
        self, language: str | None, metrics: Sequence[str]
    ) -> None:
        super().check_metrics(language, metrics)
        # Some languages need a package: sacreBLEU raises without it.
        self.scores([""], [""], language, metrics)

    def choose_metric(
        self, references: Sequence[str], language: str | None
    ) -> str:
        """Returns chrF if even perfect translations are too short for BLEU."""
        perfect = self.scores(references, references, language, ["bleu"])
        if perfect["bleu"] > 0:
            return "bleu"
        logger.info(
            "valid: references too short for BLEU: choosing the best "
            "checkpoint by chrF"
        )
        return "chrf"

    def scores(
        self,
        hypotheses: Sequence[str],
        references: Sequence[str],
        language: str | None,
        metrics: Sequence[str],
    ) -> dict[str, Any]:
        # Takes half a second to import.
        from keras_transformer.tasks.bleu import corpus_scores

        return corpus_scores(hypotheses, references, language or "en", metrics)


def _digits(text: str) -> list[int]:
    """Returns the sorted digits of a text, in any grouping, without tags."""
    text = re.sub(rf"^(\s*{TAG})+", "", text)
    text = unicodedata.normalize("NFKC", text)  # ½, m² and full-width digits
    return sorted(unicodedata.decimal(x) for x in text if x.isdecimal())
