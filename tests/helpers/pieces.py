"""Small SentencePiece models of the demo corpus."""

import functools
from pathlib import Path

import sentencepiece
from tokenizer_texts import sentencepiece_model

DEMO = Path(__file__).parents[2] / "train" / "data" / "demo"


def demo_lines(name, count):
    """Returns the first lines of a file of the demo corpus."""
    return (DEMO / name).read_text("utf-8").splitlines()[:count]


@functools.cache
def pieces_model(language, size=120, **options):
    """Returns a model as bytes: the same on every call."""
    lines = demo_lines(f"train.{language}", 300)
    options = dict(character_coverage=1.0, hard_vocab_limit=False) | options
    return sentencepiece_model(lines, size, num_threads=1, **options)


def pieces_of(model):
    """Returns the pieces of a model except its special tokens."""
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return [
        processor.id_to_piece(i)
        for i in range(len(processor))
        if not processor.is_control(i) and not processor.is_unknown(i)
    ]
