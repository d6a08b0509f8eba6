"""Translates string tensors: text -> ids -> search -> text.

`Translator` calls it with Python's texts; an exported model consists of it.

Letters: B = batch, K = beam size, n = translations returned, S = source
length.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from keras_transformer.decoding import SearchResult
from keras_transformer.decoding.search import Search
from keras_transformer.inference.id_translator import (
    VOCABULARY_FIELDS,
    IdTranslator,
)
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Outputs, Task
from keras_transformer.text import Tokenizer, read_texts


class Hypotheses(NamedTuple):
    """What the search found for a batch of texts, as tensors."""

    result: SearchResult
    is_empty: tf.Tensor  # [B] boolean, True where the source has no tokens
    source_truncated: tf.Tensor  # [B] boolean, source or prefix was cut
    at_length_limit: tf.Tensor  # [B] boolean, of the best hypothesis


class TensorTranslator:
    """Translates string tensors.

    Args:
        models: As in `IdTranslator`.
        tokenizer: The tokenizer that the models were trained with.
        search: The search.
        task: What the models were trained for.

    Raises:
        InputError: If the tokenizer does not fit the models.
    """

    def __init__(
        self,
        models: Sequence[Transformer],
        tokenizer: Tokenizer,
        search: Search,
        task: Task,
    ) -> None:
        self.task = task
        self.ids = IdTranslator(models, search, tokenizer.unk_id)
        names = VOCABULARY_FIELDS
        of_model = [getattr(self.ids.config, name) for name in names]
        of_tokenizer = [getattr(tokenizer, name) for name in names]
        if of_model != of_tokenizer:
            raise InputError(
                "The tokenizer must be the one that the model was trained "
                f"with. Received: ({', '.join(names)}) = {of_tokenizer} of "
                f"the tokenizer, {of_model} of the model"
            )
        self.tokenizer = tokenizer

    def source_ids(
        self, text: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the ids that the model reads of texts.

        Args:
            text: String tensor `[B]`.

        Returns:
            Ids `[B, S]` with their end tokens, padded; their lengths `[B]`,
            the end token included; and bool `[B]`, True where a text was
            cut at the model's `max_length`.
        """
        return self._with_end(self.task.source_ids(self.tokenizer, text))

    def one_source(self, text: Any, what: str) -> tuple[tf.Tensor, str]:
        """Returns the ids of one text `[1, S]`, and the text.

        Args:
            text: One text, as in `Translator.translate`.
            what: What it is needed for, for the error message.

        Raises:
            InputError: If there is not exactly one text, or it has no tokens
                or more than the model reads.
        """
        texts, is_single = read_texts(text, "text")
        if not is_single:
            raise InputError(
                f"{what} for one text at a time. Received: {len(texts)} texts"
            )
        tensor = tf.constant(texts)
        source, lengths, cut = self.source_ids(tensor)
        if cut[0] or lengths[0] == 1:
            received = "a text without tokens"
            if cut[0]:
                ids = self.task.source_ids(self.tokenizer, tensor)
                received = f"a text of {len(ids[0])} tokens"
            raise InputError(
                f"{what} for a text of 1 to {self.ids.max_length - 1} tokens. "
                f"Received: {received}"
            )
        return source, texts[0]

    def target_ids(
        self, text: tf.Tensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        """Returns the ids of given targets, as `source_ids` does of sources."""
        return self._with_end(self.task.target_ids(self.tokenizer, text))

    def _with_end(
        self, ids: tf.RaggedTensor
    ) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        config, limit = self.ids.config, self.ids.max_length - 1
        cut = ids.row_lengths() > limit
        ids = ids[:, :limit]
        end = tf.fill([ids.nrows(), 1], config.eos_id)
        ids = tf.concat([ids, end], axis=1)
        lengths = tf.cast(ids.row_lengths(), tf.int32)
        return ids.to_tensor(config.pad_id), lengths, cut

    def hypotheses(
        self, text: tf.Tensor, prefix: tf.Tensor | None = None, **options: Any
    ) -> Hypotheses:
        """Searches for translations of texts, in a graph or eagerly.

        Args:
            text: String tensor `[B]`.
            prefix: String tensor `[B]`, what each translation begins with.
            **options: As in `IdTranslator.search`.
        """
        source, lengths, cut = self.source_ids(text)
        if prefix is not None:
            ids = self.task.target_ids(self.tokenizer, prefix)
            # There is room for a token and the end token after it.
            limit = max(self.ids.max_length - 2, 0)
            cut |= ids.row_lengths() > limit
            ids = ids[:, :limit]
            prefix = ids.to_tensor(self.ids.config.pad_id)
        result = self.ids.search(source, prefix, **options)
        limits = self.ids.max_lengths(source, prefix, **options)
        is_empty = lengths == 1  # nothing but the end token
        at_limit = (result.lengths[:, 0] >= limits) & ~is_empty
        return Hypotheses(result, is_empty, cut, at_limit)

    def translate(
        self,
        text: tf.Tensor,
        num_translations: int,
        prefix: tf.Tensor | None = None,
        **options: Any,
    ) -> dict[str, tf.Tensor]:
        """Translates a batch of texts, in a graph or eagerly.

        Args:
            text: String tensor `[B]`.
            num_translations: n.
            prefix: As in `hypotheses`.
            **options: As in `hypotheses`.

        Returns:
            The outputs under the name that the task gives them, such as
            `translations`, string `[B, n]`; `scores` float32 `[B, n]`, best
            first; boolean `[B]` `source_truncated` and `at_length_limit`; and
            of parsing `repaired`, of the best tree.
        """
        n = num_translations
        found = self.hypotheses(text, prefix, **options)
        is_empty = found.is_empty[:, None]
        outputs = self.output_texts(found, text, n)
        values = {
            self.task.output: outputs.texts,
            "scores": tf.where(is_empty, 0.0, found.result.scores[:, :n]),
            "source_truncated": found.source_truncated,
            "at_length_limit": found.at_length_limit,
        }
        if self.task.repairs:
            values["repaired"] = outputs.repaired[:, 0]
        return values

    def output_texts(
        self, found: Hypotheses, text: tf.Tensor, count: int | None = None
    ) -> Outputs:
        """Returns the texts of hypotheses.

        Args:
            found: From `hypotheses`.
            text: As in `hypotheses`.
            count: n, how many per source. Default: K.
        """
        outputs = self.task.output_texts(
            self.tokenizer, found.result.ids[:, :count], text
        )
        if not self.task.targets_are_text:
            return outputs
        # The translation of nothing is nothing, whatever the search finds.
        texts = tf.where(found.is_empty[:, None], "", outputs.texts)
        return outputs._replace(texts=texts)

    def one_output(self, ids: tf.Tensor, text: str) -> str:
        """Returns the text of one hypothesis.

        Args:
            ids: `[T]`, without padding.
            text: The source.
        """
        outputs = self.task.output_texts(
            self.tokenizer, ids[None, None], tf.constant([text])
        )
        return outputs.texts[0, 0].numpy().decode("utf-8", "replace")


def check_hypothesis(hypothesis: int, count: int) -> None:
    """Checks which of the translations of a text is asked for.

    Args:
        hypothesis: Its number, from 0 for the best.
        count: How many the search has found.

    Raises:
        InputError: If there is no such translation.
    """
    if not 0 <= hypothesis < count:
        raise InputError(
            f"There are {count} translations; the best one has the number 0. "
            f"Received: hypothesis={hypothesis}"
        )
