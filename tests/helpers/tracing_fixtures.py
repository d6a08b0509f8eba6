"""A search over tables by hand, instead of a translator."""

import types

from search_tables import BOS, EOS, PAD, UNK, table_of, tables_as_step

from keras_transformer.decoding import BeamSearcher
from keras_transformer.decoding.search_arrays import SpecialIds

TABLE = table_of(
    a=-1.0, b=-1.5, _=-2.5, aa=-0.7, a_=-1.2, ba=-2.0, b_=-0.9, aa_=-0.1
)
LETTERS = ["<pad>", "<unk>", "<s>", "</s>", "a", "b"]


class TableTranslator:
    """What `trace` needs of a translator. The source has no influence."""

    def __init__(self, table, search, max_length):
        self.search, self.num_translations = search, search.beam_size
        self.tokenizer = types.SimpleNamespace(
            pieces=lambda ids: [LETTERS[int(i)] for i in ids],
            vocab_size=len(LETTERS),
            source_eos_id=EOS,
        )
        self.tokenizer.source = self.tokenizer.target = self.tokenizer
        special = SpecialIds(
            bos_id=BOS, eos_id=EOS, pad_id=PAD, banned_ids=(PAD, UNK, BOS)
        )

        def beam_search_steps(source, limit, settings, count):
            step, cache, _ = tables_as_step(
                [table], settings.beam_size, [max_length]
            )
            searcher = BeamSearcher(step, settings, count, **special._asdict())
            return searcher, searcher.start(cache, [max_length], None)

        self.engine = types.SimpleNamespace(beam_search_steps=beam_search_steps)
        self.max_length = max_length
        self.task = types.SimpleNamespace(decode=self._decode)

    def check_trace(self):
        pass

    def read_one(self, text):
        return text, [4]

    def limits(self, sources, prefixes):
        return [self.max_length]

    def _decode(self, vocabulary, ids, source):
        pieces = vocabulary.pieces(ids)
        return "".join(piece for piece in pieces if piece != "</s>"), False
