"""Trains the included translator with Keras on JAX, without TensorFlow.

KERAS_BACKEND=jax python benchmarks/train_en_de.py PREPARED RUN

PREPARED is a folder that `keras-transformer prepare` wrote. RUN gets a
checkpoint per epoch, for `keras-transformer average` (docs/en-de.md).
"""

import argparse
import time
from pathlib import Path

import keras
import numpy as np

import keras_transformer as kt
from keras_transformer.runs.run_folder import Run
from keras_transformer.train.data.encoding import TokenShard
from keras_transformer.train.data.prepared import open_prepared

# JAX compiles the model for each of these lengths.
_LENGTHS = (12, 16, 24, 40, 64)
_BATCH_TOKENS = 32_768
_MAX_TO_KEEP = 12  # checkpoints


class Batches(keras.utils.PyDataset):
    """Shuffled batches of pairs of similar length, padded to few lengths.

    Args:
        shards: The ids of the pairs.
        config: Its special tokens end, begin and pad the texts.
        batch_tokens: Number of tokens in a batch, with padding, both sides.
    """

    def __init__(
        self,
        shards: list[TokenShard],
        config: kt.TransformerConfig,
        batch_tokens: int,
    ) -> None:
        super().__init__()
        self._bos_id = config.bos_id
        self._random = np.random.default_rng(1)
        # Source and labels [number of pairs, length], for each length.
        self._texts: list[tuple[np.ndarray, np.ndarray]] = []
        self._batches: list[tuple[int, np.ndarray]] = []
        shorter = 0
        for length in _LENGTHS:
            padded = [
                _pad(shard, shorter, length, config.eos_id, config.pad_id)
                for shard in shards
            ]
            source, labels = map(np.concatenate, zip(*padded, strict=True))
            self._texts.append((source, labels))
            shorter = length
        self._batch_tokens = batch_tokens
        self.on_epoch_end()

    def on_epoch_end(self) -> None:
        """Puts the pairs into other batches; a rest is left out."""
        self._batches = []
        for number, (source, _) in enumerate(self._texts):
            size = self._batch_tokens // (2 * source.shape[1])
            order = self._random.permutation(len(source))
            full = len(order) // size * size
            rows = order[:full].reshape(-1, size)
            self._batches += [(number, batch) for batch in rows]
        self._random.shuffle(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def __getitem__(
        self, index: int
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        number, rows = self._batches[index]
        source, labels = (texts[rows] for texts in self._texts[number])
        target = np.insert(labels[:, :-1], 0, self._bos_id, axis=1)
        return {"source": source, "target": target}, labels


def _pad(
    shard: TokenShard, shorter: int, length: int, eos_id: int, pad_id: int
) -> tuple[np.ndarray, np.ndarray]:
    """Returns sources and labels of the pairs that fit this length only."""
    ends = shard.offsets[1:].reshape(-1, 2)  # [pairs, sides]
    begins = shard.offsets[:-1].reshape(-1, 2)
    longest = (ends - begins).max(axis=1) + 1  # with the end token
    chosen = (shorter < longest) & (longest <= length)
    places = begins[chosen, :, None] + np.arange(length)
    ids = shard.ids[np.minimum(places, len(shard.ids) - 1)].astype("int32")
    end = ends[chosen, :, None]
    ids[places > end] = pad_id
    ids[places == end] = eos_id
    return ids[:, 0], ids[:, 1]


class Checkpoints(keras.callbacks.Callback):
    """Saves the weights after each epoch, and prints the progress."""

    def __init__(self, run: Run) -> None:
        super().__init__()
        self._run = run
        self._start = time.monotonic()

    def on_epoch_end(self, epoch: int, logs: dict | None = None) -> None:
        """Saves and prints."""
        step = int(self.model.optimizer.iterations)
        self._run.save_checkpoint(self.model, step, _MAX_TO_KEEP)
        passed = time.monotonic() - self._start
        print(f"epoch {epoch + 1}  step {step:,}  {passed:.0f} s  {logs}")


def main() -> None:
    """Trains."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("prepared", type=Path)
    parser.add_argument("run", type=Path)
    parser.add_argument("--epochs", type=int, default=41)
    options = parser.parse_args()
    prepared = open_prepared(options.prepared)
    tokenizer = prepared.tokenizer
    config = kt.TransformerConfig.from_preset(
        "small",
        vocab_size=tokenizer.vocab_size,
        num_layers=6,
        decoder_layers=2,
        dropout=0.2,
        max_length=_LENGTHS[-1],
        pad_id=tokenizer.pad_id,
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
    )
    run = Run.create(
        options.run,
        config,
        tokenizer,
        languages=(prepared.source, prepared.target),
        statistics={"example": "Where is the station?"},
    )
    keras.utils.set_random_seed(1)
    model = kt.Transformer(config, dtype="mixed_bfloat16")
    optimizer = kt.optimizers.adam(config.d_model)
    model.compile(optimizer, kt.LabelSmoothedCrossEntropy())
    model.fit(
        Batches(prepared.shards, config, _BATCH_TOKENS),
        epochs=options.epochs,
        callbacks=[Checkpoints(run)],
        verbose=0,
    )


if __name__ == "__main__":
    main()
