"""What several workers have in common: the settings, and the chief's run."""

import json
import zlib

import tensorflow as tf

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.prepared import Prepared
from keras_transformer.train.resume import Job, open_data
from keras_transformer.train.run import TrainingRun
from keras_transformer.train.strategy import broadcast_from_chief, worker


def open_shared_run(
    strategy: tf.distribute.Strategy,
    job: Job,
    run: TrainingRun | None,
    prepared: Prepared | None,
) -> tuple[TrainingRun, Prepared | None]:
    """Returns the run and the training data, which the chief has opened.

    The other workers wait for it, and read them from the same folder. They
    would train another model, or wait for ever, if their settings or their
    validation data differed.

    Every worker must call this function. `run` and `prepared` are what
    `open_run` yields on the chief, and None on the others.
    """
    settings = job.settings() | job.architecture
    # Paths may differ from machine to machine.
    del settings["data"], settings["init_from"]
    text = json.dumps(settings, sort_keys=True)
    own = [
        zlib.crc32(text.encode()),
        zlib.crc32(run.id.encode()) if run else 0,
        int(prepared is not None),
    ]
    expected, run_id, trains = broadcast_from_chief(strategy, own).tolist()
    index = worker(strategy)[0]
    if own[0] != expected:
        raise InputError(
            "Every worker must have the settings of worker 0. Received: "
            f"worker {index} with other settings"
        )
    if run is not None:
        return run, prepared
    if (job.output / "config.json").exists():
        run = TrainingRun.open(job.output)
    if run is None or zlib.crc32(run.id.encode()) != run_id:
        raise InputError(
            "Every worker must see the folder of the run that worker 0 writes, "
            "and the one beside it with the prepared corpus. Received: "
            f"{job.output} on worker {index}, which is another folder. Choose "
            "an output that all machines share."
        )
    return run, open_data(run, job) if trains else None
