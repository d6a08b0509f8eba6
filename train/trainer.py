"""The training program: `Transformer.fit` on a corpus, into a run folder."""

import contextlib
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.train import training_settings
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.recipe import Recipe

if TYPE_CHECKING:
    import tensorflow as tf

    from keras_transformer.inference.run_folder import Run


def train(
    corpus: Corpus,
    output: str | Path | None,
    preset: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    *,
    architecture: Mapping[str, Any] | None = None,
    strategy: "tf.distribute.Strategy | str" = "single",
    init_from: str | Path | None = None,
    tokenizer: str | Path | Sequence[str | Path] | None = None,
    dry_run: bool = False,
) -> "Run | None":
    """Trains on the split `train`, and validates on `valid` if there is one.

    A corpus that is not prepared is prepared first, in the folder `data` of
    the run.

    Called again with the same arguments after training was interrupted, it
    resumes from the last saved state with the data in the run, and ends with
    the weights of a training that was never interrupted.

    Args:
        corpus: From `open_corpus`.
        output: Folder of the run. It must be new, empty, or contain a run
            that was started with the same arguments.
        preset: Name of the architecture and of the recipe. Default: with
            `init_from` the architecture of that run, and the recipe of its
            preset, if it has one: an imported model is trained at a low
            learning rate. Otherwise `"small"`.
        recipe: How to train, or the values that differ from the default: the
            preset's, with the `vocab_size` and the `max_length` of a prepared
            corpus or of `init_from`.
        architecture: Arguments of `TransformerConfig` that differ from the
            preset's.
        strategy: From `open_strategy`, or the name of one.
        init_from: A run whose tokenizer and newest weights a new run starts
            with. Its architecture must be the same, except for the dropout
            and, with sinusoidal positions, `max_length`.
        tokenizer: A SentencePiece model to use instead of training one, or
            the folder of a run or of a prepared corpus with one; or two
            models, of sources and of targets; by default the embeddings are
            then tied on the side of the target.
        dry_run: Report the data, the model and what three steps take, and
            write nothing; `output` does not matter.

    Returns:
        The run with its checkpoints; None after a dry run, and on workers
        other than the chief, which alone writes it.

    Raises:
        InputError: If the input is invalid, or training diverges.
    """
    if isinstance(tokenizer, str | Path):
        tokenizer = [tokenizer]
    tokenizer = tokenizer and [Path(path) for path in tokenizer]
    init_from = init_from and Path(init_from)
    with contextlib.ExitStack() as stack:
        if dry_run:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            output = Path(folder, "run")
        elif output is None:
            raise InputError(
                "A training needs a folder. Received: no output. Name one, or "
                "try the training with dry_run, --dry-run on the command line."
            )
        output = Path(output)
        settings = training_settings.choose_settings(
            corpus, output, preset, recipe, architecture, init_from, tokenizer
        )
        settings.check(corpus)
        if isinstance(strategy, str):
            import_tensorflow_quietly()
            from keras_transformer.train.strategy import open_strategy

            strategy = open_strategy(strategy)
        from keras_transformer.train.fitting.training_loop import run_training

        return run_training(settings, corpus, output, strategy, dry_run)
