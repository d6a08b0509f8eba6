"""Shortlists from pairs of texts, and from tables of Marian."""

import collections
import gzip

import numpy as np
from translation_fixtures import PAIRS as WORDS

from keras_transformer.export import make_shortlist, read_lexicon
from keras_transformer.export import shortlist as making

PAIRS = [*WORDS.items()]


def targets_of(shortlist, token):
    first, last = shortlist.starts[token : token + 2]
    return shortlist.targets[first:last].tolist()


def best_of_model_1(pairs):
    """Returns the best target of each source, from sums over sentences."""
    table = collections.defaultdict(lambda: 1.0)
    for _ in range(making._PASSES):
        counts, totals = collections.Counter(), collections.Counter()
        for source, target in pairs:
            for y in target:
                total = sum(table[x, y] for x in source)
                for x in source:
                    counts[x, y] += table[x, y] / total
                    totals[x] += table[x, y] / total
        table.update({(x, y): n / totals[x] for (x, y), n in counts.items()})
    return {
        x: {y: p for (other, y), p in table.items() if other == x}
        for x in totals
    }


def test_the_table_of_model_1(tokenizer, monkeypatch):
    monkeypatch.setattr(making, "_PER_SOURCE", 2)
    texts = [*PAIRS, ("", "Hund"), ("dog", "")]  # do not count
    shortlist = make_shortlist(tokenizer, iter(texts))
    encode = tokenizer.encode
    expected = best_of_model_1([encode(pair) for pair in PAIRS])
    assert len(shortlist.starts) == tokenizer.vocab_size + 1
    for token in range(tokenizer.vocab_size):
        own, *learned = targets_of(shortlist, token)
        best = expected.get(token, {})
        assert own == token and len(learned) == (token in expected)
        for target in learned:
            np.testing.assert_allclose(best[target], max(best.values()))


def test_frequent_tokens_are_always_listed(tokenizer, monkeypatch):
    monkeypatch.setattr(making, "_FREQUENT", 2)
    shortlist = make_shortlist(tokenizer, PAIRS)
    ids = [i for _, target in PAIRS for i in tokenizer.encode([target])[0]]
    counts = collections.Counter(ids)
    special = {tokenizer.unk_id, tokenizer.eos_id}
    frequent = set(shortlist.always) - special
    (_, first), (_, second) = counts.most_common(2)
    assert sorted(counts[i] for i in frequent) == [second, first]


def test_a_table_of_marian(tokenizer, tmp_path):
    dog, cat, pieces = 300, 301, tokenizer.pieces()
    lines = [
        f"{pieces[9]} {pieces[dog]} 0.2",
        f"{pieces[7]}\t{pieces[dog]}\t0.8",
        f"{pieces[8]} NULL 0.9",
        f"unseen {pieces[cat]} 1",
        f"{pieces[5]} {pieces[cat]} 0.1",
    ]
    file = tmp_path / "lex.s2t.gz"
    file.write_bytes(gzip.compress("\n".join(lines).encode()))
    shortlist = read_lexicon(tokenizer, file)
    assert targets_of(shortlist, dog) == [dog, 7, 9]
    assert targets_of(shortlist, cat) == [cat, 5]
    assert len(shortlist.targets) == 3 + len(pieces)
    assert shortlist.always.tolist()[:3] == [0, 1, 2]
