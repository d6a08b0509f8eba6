"""Writes a run folder; every file in it is written atomically.

`keras_transformer/inference/run_folder.py` lists the files and reads them.
"""

import dataclasses
import logging
import math
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from keras_transformer.config import TransformerConfig
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.run_folder import Run, step_of
from keras_transformer.inference.weights_checksum import write_checksum
from keras_transformer.support import files
from keras_transformer.tasks import Task, TranslationTask
from keras_transformer.text import Vocabulary

if TYPE_CHECKING:
    import keras

logger = logging.getLogger(__name__)

_CHECKPOINT = "step-{step:08d}.weights.h5"
_HDF5_OVERHEAD = 8 * 1024  # bytes per variable; 2 KiB were measured


class TrainingRun(Run):
    """A run folder that can be written to."""

    @classmethod
    def create(
        cls,
        path: str | os.PathLike,
        config: TransformerConfig,
        recipe: dict[str, Any],
        tokenizer: Vocabulary,
        statistics: dict[str, Any] | None = None,
        model: "keras.Model | None" = None,
        step: int = 0,
        task: Task | None = None,
        search: BeamSearch | None = None,
    ) -> "TrainingRun":
        """Creates the folder of a new run.

        If a model is given, its weights are written as the checkpoint of
        `step`. The other arguments are those of `Run`; the task is translation
        by default.

        Raises:
            InputError: If the folder exists and is not empty.
        """
        with files.atomic_folder(path) as folder:
            run = cls(
                path=folder,
                config=config,
                recipe=recipe,
                tokenizer=tokenizer,
                tokenizer_digest=tokenizer.digest,
                statistics=statistics or {},
                task=task or TranslationTask(),
                search=search,
            )
            run.write()
            if model is not None:
                run.save_checkpoint(model, step, max_to_keep=1)
        return dataclasses.replace(run, path=Path(path))

    def write(self) -> None:
        """Writes the description of a new run into its folder."""
        (self.path / "checkpoints").mkdir()
        self.tokenizer.save_files(self.path)
        self._write_config()

    def _write_config(self) -> None:
        values = {
            "task": self.task.name,
            "model": self.config.to_dict(),
            "recipe": self.recipe,
            "statistics": self.statistics,
            "tokenizer": self.tokenizer.digest,
        }
        if self.search is not None:
            values["search"] = dataclasses.asdict(self.search)
        files.write_json(self.path / "config.json", values)

    def with_recipe(self, recipe: dict[str, Any]) -> "TrainingRun":
        """Returns the run with a recipe, which is recorded in the folder."""
        run = dataclasses.replace(self, recipe=recipe)
        if run != self:
            run._write_config()
        return run

    def save_checkpoint(
        self, model: "keras.Model", step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints.

        One of a later step, which training wrote before it resumed from an
        earlier state, is deleted too.
        """
        path = self.path / "checkpoints" / _CHECKPOINT.format(step=step)
        self._save_weights(model, path, step)
        checkpoints = self.checkpoints()
        kept = [x for x in checkpoints if step_of(x) <= step][-max_to_keep:]
        for checkpoint in checkpoints:
            if checkpoint not in kept:
                checkpoint.unlink()
        return path

    def save_best(self, model: "keras.Model", step: int, score: float) -> None:
        """Writes the weights if their validation score is the best so far."""
        import h5py

        if self.best_path.exists():
            try:
                with h5py.File(self.best_path) as file:
                    if score <= file.attrs["score"]:
                        return
            except OSError as error:
                # It must not end every training that is resumed here.
                logger.warning(
                    f"{self.best_path} is damaged ({error}). It is "
                    f"replaced by the weights of step {step:,}."
                )
        self._save_weights(model, self.best_path, step, score=score)

    def _save_weights(
        self, model: "keras.Model", path: Path, step: int, **attributes: float
    ) -> None:
        import h5py
        import keras

        path.parent.mkdir(exist_ok=True)
        sizes = [4 * math.prod(w.shape) + _HDF5_OVERHEAD for w in model.weights]
        with files.atomic_write(path) as partial:
            # HDF5 aborts the process if the disk is full when it writes.
            files.reserve_disk_space(partial, sum(sizes))
            # The optimizer, twice as large, is in the training state.
            optimizer = getattr(model, "optimizer", None)
            options = dict(overwrite=True, objects_to_skip=[optimizer])
            keras.saving.save_weights(model, partial, **options)
            with h5py.File(partial, "a") as file:
                file.attrs.update(step=step, **attributes)
                write_checksum(file)
