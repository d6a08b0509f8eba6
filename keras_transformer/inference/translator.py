"""`Translator`: texts to ids, an engine that searches, ids to texts."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from keras_transformer.decoding.limits import longest_outputs
from keras_transformer.decoding.settings import BeamSearch, Search, SearchResult
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.engine import Engine, Ids
from keras_transformer.inference.records import (
    Score,
    Translation,
    TranslationAttention,
)
from keras_transformer.support.errors import InputError
from keras_transformer.support.fields import check_values, integer_from
from keras_transformer.tasks import Task
from keras_transformer.text import Tokenizer
from keras_transformer.text.normalization import without_blank
from keras_transformer.text.text_arguments import read_text

if TYPE_CHECKING:
    from keras_transformer.model import Transformer


class Translator(BaseTranslator):
    """Translates text with a model, its tokenizer and a search.

    `kt.open_translator` opens one from a folder, by a name or on a server. See
    also `BaseTranslator`.

    Args:
        model: A Transformer; a list of them, to average their probabilities (an
            ensemble); or an `Engine`.
        tokenizer: The tokenizer that all models were trained with.
        search: `BeamSearch` or `Sampling`. Default: the task's; for translation
            the paper's `BeamSearch()`.
        num_translations: n, at most the beam size or the number of samples.
        task: The model's task. Default: translation.

    Raises:
        InputError: If the tokenizer does not fit the model, or n the search.

    Example:

    ```python
    translator = kt.Translator(model, tokenizer)
    translator("I am a student.")  # "Ich bin Student."
    translator(["A dog.", "A cat."])  # ["Ein Hund.", "Eine Katze."]
    ```
    """

    def __init__(
        self,
        model: "Transformer | Sequence[Transformer] | Engine",
        tokenizer: Tokenizer,
        search: Search | None = None,
        num_translations: int = 1,
        task: Task | None = None,
    ) -> None:
        if not isinstance(tokenizer, Tokenizer):
            raise InputError(
                "A translator needs a tokenizer, such as kt.Tokenizer. "
                f"Received: tokenizer={tokenizer!r:.100}"
            )
        if not isinstance(model, Engine):
            import keras

            if keras.config.backend() == "tensorflow":
                from keras_transformer.inference.graph_engine import (
                    GraphEngine as KerasEngine,
                )
            else:
                from keras_transformer.inference.keras_engine import KerasEngine
            models = model if isinstance(model, list | tuple) else [model]
            model = KerasEngine(models, tokenizer)
        self.engine = model
        self.tokenizer = tokenizer
        self.task = task or self.task
        search = search or self.task.search
        self.search = search.with_num_translations(num_translations)
        self.num_translations = int(num_translations)
        self.max_length = model.max_length
        self.dtype = model.dtype
        self.target_languages = tokenizer.languages
        self.batch_tokens = model.batch_tokens
        self.recommended_workers = model.recommended_workers
        self.models = model.models
        self.has_trace = model.has_trace and isinstance(search, BeamSearch)

    @property
    def model(self) -> "Transformer":
        """The first Keras model."""
        self.check_layers()
        return self.models[0]

    def check_languages(self, texts: Sequence[str], first: int = 1) -> None:
        self.tokenizer.check_languages(texts, first)

    def _encode_sources(self, texts: Sequence[str]) -> list[Ids]:
        """Returns the ids of each text, without the end token."""
        return self.task.encode_sources(self.tokenizer, without_blank(texts))

    def _encode_targets(self, texts: Sequence[str]) -> list[Ids]:
        return self.task.encode_targets(self.tokenizer, texts)

    def _encode_prefixes(self, prefixes: list[str]) -> list[Ids]:
        if not any(prefixes):
            return [[] for _ in prefixes]
        self._check_text_targets("A prefix")
        self.tokenizer.target.check_known(prefixes)
        return self._encode_targets(prefixes)

    def _translate_batch(
        self, texts: list[str], sources: list[Ids], prefixes: list[Ids]
    ) -> list[Translation]:
        longest = self.max_length - 1  # the end token follows
        longest_prefix = max(longest - 1, 0)  # a token follows, too
        are_cut = [
            len(source) > longest or len(prefix) > longest_prefix
            for source, prefix in zip(sources, prefixes, strict=True)
        ]
        sources = [ids[:longest] for ids in sources]
        prefixes = [ids[:longest_prefix] for ids in prefixes]
        limits, result = self._search(sources, prefixes)
        translations = []
        for text, source, is_cut, limit, ids, scores, lengths in zip(
            texts, sources, are_cut, limits, *result, strict=True
        ):
            if not source:  # the empty translation is certain
                ids, scores, lengths = ids[:, :0], 0 * lengths, 0 * lengths
            outputs = [self.task.decode(self.tokenizer, x, text) for x in ids]
            best, are_repaired = zip(*outputs, strict=True)
            is_long = bool(lengths[0] >= limit)
            scores = scores.astype(float).tolist()
            differ = self.task.numbers_differ(text, best[0])
            flags = is_cut, is_long, are_repaired[0], differ
            translations.append(Translation(list(best), scores, *flags))
        return translations

    def _search(
        self, sources: list[Ids], prefixes: list[Ids]
    ) -> tuple[np.ndarray, SearchResult]:
        limits = self.limits(sources, prefixes)
        sources = [[*ids, self.tokenizer.source_eos_id] for ids in sources]
        settings = self.search, self.num_translations
        return limits, self.engine.search(sources, prefixes, limits, *settings)

    def limits(
        self, sources: Sequence[Ids], prefixes: Sequence[Ids]
    ) -> np.ndarray:
        """Returns the maximum lengths of translations, int32 `[B]`."""
        tokenizer, search = self.tokenizer, self.search
        end = int(tokenizer.source_eos_id != tokenizer.pad_id)
        limits = longest_outputs(
            np,
            np.array([len(ids) + end for ids in sources], np.float32),
            np.array([len(ids) for ids in prefixes], np.float32),
            np.float32(search.length_factor),
            min(search.extra_length, self.max_length),
            self.max_length,
        )
        return limits.astype(np.int32)

    def _score_batch(
        self, sources: list[Ids], targets: list[Ids]
    ) -> list[Score | None]:
        tokenizer, longest = self.tokenizer, self.max_length - 1
        log_probs = self.engine.log_probs(
            [[*ids[:longest], tokenizer.source_eos_id] for ids in sources],
            [[*ids[:longest], tokenizer.eos_id] for ids in targets],
        )
        scores: list[Score | None] = []
        for *pair, log_prob in zip(
            sources, targets, log_probs.tolist(), strict=True
        ):
            if max(map(len, pair)) > longest:
                scores.append(None)
                continue
            log_prob = log_prob if any(pair) else 0.0
            count = len(pair[1]) + 1  # with the end token
            score = log_prob / float(self.search.penalty(np.float32(count)))
            perplexity = math.exp(-log_prob / count)
            scores.append(Score(score, log_prob, perplexity, count))
        return scores

    def attention(self, text: Any, hypothesis: int = 0) -> TranslationAttention:
        """Returns the attention of every layer while a text is translated.

        Args:
            text: One text, as in `translate`.
            hypothesis: Index of the translation, 0 for the best.

        Returns:
            A `TranslationAttention`, of the first model of an ensemble.

        Raises:
            InputError: If the text is empty or longer than the model reads,
                there is no such translation, or the model is an export.
        """
        self.check_layers()
        from keras.ops import convert_to_numpy

        text, source = self.read_one(text)
        _, result = self._search([source], [[]])
        lengths = result.lengths[0]
        is_found = integer_from(0, np.count_nonzero(lengths) - 1)
        check_values(is_found, hypothesis=hypothesis)
        ids = result.ids[0, hypothesis, : lengths[hypothesis]]
        tokenizer = self.tokenizer
        source = [*source, tokenizer.source_eos_id]
        target = [tokenizer.bos_id, *ids[:-1].tolist()]
        inputs = (np.array([x], np.int32) for x in (source, target))
        scores = self.model.attention_scores(*inputs)
        output, _ = self.task.decode(tokenizer, ids, text)
        return TranslationAttention(
            text,
            output,
            tokenizer.source.pieces(source),
            tokenizer.target.pieces(target),
            tokenizer.source.words(source),
            tokenizer.target.words(target),
            *([convert_to_numpy(x[0]) for x in part] for part in scores),
        )

    def read_one(self, text: Any) -> tuple[str, list[int]]:
        """Returns a text that the model can read whole, and its ids."""
        text = read_text(text, "text")
        self.check_languages([text])
        (ids,) = self._encode_sources([text])
        limit = self.max_length - 1  # the end token follows
        if not 1 <= len(ids) <= limit:
            raise InputError(
                f"The text must have 1 to {limit} tokens. Received: {len(ids)} "
                "tokens"
            )
        return text, ids
