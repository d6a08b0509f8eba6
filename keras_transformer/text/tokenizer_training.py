"""Trains the SentencePiece model of a `Tokenizer`."""

import io
import random
import re
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import explain_missing_packages
from keras_transformer.text import normalization
from keras_transformer.text.tags import check_tags
from keras_transformer.text.text_arguments import read_text
from keras_transformer.text.vocabulary import parse_model

# The trainer skips lines of more than 4,192 bytes; a character has at most 4.
_MAX_LINE_LENGTH = 1_000


def train_model(
    texts: Iterable[str],
    vocab_size: int,
    max_sentences: int,
    symbols: Sequence[str],
    tags: Sequence[str],
) -> bytes:
    """Returns a serialized model; for arguments see `Tokenizer.train`."""
    check_tags(tags)
    if isinstance(texts, str | bytes):
        raise InputError(
            f"must be a list of texts. Received: one text, {texts!r:.60}",
            argument="texts",
        )
    with explain_missing_packages():
        import sentencepiece

    # SentencePiece's own sample differs from process to process.
    lines = sample(_read_lines(texts), max_sentences)
    model = io.BytesIO()
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "rules.tsv")
        rules.write_text(normalization.normalization_rules(), "ascii")
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=iter(lines),
                model_writer=model,
                model_type="bpe",
                # The error for less than 4 does not name the minimum.
                vocab_size=max(vocab_size, 4),
                byte_fallback=True,
                split_digits=True,
                character_coverage=0.99999,
                normalization_rule_tsv=str(rules),
                control_symbols=list(symbols),
                # With its space, so that none is left to the text after it.
                user_defined_symbols=[f"▁{tag}" for tag in dict.fromkeys(tags)],
                pad_id=0,
                unk_id=1,
                bos_id=2,
                eos_id=3,
                minloglevel=2,
            )
        except RuntimeError as error:
            raise _explain(str(error), vocab_size) from error
    proto = parse_model(model.getvalue())
    proto.normalizer_spec.ClearField("normalization_rule_tsv")  # temporary
    return proto.SerializeToString(deterministic=True)


def _read_lines(texts: Iterable[str]) -> Iterator[str]:
    """Yields lines that the trainer accepts."""
    for i, text in enumerate(texts):
        text = read_text(text, f"texts[{i}]").replace("\0", "")
        for start in range(0, len(text), _MAX_LINE_LENGTH):
            yield text[start : start + _MAX_LINE_LENGTH]


def sample(items: Iterable[Any], count: int, seed: int = 0) -> list[Any]:
    """Returns a uniform random sample of `count` items (algorithm R)."""
    generator = random.Random(seed)
    drawn: list[Any] = []
    for number, item in enumerate(items):
        if number < count:
            drawn.append(item)
        elif (place := generator.randint(0, number)) < count:
            drawn[place] = item
    return drawn


def _explain(message: str, vocab_size: int) -> Exception:
    """Converts a message of the SentencePiece trainer to an exception."""
    received = f"Received: {vocab_size}"
    smallest = re.search(r"than required_chars\. \d+ vs (\d+)", message)
    if smallest:
        return InputError(
            f"must be at least {smallest[1]} for this text: 4 special tokens, "
            f"256 bytes and one token for each of its characters. {received}",
            argument="vocab_size",
        )
    largest = re.search(r"set it to a value <= (\d+)", message)
    if largest:
        return InputError(
            f"must be at most {largest[1]} for this text, which has no more "
            f"pairs to merge. {received}. Use more text, or a smaller "
            "vocabulary.",
            argument="vocab_size",
        )
    if "!sentences_.empty()" in message or "all_chars_count" in message:
        return InputError(
            "A tokenizer must be trained on lines of text. Received: only "
            "blank lines, or none. Check the data and the filters."
        )
    return RuntimeError(f"SentencePiece could not train: {message}")
