"""Text -> ids -> search -> text.

Letters: B = batch, K = beam size, n = translations returned, S = source
length, T = target length, V = vocabulary.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import (
    BeamSearch,
    SearchResult,
    sequence_scores,
)
from keras_transformer.errors import InputError
from keras_transformer.model import Transformer
from keras_transformer.text import Tokenizer

_MOST_SENTENCES = 128


class Translation(NamedTuple):
    """What became of one source sentence."""

    texts: list[str]  # best first
    scores: list[float]  # log P / length penalty, of each text
    truncated: bool  # the source was cut, or the best text met its limit


class Translator:
    """Translates text with a model, its tokenizer and a search.

    A source longer than the model's `max_length` is cut, and a translation
    ends at the search's limit; `truncated` tells of both. A source without
    tokens (empty or blank) has the translation "" with score 0. Where a
    vocabulary so small that the search finds fewer than n hypotheses is
    searched, the missing texts are empty and their scores -inf.

    Args:
        model: The Transformer.
        tokenizer: The tokenizer that it was trained with.
        search: How to search. Default: `BeamSearch()`, the paper's.
        num_translations: n, at most the beam size. Default: 1.

    Raises:
        InputError: If the tokenizer does not fit the model, or n the search.

    Example:

    ```python
    translator = kt.Translator(model, tokenizer, kt.BeamSearch(beam_size=4))
    translator(["I am a student."])  # ["Ich bin Student."]
    ```
    """

    def __init__(
        self,
        model: Transformer,
        tokenizer: Tokenizer,
        search: BeamSearch | None = None,
        num_translations: int = 1,
    ) -> None:
        search = search or BeamSearch()
        if not 1 <= num_translations <= search.beam_size:
            raise InputError(
                "The number of translations must be from 1 to the beam size. "
                f"Received: num_translations={num_translations}, "
                f"beam_size={search.beam_size}"
            )
        config = model.config
        ids = (config.vocab_size, config.pad_id, config.bos_id, config.eos_id)
        own = (
            tokenizer.vocab_size,
            tokenizer.pad_id,
            tokenizer.bos_id,
            tokenizer.eos_id,
        )
        if ids != own:
            raise InputError(
                "The tokenizer must be the one that the model was trained "
                "with. Received: (vocab_size, pad_id, bos_id, eos_id) = "
                f"{own} of the tokenizer, {ids} of the model"
            )
        self.model = model
        self.tokenizer = tokenizer
        self.search = search
        self.num_translations = num_translations
        self._translate = self.make_function()

    def make_function(self) -> tf.types.experimental.PolymorphicFunction:
        """Returns the graph function that a SavedModel serves.

        It takes `text`, a string tensor `[B]`, and returns `translations`
        `[B, n]`, `scores` float32 `[B, n]`, best first, and `truncated`
        bool `[B]`.
        """
        text = tf.TensorSpec([None], tf.string, name="text")
        return tf.function(self._translate_batch, input_signature=[text])

    def __call__(self, texts: Sequence[str]) -> list[str]:
        """Returns the best translation of each text."""
        return [translation.texts[0] for translation in self.translate(texts)]

    def translate(
        self, texts: Sequence[str], batch_tokens: int = 2048
    ) -> list[Translation]:
        """Translates texts, in batches of similar length.

        Args:
            texts: Any number of sentences.
            batch_tokens: Source tokens in a batch, padding included; less
                takes less memory. A batch has at most 128 sentences.

        Returns:
            A `Translation` a text, in the order of the texts.
        """
        texts = _texts(texts)
        translations: list = [None] * len(texts)
        for batch in self._batches(texts, batch_tokens):
            outputs = self._translate(tf.constant([texts[i] for i in batch]))
            rows = zip(
                batch,
                outputs["translations"].numpy(),
                outputs["scores"].numpy(),
                outputs["truncated"].numpy(),
                strict=True,
            )
            for i, candidates, scores, truncated in rows:
                # A model may spell bytes that are no UTF-8.
                decoded = [t.decode("utf-8", "replace") for t in candidates]
                translations[i] = Translation(
                    decoded, scores.tolist(), bool(truncated)
                )
        return translations

    def score(
        self,
        sources: Sequence[str],
        targets: Sequence[str],
        batch_tokens: int = 2048,
    ) -> list[float]:
        """Returns the score that the search would give to given targets.

        The tokenizer decides how a target is cut into tokens. A search may
        have spelled the same text with others: of those ids `score_ids`
        gives the score.

        Args:
            sources: Texts. An empty one has the score 0, as in `translate`.
            targets: A translation of each, which the model is forced to.
            batch_tokens: As in `translate`, of the targets.

        Raises:
            InputError: If there are not as many targets as sources, or one
                of them is longer than the model's `max_length`.
        """
        sources, targets = _texts(sources), _texts(targets)
        if len(sources) != len(targets):
            raise InputError(
                "There must be one target a source. Received: "
                f"{len(sources)} sources, {len(targets)} targets"
            )
        scores = np.zeros(len(sources))
        for batch in self._batches(targets, batch_tokens):
            source, lengths, cut = self.source_ids(
                tf.constant([sources[i] for i in batch])
            )
            labels, _, label_cut = self.source_ids(
                tf.constant([targets[i] for i in batch])
            )
            if tf.reduce_any(cut | label_cut):
                raise InputError(
                    "A text that is scored must not exceed the model's "
                    f"longest of {self.model.config.max_length} tokens. "
                    "Received: a longer one"
                )
            found = self.score_ids(source, labels)
            scores[batch] = tf.where(tf.equal(lengths, 1), 0.0, found)
        return scores.tolist()

    def score_ids(self, source: tf.Tensor, labels: tf.Tensor) -> tf.Tensor:
        """Returns float32 `[B]`: the scores of labels `[B, T]`.

        Args:
            source: `[B, S]` ids with their end tokens, padded.
            labels: `[B, T]` ids with their end tokens, padded.
        """
        config = self.model.config
        bos = tf.fill([tf.shape(labels)[0], 1], config.bos_id)
        target = tf.concat([bos, labels[:, :-1]], axis=1)
        logits = self.model({"source": source, "target": target})
        return sequence_scores(labels, logits, self.search.alpha, config.pad_id)

    def source_ids(
        self, text: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns what the model reads of texts.

        Args:
            text: String tensor `[B]`.

        Returns:
            Ids `[B, S]` with their end tokens, padded; their lengths `[B]`,
            the end token included; and bool `[B]`, True where a text was
            cut at the model's `max_length`.
        """
        config = self.model.config
        ids = self.tokenizer.tokenize(text)
        cut = ids.row_lengths() > config.max_length - 1
        ids = ids[:, : config.max_length - 1]
        end = tf.fill([ids.nrows(), 1], config.eos_id)
        ids = tf.concat([ids, tf.cast(end, ids.dtype)], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids.to_tensor(config.pad_id), lengths, cut

    def search_ids(self, source: tf.Tensor) -> SearchResult:
        """Searches for translations of source ids.

        Args:
            source: `[B, S]` ids with their end tokens, padded.
        """
        config = self.model.config

        def step(ids, parents, cache, index):
            logits, cache = self.model.decode_step(ids, parents, cache, index)
            logits = tf.cast(logits, tf.float32)  # [B, K, V]
            return tf.nn.log_softmax(logits), cache

        memory = self.model.encode(source)
        lengths = tf.reduce_sum(
            tf.cast(source != config.pad_id, tf.int32), axis=1
        )
        return self.search(
            step,
            self.model.start_cache(memory, self.search.beam_size),
            self._max_lengths(lengths),
            bos_id=config.bos_id,
            eos_id=config.eos_id,
            pad_id=config.pad_id,
            banned_ids=(self.tokenizer.unk_id,),
        )

    def _max_lengths(self, source_lengths: tf.Tensor) -> tf.Tensor:
        return tf.minimum(
            source_lengths + self.search.extra_length,
            self.model.config.max_length,
        )

    def _translate_batch(self, text: tf.Tensor) -> dict[str, tf.Tensor]:
        source, lengths, cut = self.source_ids(text)
        result = self.search_ids(source)
        n = self.num_translations
        empty = tf.equal(lengths, 1)  # nothing but the end token
        at_limit = result.lengths[:, 0] >= self._max_lengths(lengths)
        translations = self.tokenizer.detokenize(result.ids[:, :n])
        return {
            "translations": tf.where(empty[:, None], "", translations),
            "scores": tf.where(empty[:, None], 0.0, result.scores[:, :n]),
            "truncated": cut | (at_limit & ~empty),
        }

    def _batches(
        self, texts: Sequence[str], batch_tokens: int
    ) -> list[list[int]]:
        """Groups indices of texts of similar length, longest first."""
        if not texts:
            return []
        limit = self.model.config.max_length
        lengths = self.tokenizer.tokenize(tf.constant(list(texts)))
        lengths = np.minimum(lengths.row_lengths().numpy() + 1, limit)
        batches: list[list[int]] = []
        room = 0
        for i in np.argsort(-lengths, kind="stable"):
            if room < 1:
                batches.append([])
                room = batch_tokens // int(lengths[i])
                # Every sentence costs K rows of V log-probabilities.
                room = min(max(room, 1), _MOST_SENTENCES)
            batches[-1].append(int(i))
            room -= 1
        return batches


def _texts(texts: Iterable[str]) -> list[str]:
    """A list of texts; one text would be taken letter by letter."""
    if isinstance(texts, str | bytes):
        raise InputError(
            "Several texts are expected. Received: a single one; put it into "
            "a list."
        )
    return list(texts)
