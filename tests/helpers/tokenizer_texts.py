"""Texts that the tests train tokenizers on, and odd texts."""

import io
import random

import sentencepiece

CORPUS = [
    "A man is riding a bicycle through the old town.",
    "Ein Mann fährt mit dem Fahrrad durch die Altstadt.",
    "Two dogs are playing in the snow near the house.",
    "Zwei Hunde spielen im Schnee in der Nähe des Hauses.",
    "The weather was better than the forecast, wasn't it?",
    "Das Wetter war besser als die Vorhersage, nicht wahr?",
] * 4

# Normalized already, so that they are decoded as they are.
LOSSLESS = [
    "",
    "A man is riding a dog.",
    "Ein Mann fährt durch den Schnee.",
    "Übergrößenträger",
    "„Nein“, sagte er – ‚wirklich‘ … «non» “no”",
    "½ litre, ﬁne, Ａ１，。 x² ™",
    "猫は魚が好きです。 Кошка ест рыбу. القط",
    "🦩👩‍👩‍👧‍👦 ok 🇩🇪",
    "non\u00a0breaking\u200bzero",
    "nul\0inside",
    "<s> </s> <pad> <unk> <0x41>",
    "x" * 5000,
]
_PARTS = (
    *("A man", " ", "\t", "\n", "\v", "\r", "\u2003", "\u2581", "\0", "\x85"),
    *("<s>", "<unk>", "<0xFF>", ">>deu<<", ">>a b<<", ">>xx<<", ">>", "<<"),
    *("e\u0301", "\u0301", "ß", "猫", "🦩", "\ufeff", "\uffff", "\U0010ffff"),
)


def odd_texts(count):
    """Returns `LOSSLESS`, and texts of words, marks and rare characters."""
    generator = random.Random(0)
    return LOSSLESS + [
        "".join(generator.choices(_PARTS, k=generator.randrange(6)))
        for _ in range(count)
    ]


def sentencepiece_model(texts, size, **options):
    """Trains as the library does by default; returns the serialized model."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(texts),
        model_writer=model,
        vocab_size=size,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def write_model(path, size, model_type="bpe", texts=CORPUS, **options):
    """Writes a model that the library has trained; returns its processor."""
    model = sentencepiece_model(texts, size, model_type=model_type, **options)
    path.write_bytes(model)
    return sentencepiece.SentencePieceProcessor(str(path))
