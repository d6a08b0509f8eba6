"""Trees as sequences and back, and splitting into words, in TensorFlow.

An exported parser contains them. `linearization.py` describes the sequences.

Letters: B = batch, N = sequences, T = pieces, W = words.
"""

import tensorflow as tf

from keras_transformer.tasks.parsing.linearization import UNKNOWN_TAG
from keras_transformer.tasks.parsing.trees import ROOT

# How the Penn Treebank splits English text into words: quotes become `` and
# '', brackets -LRB- and the like; punctuation and clitics are words. Patterns
# and replacements, in the order in which they are applied.
_WORD_RULES = (
    ("[‘’]", "'"),
    ("“", " `` "),
    ("”", " '' "),
    (r"^\s*\"", "`` "),
    (r"([\s(\[{<])\"", r"\1 `` "),
    (r"\.\.\.", " ... "),
    (r"([:,])([^\d])", r" \1 \2"),
    (r"([:,])\s*$", r" \1 "),
    (r"([;@#$%&?!])", r" \1 "),
    (r"([^.\s])(\.)([\])}>\"']*)\s*$", r"\1 \2\3 "),
    (r"\(", " -LRB- "),
    (r"\)", " -RRB- "),
    (r"\[", " -LSB- "),
    (r"\]", " -RSB- "),
    (r"\{", " -LCB- "),
    (r"\}", " -RCB- "),
    (r"--+", " -- "),
    (r"\"", " '' "),
    (r"([^'\s])('[sSmMdD]|'ll|'LL|'re|'RE|'ve|'VE|n't|N'T)(\s|$)", r"\1 \2\3"),
    (r"([^'\s])'(\s|$)", r"\1 '\2"),
    (r"\b([Cc]an)(not)\b", r"\1 \2"),
)


def split_words(texts: tf.Tensor) -> tf.Tensor:
    """Returns the words of English sentences, as in the Penn Treebank.

    Sentences `[B]`; their words are separated by single spaces.
    """
    for pattern, replacement in _WORD_RULES:
        texts = tf.strings.regex_replace(texts, pattern, replacement)
    return join_words(texts)


def join_words(texts: tf.Tensor) -> tf.Tensor:
    """Returns words `[B]` separated by single spaces, without round brackets.

    Invalid UTF-8 becomes U+FFFD, as in the tokenizer: the words are part of
    the tree.
    """
    texts = tf.strings.unicode_transcode(texts, "UTF-8", "UTF-8", "replace")
    texts = tf.strings.regex_replace(texts, r"\(", "-LRB-")
    texts = tf.strings.regex_replace(texts, r"\)", "-RRB-")
    return tf.strings.strip(tf.strings.regex_replace(texts, r"[\s\v]+", " "))


def restore_texts(
    pieces: tf.Tensor,
    is_symbol: tf.Tensor,
    words: tf.RaggedTensor,
    spelled: tf.RaggedTensor,
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns the trees of sequences `[N]`, whatever these are.

    `pieces` `[N, T]` is a model's output, "" for padding: brackets and tags
    where `is_symbol`, pieces of words elsewhere. `words` `[N, (W)]`, without
    round brackets, are those of the sentences, and `spelled` the joined pieces
    of each; a sentence without words has the tree `(TOP)`. Also returns
    boolean `[N]`, True where a sequence was repaired, that is, where its
    symbols differ from those of the tree: by the rules in `docs/parsing.md`.
    """
    # One more column, so that T is at least 1.
    pieces = tf.pad(pieces, [[0, 0], [0, 1]])
    is_symbol = tf.pad(is_symbol, [[0, 0], [0, 1]])
    first = tf.strings.substr(pieces, 0, 1)
    is_open, is_tag, is_close = (is_symbol & (first == x) for x in "(/)")
    labels = tf.strings.regex_replace(pieces, "^[(/)]", "")

    # Rules 1 and 2: words are aligned.
    written = _written_words(pieces, is_symbol)
    used, kept = _align(written, is_tag, spelled)
    word_texts = _tagged_words(words.to_tensor(""), labels, used, kept)

    # Rules 3 and 4: a bracket closes all that is inside.
    closed, still_open = _count_closed(labels, is_open, is_close)
    brackets = tf.strings.reduce_join(tf.fill(tf.shape(pieces)[1:], ")"))
    closing = tf.strings.substr(brackets, tf.zeros_like(closed), closed)
    bracket_texts = tf.where(is_open, tf.strings.join([" (", labels]), closing)
    texts = tf.strings.join([word_texts[:, :-1], bracket_texts])
    texts = tf.strings.reduce_join(texts, axis=1)
    closing = tf.strings.substr(brackets, tf.zeros_like(still_open), still_open)
    parts = [f"({ROOT}", texts, word_texts[:, -1], closing, ")"]
    texts = tf.strings.join(parts)

    # Rule 5: constituents without words are removed.
    kept_texts = _replace_all(texts, r" \([^\s()]+\)", "")
    wrong = (is_tag & ~kept) | (is_close & (closed != 1))
    count = tf.reduce_sum(tf.cast(kept, tf.int64), axis=1)
    repaired = (
        tf.reduce_any(wrong, axis=1)
        | (count < words.row_lengths())
        | (still_open > 0)
        | (kept_texts != texts)
    )
    return kept_texts, repaired


def _replace_all(texts: tf.Tensor, pattern: str, new: str) -> tf.Tensor:
    """Replaces a pattern until no text `[B]` contains it."""

    def replace(texts, _):
        replaced = tf.strings.regex_replace(texts, pattern, new)
        return replaced, tf.reduce_any(replaced != texts)

    start = texts, tf.constant(True)
    return tf.while_loop(lambda _, changed: changed, replace, start)[0]


def _written_words(pieces: tf.Tensor, is_symbol: tf.Tensor) -> tf.Tensor:
    """Returns the word between each piece and the symbol before, `[N, T]`."""
    number = tf.cumsum(tf.cast(is_symbol, tf.int32), axis=1, exclusive=True)
    parts = tf.where(is_symbol, "", pieces)
    words = _join_by_place(parts, number, tf.shape(pieces)[1])
    return tf.gather(words, number, batch_dims=1)


def _join_by_place(
    texts: tf.Tensor, places: tf.Tensor, count: tf.Tensor
) -> tf.Tensor:
    """Joins the texts of a row that have the same place; `[N, count]`."""
    rows = tf.shape(texts)[0]
    segments = places + tf.range(rows)[:, None] * count
    joined = tf.strings.unsorted_segment_join(texts, segments, rows * count)
    return tf.reshape(joined, [rows, count])


def _align(
    written: tf.Tensor, is_tag: tf.Tensor, words: tf.RaggedTensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Aligns the words that a model wrote with those of the sentence.

    The written words `[N, T]` count where there is a tag. Returns integers
    `[N, T]`, how many of the words `[N, (W)]` are passed after each piece; and
    boolean `[N, T]`, True where the last of them is the word of this tag.
    """
    num_words = tf.cast(words.row_lengths(), tf.int32)
    words = words.to_tensor("")
    j = tf.range(tf.shape(words)[1] + 1)
    far = tf.reduce_sum(tf.shape(written)) + j[-1]  # more than any distance
    exists = j <= num_words[:, None]

    # The distance of the words that are written from a piece on and words[j:],
    # and whether its word is paired or dropped before words[j] is passed.
    def extend(state, column):
        below, *_ = state  # [N, W + 1]
        word, is_tag = column  # [N]
        differs = tf.cast(tf.not_equal(word[:, None], words), tf.int32)
        paired = tf.pad(below[:, 1:] + differs, [[0, 0], [0, 1]])
        paired = tf.where(j < num_words[:, None], paired, far)
        best = tf.minimum(paired, below + 1)
        # Or some words are missing first.
        later = tf.where(j >= j[:, None], (best + j)[:, None], 2 * far)
        row = tf.reduce_min(later, axis=2) - j
        row = tf.where(is_tag[:, None] & exists, row, below)
        return row, tf.equal(best, row), tf.equal(paired, row)

    columns = tf.transpose(written), tf.transpose(is_tag)
    below = tf.where(exists, num_words[:, None] - j, far)
    _, may_stop, may_pair = tf.scan(  # [T, N, W + 1]
        extend, columns, (below, exists, exists), reverse=True
    )

    def take(state, column):
        start, _ = state  # [N]
        is_tag, may_stop, may_pair = column
        stops = may_stop & (j >= start[:, None])
        stop = tf.argmax(tf.cast(stops, tf.int32), 1, tf.int32)
        kept = is_tag & tf.gather(may_pair, stop, batch_dims=1)
        return tf.where(is_tag, stop + tf.cast(kept, tf.int32), start), kept

    zeros, columns = tf.zeros_like(num_words), (columns[1], may_stop, may_pair)
    used, kept = tf.scan(take, columns, (zeros, zeros > 0))
    return tf.transpose(used), tf.transpose(kept)


def _tagged_words(
    words: tf.Tensor, labels: tf.Tensor, used: tf.Tensor, kept: tf.Tensor
) -> tf.Tensor:
    """Returns the words that each piece adds, and those after all pieces.

    Takes the words `[N, W]`, padded, and `used` and `kept` of `_align`;
    returns texts `[N, T + 1]`.
    """
    columns = tf.shape(labels)[1]
    index = tf.broadcast_to(tf.range(tf.shape(words)[1]), tf.shape(words))
    place = tf.searchsorted(used, index, side="right")  # [N, W], T at most
    last = tf.minimum(place, columns - 1)
    used, kept, labels = (
        tf.gather(x, last, batch_dims=1) for x in (used, kept, labels)
    )
    tags = tf.where(kept & (used == index + 1), labels, UNKNOWN_TAG)
    texts = tf.strings.join([" (", tags, " ", words, ")"])
    texts = tf.where(words == "", "", texts)
    return _join_by_place(texts, place, columns + 1)


def _count_closed(
    labels: tf.Tensor, is_open: tf.Tensor, is_close: tf.Tensor
) -> tuple[tf.Tensor, tf.Tensor]:
    """Returns how many constituents each piece `[N, T]` closes, and the end."""
    shape = tf.shape(labels)
    ids = tf.reshape(tf.unique(tf.reshape(labels, [-1])).idx, shape)
    level = tf.range(shape[1])

    def step(t, depth, opened, closed):
        label = ids[:, t, None]
        is_match = (opened == label) & (level < depth[:, None])
        last = tf.reduce_max(tf.where(is_match, level, -1), axis=1)
        count = tf.where(is_close[:, t] & (last >= 0), depth - last, 0)
        is_next = is_open[:, t, None] & (level == depth[:, None])
        return (
            t + 1,
            depth + tf.cast(is_open[:, t], tf.int32) - count,
            tf.where(is_next, label, opened),  # [N, T]: the labels per depth
            closed.write(t, count),
        )

    start = (
        0,
        tf.zeros(shape[:1], tf.int32),
        tf.zeros_like(ids),
        tf.TensorArray(tf.int32, shape[1]),
    )
    _, depth, _, closed = tf.while_loop(lambda t, *_: t < shape[1], step, start)
    return tf.transpose(closed.stack()), depth
