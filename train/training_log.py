"""The log of a run, `log.csv`: one row per epoch."""

import csv
from pathlib import Path

import keras

from keras_transformer.support.files import atomic_write

COLUMNS = """
step loss nll perplexity learning_rate gradient_norm tokens_per_second
val_loss val_nll val_perplexity val_score
""".split()


class CSVLog(keras.callbacks.Callback):
    """Writes `log.csv` atomically, one row per epoch.

    Drops the rows after `step`, at which the run is resumed; Keras' `CSVLogger`
    would keep them. All workers have the rows; only the chief writes them.
    """

    def __init__(self, path: Path, step: int, is_chief: bool = True) -> None:
        super().__init__()
        self.path = path
        self.is_chief = is_chief
        self.rows = [row for row in read_log(path) if row["step"] <= step]

    def on_epoch_end(self, epoch: int, logs: dict) -> None:
        self.rows.append({name: logs[name] for name in COLUMNS if name in logs})
        if not self.is_chief:
            return
        with (
            atomic_write(self.path) as partial,
            open(partial, "w", encoding="utf-8", newline="") as file,
        ):
            writer = csv.DictWriter(file, COLUMNS, lineterminator="\n")
            writer.writeheader()
            for row in self.rows:
                writer.writerow({**row, "step": int(row["step"])})


def read_log(path: Path) -> list[dict[str, float]]:
    """Returns the rows of `log.csv`; none if it does not exist."""
    if not path.exists():
        return []
    return [
        {"step": float(row["step"])}
        | {x: float(row[x]) for x in COLUMNS if row.get(x)}
        for row in csv.DictReader(path.read_text("utf-8").splitlines())
    ]
