"""`Translator`: translates texts with Keras models.

Letters: n = translations returned, S = source length, T = target length,
H = attention heads.
"""

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from keras_transformer.decoding import sequence_scores
from keras_transformer.decoding.settings import BeamSearch, Search
from keras_transformer.inference import records
from keras_transformer.inference.base import BaseTranslator
from keras_transformer.inference.records import EncodedTexts, Score, Translation
from keras_transformer.inference.run_folder import Run, check_same_tokenizer
from keras_transformer.inference.text_pipeline import TextPipeline
from keras_transformer.model import Transformer
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import check_backend, decoding_workers
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Vocabulary, read_texts
from keras_transformer.text.normalization import without_blank

_IDS = tf.RaggedTensorSpec([None, None], tf.int32)


class TranslationAttention(NamedTuple):
    """The attention of a model while it translates one text.

    There is one float32 array per layer, the first layer first. Row t of a
    decoder's array belongs to the prediction of the token that follows
    `target_tokens[t]`.
    """

    source: str  # the text
    output: str  # its translation
    source_tokens: list[str]  # S pieces, the end token last
    target_tokens: list[str]  # T pieces that the decoder reads, "<s>" first
    source_words: list[list[int]]  # positions of the pieces of each word
    target_words: list[list[int]]  # positions of the pieces of each word
    encoder: list[np.ndarray]  # [H, S, S]
    decoder: list[np.ndarray]  # [H, T, T]
    cross: list[np.ndarray]  # [H, T, S]


class Translator(BaseTranslator):
    """Translates text with a model, its tokenizer and a search.

    On CPU several workers are up to twice as fast as one if each uses one
    thread: set the environment variable `TF_NUM_INTRAOP_THREADS=1` before
    TensorFlow is imported.

    Args:
        model: The Transformer, or several whose probabilities are averaged
            (an ensemble). They share the tokenizer.
        tokenizer: The tokenizer that the model was trained with.
        search: `BeamSearch` or `Sampling`. Default: the task's, the paper's
            `BeamSearch()` of translation.
        num_translations: n, at most the beam size or the number of samples.
        task: The task that the model was trained for. Default: translation.

    Raises:
        InputError: If the tokenizer does not fit the model, or n the search.

    Example:

    ```python
    translator = kt.Translator.open("runs/demo")
    translator("I am a student.")  # "Ich bin Student."
    translator(["A dog.", "A cat."])  # ["Ein Hund.", "Eine Katze."]
    ```
    """

    def __init__(
        self,
        model: Transformer | Sequence[Transformer],
        tokenizer: Vocabulary,
        search: Search | None = None,
        num_translations: int = 1,
        task: Task | None = None,
    ) -> None:
        check_backend()
        if not isinstance(tokenizer, Vocabulary):
            raise InputError(
                "A translator needs a tokenizer, such as kt.Tokenizer. "
                f"Received: tokenizer={tokenizer!r:.100}"
            )
        if not isinstance(search, Search | None):
            raise InputError(
                "A translator needs a search, kt.BeamSearch or kt.Sampling. "
                f"Received: search={search!r:.100}"
            )
        task = task or TranslationTask()
        search = (search or task.search).with_num_translations(num_translations)
        models = [model] if isinstance(model, Transformer) else list(model)
        self.pipeline = TextPipeline(models, tokenizer)
        self.model = models[0]
        self.models = models
        self.tokenizer = tokenizer
        self.search = search
        self.task = task
        self.num_translations = num_translations
        self.max_length = self.pipeline.max_length
        self.checkpoints: list[tuple[Run, Path]] = []
        self._compiled: dict[Any, Callable] = {}
        self._traced_variables: list[Any] = []

    @classmethod
    def open(
        cls,
        run: str | os.PathLike | Run | Sequence[str | os.PathLike | Run],
        checkpoint: str | int | None = None,
        search: Search | None = None,
        num_translations: int = 1,
        dtype: str | None = None,
        task: Task | None = None,
    ) -> "Translator":
        """Returns the translator of a run folder that training wrote.

        Args:
            run: The folder or the opened `Run`, or several with the same
                tokenizer, whose models translate together.
            checkpoint: A step, `"best"` (by validation score) or `"last"`,
                the default.
            search: As in `Translator`. Default: the (first) run's.
            num_translations: As in `Translator`.
            dtype: Of weights and computation, as in `Run.load_model`. Softmax,
                normalization and scores remain float32.
            task: As in `Translator`. Default: the run's.

        Raises:
            InputError: If a folder is not a run or lacks the checkpoint, or
                the tokenizers differ.
        """
        folders = [run] if isinstance(run, str | os.PathLike | Run) else run
        runs = [x if isinstance(x, Run) else Run.open(x) for x in folders]
        check_same_tokenizer(runs)
        checkpoints = [(run, run.find_checkpoint(checkpoint)) for run in runs]
        models = [run.load_model(path, dtype) for run, path in checkpoints]
        task = task or runs[0].task
        search = search or runs[0].default_search
        tokenizer = runs[0].tokenizer
        translator = cls(models, tokenizer, search, num_translations, task)
        translator.checkpoints = checkpoints
        return translator

    @property
    def dtype(self) -> str:
        """Keras dtype policy of the first model."""
        return self.model.dtype_policy.name

    @property
    def metadata(self) -> dict[str, Any]:
        runs = [run for run, _ in self.checkpoints]
        return {"runs": [{**run.statistics, **run.recipe} for run in runs]}

    @property
    def description(self) -> str:
        paths = [str(run.path) for run, _ in self.checkpoints]
        return ", ".join([f"a model for {self.task.name}", *paths])

    @property
    def capabilities(self) -> frozenset[str]:
        names = {"attention", "perplexity"}
        if isinstance(self.search, BeamSearch):
            names.add("trace")
        if self.task.targets_are_text:
            names |= {"prefixes", "score"}
        return frozenset(names)

    @property
    def recommended_workers(self) -> int:
        return decoding_workers()

    def _encode_sources(self, texts: list[str]) -> EncodedTexts:
        self.check_languages(texts)
        tokenize, encode = self.pipeline.source_ids, self.task.encode_sources
        return self._encode(texts, tokenize, encode)

    def _encode_targets(self, texts: list[str]) -> EncodedTexts:
        tokenize, encode = self.pipeline.target_ids, self.task.encode_targets
        return self._encode(texts, tokenize, encode)

    def _encode(
        self, texts: list[str], tokenize: Callable, encode: Callable
    ) -> EncodedTexts:
        """Calls `tokenize` in a graph, or `encode` if outputs are repaired."""
        if not self.task.repairs:
            ids = tokenize(tf.constant(texts, tf.string))
        else:
            rows = encode(self.tokenizer, without_blank(texts))
            ids = tf.ragged.constant(rows, tf.int32, ragged_rank=1)
        return EncodedTexts(texts, ids.row_lengths().numpy().tolist(), ids)

    def _translate_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        prefixes: EncodedTexts | None,
    ) -> list[Translation]:
        ids, starts = tf.gather(sources.ids, rows), _no_ids(len(rows))
        if prefixes is not None:
            starts = tf.gather(prefixes.ids, rows)
        batch, result = self._translate_graph()(ids, starts)
        columns = [x.numpy() for x in batch[:4]]  # all but `repaired`
        translations = records.translations_of_columns(columns)
        if not self.task.repairs:
            return translations
        texts = [sources.texts[row] for row in rows]
        triples = zip(translations, result.ids.numpy(), texts, strict=True)
        return [self._repaired(*triple) for triple in triples]

    def _repaired(
        self, translation: Translation, ids: np.ndarray, source: str
    ) -> Translation:
        """Returns a translation with the outputs that its ids `[n, T]` are."""
        outputs = [self.task.decode(self.tokenizer, x, source) for x in ids]
        texts, repaired = zip(*outputs, strict=True)
        return translation._replace(texts=list(texts), repaired=repaired[0])

    def _score_batch(
        self,
        rows: list[int],
        workers: int,
        sources: EncodedTexts,
        targets: EncodedTexts,
    ) -> list[Score]:
        source_ids, _, _ = self.pipeline.with_end(tf.gather(sources.ids, rows))
        targets = tf.gather(targets.ids, rows)
        label_ids, counts, _ = self.pipeline.labels_with_end(targets)
        log_probs = self.pipeline.token_log_probs(source_ids, label_ids)
        scores = sequence_scores(log_probs, counts, self.search)
        columns = [column.numpy().tolist() for column in (*scores, counts)]
        return [Score(*row) for row in zip(*columns, strict=True)]

    def attention(self, text: Any, hypothesis: int = 0) -> TranslationAttention:
        """Returns the attention of every layer while a text is translated.

        Args:
            text: One text, as in `translate`.
            hypothesis: Which translation, from 0 for the best to
                `num_translations` - 1.

        Returns:
            A `TranslationAttention`. Of several models it is the attention
            of the first.

        Raises:
            InputError: If there is not exactly one text, it has no tokens or
                more than the model reads, or there is no such translation.
        """
        ids, text = self.encode_one_source(text, "Attention is computed")
        # Compiled, as in `translate`: another program rounds differently.
        _, result = self._translate_graph()(ids, _no_ids(1))
        lengths = result.lengths[0].numpy()
        check_hypothesis(hypothesis, np.count_nonzero(lengths))
        source, _, _ = self.pipeline.with_end(ids)
        labels = result.ids[:, hypothesis, : lengths[hypothesis]]
        target = self.pipeline.decoder_input(labels)
        scores = self.model.attention_scores(source, target)
        output, _ = self.task.decode(self.tokenizer, labels[0].numpy(), text)
        source_ids, target_ids = source[0].numpy(), target[0].numpy()
        return TranslationAttention(
            text,
            output,
            self.tokenizer.source.pieces(source_ids),
            self.tokenizer.target.pieces(target_ids),
            self.tokenizer.source.words(source_ids),
            self.tokenizer.target.words(target_ids),
            *([layer[0].numpy() for layer in layers] for layers in scores),
        )

    def encode_one_source(
        self, text: Any, purpose: str
    ) -> tuple[tf.RaggedTensor, str]:
        """Returns the ids of one text `[1, (S)]`, and the text.

        Args:
            text: One text, as in `translate`.
            purpose: The beginning of an error message.

        Raises:
            InputError: If there is not exactly one text, or it has no tokens
                or more than the model reads.
        """
        texts, is_single = read_texts(text, "text")
        if not is_single:
            raise InputError(
                f"{purpose} for one text at a time. Received: "
                f"{len(texts)} texts"
            )
        ids = self._encode_sources(texts).ids
        count, limit = len(ids[0]), self.max_length - 1
        if not 1 <= count <= limit:
            raise InputError(
                f"{purpose} for a text of 1 to {limit} tokens. Received: a "
                "text " + (f"of {count} tokens" if count else "without tokens")
            )
        return ids, texts[0]

    def _translate_graph(self) -> Callable:
        """Returns the graph of `TextPipeline.translate`."""
        settings = (self.num_translations, self.search)
        return self.compiled(
            ("translate", *settings),
            lambda source, prefix: self.pipeline.translate(
                source, *settings, prefix
            ),
            [_IDS, _IDS],
        )

    def compiled(
        self, key: Any, function: Callable, signature: Sequence[Any]
    ) -> Callable:
        """Returns the graph of a function of the models, which is kept.

        It is made again if the models have other variables than before, as
        with LoRA, after quantization or with another layer.

        Args:
            key: A name of the function that no other has.
            function: A function of tensors.
            signature: Their `tf.TensorSpec`s.
        """
        variables = [x for model in self.models for x in model.variables]
        if list(map(id, variables)) != list(map(id, self._traced_variables)):
            self._traced_variables, self._compiled = variables, {}
        graphs = self._compiled
        if key not in graphs:
            # AutoGraph, which nothing here needs, takes longer than tracing.
            graphs[key] = tf.function(function, signature, autograph=False)
        return graphs[key]


def _no_ids(count: int) -> tf.RaggedTensor:
    """Returns the ids of texts without tokens, `[count, (0)]`."""
    ids, splits = tf.zeros([0], tf.int32), tf.zeros([count + 1], tf.int64)
    return tf.RaggedTensor.from_row_splits(ids, splits, validate=False)


def check_hypothesis(hypothesis: int, count: int) -> None:
    """Raises InputError unless the search has found this hypothesis."""
    if not 0 <= hypothesis < count:
        raise InputError(
            f"There are {count} translations; the best one has the number 0. "
            f"Received: hypothesis={hypothesis}"
        )
