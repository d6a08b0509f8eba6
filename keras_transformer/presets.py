"""Named architectures and how to train them: the paper's, and smaller ones."""

from typing import Any, NamedTuple

from keras_transformer.support.fields import check_values, one_of


class Preset(NamedTuple):
    """A named architecture with its training hyper-parameters.

    They are the arguments of `TransformerConfig` and of
    `keras_transformer.train.Recipe` that differ from base, as the rows of the
    paper's Table 3 leave a cell empty where it equals base's.
    """

    description: str  # in a few words
    architecture: dict[str, Any]  # of `TransformerConfig`
    recipe: dict[str, Any]  # of `Recipe`
    paper_parameters: int | None = None  # in millions; None: not in Table 3
    paper_perplexity: float | None = None  # per subword on newstest2013
    paper_bleu: float | None = None  # on newstest2013
    vocab_size: int = 37_000  # of the vocabulary that source and target share


def _row(
    description: str,
    perplexity: float,
    bleu: float,
    parameters: int = 65,
    recipe: dict[str, Any] | None = None,
    **architecture: Any,
) -> Preset:
    """Returns a row of Table 3."""
    return Preset(
        description, architecture, recipe or {}, parameters, perplexity, bleu
    )


PRESETS: dict[str, Preset] = {
    "tiny": Preset(
        description="for the bundled corpus and for tests",
        vocab_size=2_000,
        architecture=dict(num_layers=2, d_model=128, d_ff=512, num_heads=4),
        recipe=dict(steps=1_000, warmup_steps=400, batch_tokens=4_096),
    ),
    "small": Preset(
        description="for a hundred thousand sentence pairs on a CPU",
        vocab_size=8_000,
        architecture=dict(num_layers=3, d_model=256, d_ff=1024, num_heads=4),
        recipe=dict(steps=6_000, warmup_steps=2_000, batch_tokens=4_096),
    ),
    # As Wu et al. (ACL 2021) train on this corpus: 4,096 target tokens on
    # each of two GPUs, which are 16,384 tokens with the source, and a peak
    # learning rate of 0.005.
    "multi30k": Preset(
        description="the small model published for Multi30k",
        vocab_size=10_000,
        architecture=dict(
            num_layers=4, d_model=128, d_ff=256, num_heads=4, dropout=0.3
        ),
        recipe=dict(
            steps=8_000,
            steps_per_epoch=200,
            batch_tokens=16_384,
            warmup_steps=2_000,
            learning_rate_scale=2.5,
            max_to_keep=10,
        ),
    ),
    "base": _row("the paper's base model", 4.92, 25.8),
    "A-heads-1": _row("1 head", 5.29, 24.9, num_heads=1),
    "A-heads-4": _row("4 heads", 5.00, 25.5, num_heads=4),
    "A-heads-16": _row("16 heads", 4.91, 25.8, num_heads=16),
    "A-heads-32": _row("32 heads", 5.01, 25.4, num_heads=32),
    "B-d_k-16": _row("d_k 16", 5.16, 25.1, 58, d_k=16),
    "B-d_k-32": _row("d_k 32", 5.01, 25.4, 60, d_k=32),
    "C-layers-2": _row("2 layers", 6.11, 23.7, 36, num_layers=2),
    "C-layers-4": _row("4 layers", 5.19, 25.3, 50, num_layers=4),
    "C-layers-8": _row("8 layers", 4.88, 25.5, 80, num_layers=8),
    "C-d_model-256": _row(
        "d_model 256", 5.75, 24.5, 28, d_model=256, d_k=32, d_v=32
    ),
    "C-d_model-1024": _row(
        "d_model 1024", 4.66, 26.0, 168, d_model=1024, d_k=128, d_v=128
    ),
    "C-d_ff-1024": _row("d_ff 1024", 5.12, 25.4, 53, d_ff=1024),
    "C-d_ff-4096": _row("d_ff 4096", 4.75, 26.2, 90, d_ff=4096),
    "D-dropout-0.0": _row("no dropout", 5.77, 24.6, dropout=0.0),
    "D-dropout-0.2": _row("dropout 0.2", 4.95, 25.5, dropout=0.2),
    "D-smoothing-0.0": _row(
        "no label smoothing", 4.67, 25.3, recipe=dict(label_smoothing=0.0)
    ),
    "D-smoothing-0.2": _row(
        "label smoothing 0.2", 5.47, 25.7, recipe=dict(label_smoothing=0.2)
    ),
    "E-learned-positions": _row(
        "learned positions", 4.92, 25.7, positional_encoding="learned"
    ),
    "big": _row(
        "the paper's big model",
        4.33,
        26.4,
        213,
        recipe=dict(steps=300_000, max_to_keep=20),
        d_model=1024,
        d_ff=4096,
        num_heads=16,
        dropout=0.3,
    ),
    # Section 6.3: base except for these values. A tree has two to three symbols
    # per word.
    "parsing-wsj": Preset(
        description="the paper's parser, trained on WSJ alone: 91.3 F1",
        vocab_size=16_000,
        architecture=dict(num_layers=4, d_model=1024),
        recipe=dict(max_length=512),
    ),
    "parsing-semi": Preset(
        description="the paper's semi-supervised parser: 92.7 F1",
        vocab_size=32_000,
        architecture=dict(num_layers=4, d_model=1024),
        recipe=dict(max_length=512),
    ),
    "parsing-small": Preset(
        description="for twenty thousand trees on a CPU",
        vocab_size=8_000,
        architecture=dict(num_layers=3, d_model=256, d_ff=1024, num_heads=4),
        recipe=dict(
            steps=16_000, warmup_steps=2_000, batch_tokens=4_096, max_length=384
        ),
    ),
}


def find_preset(name: str) -> Preset:
    """Returns the preset of a name."""
    check_values(one_of(*PRESETS), preset=name)
    return PRESETS[name]
