"""The checkpoints in the folder of a run."""

from pathlib import Path
from typing import TYPE_CHECKING

from keras_transformer.runs.weight_files import (
    read_attribute,
    save_weights,
    step_of,
)
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    import keras


class CheckpointFolder:
    """The part of a `Run` that saves and finds checkpoints."""

    path: Path  # of the run

    def checkpoints(self) -> list[Path]:
        """Returns the numbered checkpoints, oldest first."""
        return sorted(self.path.glob("checkpoints/step-[0-9]*.weights.h5"))

    @property
    def best_path(self) -> Path:
        """The checkpoint with the best validation score."""
        return self.path / "checkpoints" / "best.weights.h5"

    def find_checkpoint(self, name: str | int | None = None) -> Path:
        """Returns the checkpoint of a step, `"best"` or by default `"last"`."""
        checkpoints = self.checkpoints()
        if not checkpoints:
            raise InputError(
                f"{self.path} contains no checkpoint. Wait for the first epoch "
                "to end, or resume the training."
            )
        by_name = {str(step_of(path)): path for path in checkpoints}
        if self.best_path.exists():
            by_name["best"] = self.best_path
        by_name["last"] = checkpoints[-1]
        key = "last" if name is None else str(name)
        if key not in by_name:
            raise InputError(
                f"must be one of {', '.join(by_name)}, which {self.path} "
                f"contains. Received: {name}",
                argument="checkpoint",
            )
        return by_name[key]

    def save_checkpoint(
        self, model: "keras.Model", step: int, max_to_keep: int
    ) -> Path:
        """Writes the weights, and deletes all but the newest checkpoints."""
        path = self.path / "checkpoints" / f"step-{step:08d}.weights.h5"
        save_weights(model, path, step)
        checkpoints = self.checkpoints()
        # Later steps are from before the training was resumed.
        kept = [x for x in checkpoints if step_of(x) <= step][-max_to_keep:]
        for checkpoint in set(checkpoints).difference(kept):
            checkpoint.unlink()
        return path

    def save_best(self, model: "keras.Model", step: int, score: float) -> None:
        """Writes the weights unless an earlier validation score is better."""
        path = self.best_path
        if path.exists() and score < read_attribute(path, "score"):
            return
        save_weights(model, path, step, score=score)
