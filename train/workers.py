"""What several workers must have in common, and get from the chief."""

import json
import zlib

import numpy as np
import tensorflow as tf

from keras_transformer.config import TransformerConfig
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer
from keras_transformer.train.resume import Job
from keras_transformer.train.run import TrainingRun
from keras_transformer.train.strategy import broadcast_from_chief, worker


def check_workers_agree(
    strategy: tf.distribute.Strategy, job: Job, run: TrainingRun | None
) -> None:
    """Refuses workers that would train another model, or wait for ever."""
    settings = job.settings() | job.architecture
    # Paths may differ from machine to machine.
    del settings["data"], settings["init_from"]
    text = json.dumps(settings, sort_keys=True)
    sums = run.statistics["checksums"] if run else job.checksums()
    own = {"settings": zlib.crc32(text.encode())}
    own |= {f"texts of {split}": number for split, number in sums.items()}
    chief = broadcast_from_chief(strategy, list(own.values())).tolist()
    differences = [
        name
        for name, value, expected in zip(own, own.values(), chief, strict=True)
        if value != expected
    ]
    if differences:
        raise InputError(
            "Every worker must have the settings and the data of worker 0. "
            f"Received: worker {worker(strategy)[0]} with other "
            f"{' and '.join(differences)}"
        )


def broadcast_run(
    strategy: tf.distribute.Strategy, run: TrainingRun | None
) -> tuple[Tokenizer, TransformerConfig]:
    """Returns the tokenizer and the architecture of the chief's run."""
    if run is None:
        contents = (b"", b"")
    else:
        contents = (run.tokenizer.model, run.config.to_json().encode())
    model, config = (
        broadcast_from_chief(strategy, np.frombuffer(data, np.uint8)).tobytes()
        for data in contents
    )
    return Tokenizer(model), TransformerConfig.from_json(config.decode())
