"""A search over tables by hand, in the place of a translator."""

import types

import tensorflow as tf
from search_tables import BOS, EOS, PAD, UNK, tables_as_step

from keras_transformer.decoding import BeamSearcher
from keras_transformer.tasks import Outputs

LETTERS = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"]


class TableTranslator:
    """What `trace` needs of a translator. The source has no influence."""

    def __init__(self, table, search, max_length):
        self.search = search
        self.tokenizer = types.SimpleNamespace(
            pieces=lambda ids: [LETTERS[int(i)] for i in ids]
        )
        self.task = types.SimpleNamespace(
            source_texts=lambda texts: texts, output_texts=self._output_texts
        )

        def beam_search_steps(source, settings):
            step, cache, _ = tables_as_step(
                [table], settings.beam_size, [max_length]
            )
            searcher = BeamSearcher(
                step,
                settings.beam_size,
                settings.alpha,
                bos_id=BOS,
                eos_id=EOS,
                pad_id=PAD,
                banned_ids=(UNK,),
            )
            return searcher, searcher.start(cache, [max_length], None)

        self.tensors = types.SimpleNamespace(
            one_source=lambda text, what: (tf.constant([[4, EOS]]), text),
            ids=types.SimpleNamespace(beam_search_steps=beam_search_steps),
        )

    def _output_texts(self, tokenizer, ids, sources):
        pieces = tokenizer.pieces(ids[0, 0].numpy())
        texts = tf.constant([["".join(p for p in pieces if p != "</s>")]])
        return Outputs(texts, tf.constant([[False]]))
