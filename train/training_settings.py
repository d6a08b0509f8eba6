"""The settings of a training: chosen, checked, and compared with a run's.

Nothing here needs TensorFlow.
"""

import dataclasses
import importlib.util
import os
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.inference.run_folder import Run
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train.data import encoding
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.mixture import Entry
from keras_transformer.train.fitting.training_state import load_step
from keras_transformer.train.recipe import Recipe

# Settings that may differ when a run is resumed.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard"}

# Differences from the small recipe for an architecture of no preset: that of a
# model that another system has trained, or that was trained further. With a
# width of 512 the learning rate rises to 9e-5, and falls.
_FINE_TUNING = dict(steps=2_000, steps_per_epoch=200, warmup_steps=100)
_FINE_TUNING["learning_rate_scale"] = 0.02


@dataclasses.dataclass(frozen=True)
class TrainingSettings:
    """Data, architecture and hyper-parameters of a run, which records them."""

    preset: str | None  # None: the architecture is of no preset
    data: str  # name of the corpus
    source: str | None  # language codes, if they are known
    target: str | None
    init_from: Path | None  # whose tokenizer and weights a new run starts with
    tokenizer: Sequence[Path] | None  # that a new run has; None: one is trained
    recipe: Recipe
    config: TransformerConfig  # its ids are not yet those of the tokenizer
    architecture: Mapping[str, Any]  # what differs from the preset
    # What is said of several corpora that are not prepared.
    corpora: Sequence[Entry] | None = None

    def config_for(
        self, ids: Tokenizer | TransformerConfig
    ) -> TransformerConfig:
        """Returns the architecture with the ids of a tokenizer or of a run."""
        names = ("vocab_size", "pad_id", "bos_id", "eos_id")
        values = {name: getattr(ids, name) for name in names}
        if isinstance(ids, TransformerConfig):
            size = ids.source_vocab_size
        else:
            size = ids.source.vocab_size
        is_own = size != ids.vocab_size
        values["source_vocab_size"] = size if is_own else None
        return dataclasses.replace(self.config, **values)

    def recorded(self, config: TransformerConfig) -> dict[str, Any]:
        """Returns the recipe that a run of an architecture records."""
        values = dataclasses.asdict(self)
        recipe = values.pop("recipe")
        del values["config"], values["architecture"]
        if self.init_from is not None:
            values["init_from"] = str(self.init_from.resolve())
            recipe["vocab_size"] = config.vocab_size  # that of the tokenizer
        if self.tokenizer is not None:
            paths = [str(path.resolve()) for path in self.tokenizer]
            values["tokenizer"] = paths
        return values | recipe

    def flags(self, corpus: Corpus) -> dict[str, Any]:
        """Returns the flags of `keras-transformer train` for these settings."""
        flags: dict[str, Any] = {}
        if self.corpora:
            entries = map(dataclasses.asdict, self.corpora)
            flags["corpora"] = list(map(_present, entries))
        else:
            files = getattr(corpus.pairs("train"), "paths", ())
            is_name = " ".join(files) != corpus.name
            flags["data"] = [corpus.name] if is_name else list(files)
            flags |= dict(source=self.source, target=self.target)
        flags |= dict(
            preset=self.preset,
            init_from=self.init_from and str(self.init_from),
            tokenizer=self.tokenizer and list(map(str, self.tokenizer)),
            **dataclasses.asdict(self.recipe),
            **self.architecture,
        )
        return {x.replace("_", "-"): y for x, y in _present(flags).items()}

    def has_steps_left(self, run: Run) -> bool:
        """Returns whether a run that is resumed has anything to train.

        Raises InputError if it was started with other settings.
        """
        config = self.config_for(run.config).to_dict()
        refuse_differences(
            f"{run.path} was started with other values. Choose a different "
            "output, use the same values, or remove it first.",
            {**_with_places(run.recipe), **run.config.to_dict()},
            {**config, **_with_places(self.recorded(run.config))},
            _MAY_CHANGE,
        )
        if run.state_path.exists():
            return load_step(run.state_path) < self.recipe.steps
        if run.checkpoints():
            raise InputError(
                f"{run.path} cannot be resumed without its "
                f"{run.state_path.name}. Train into another folder, perhaps "
                "with --init-from this run."
            )
        return True

    def check_init_from(self, past: Run, corpus: Corpus) -> None:
        """Raises InputError unless a new run can start from another one."""
        if past.task.name != corpus.task.name:
            raise InputError(
                "A run can only start from a run for the same task. Received: "
                f"{past.path}, which is for {past.task.name}, and "
                f"{corpus.name}, which is for {corpus.task.name}"
            )
        past.find_checkpoint()  # refuses a run that has none
        free = {"dropout", "attention_window"}
        if self.config.positional_encoding == "sinusoidal":
            free.add("max_length")
        refuse_differences(
            f"{past.path} has another architecture, so that its weights do not "
            "fit. Choose the same architecture.",
            past.config.to_dict(),
            self.config_for(past.config).to_dict(),
            free,
        )

    def check(self, corpus: Corpus) -> None:
        """Raises InputError for settings that would fail late."""
        recipe = self.recipe
        check_train_split(corpus)
        has_valid = "valid" in corpus.splits
        if recipe.patience is not None and not has_valid:
            raise InputError(
                "patience needs a split valid, whose loss it monitors. "
                f"Received: patience={recipe.patience}, splits "
                f"{', '.join(corpus.splits)}"
            )
        if corpus.prepared is not None:
            fixed = corpus.prepared.fixed
            refuse_differences(
                f"{corpus.name} was prepared with other values, which are the "
                "defaults.",
                fixed,
                {name: getattr(recipe, name) for name in fixed},
            )
        encoding.check_budget(recipe.batch_tokens, recipe.max_length)
        if recipe.tensorboard and not importlib.util.find_spec("tensorboard"):
            raise InputError(
                "TensorBoard is not installed. Run "
                'pip install "keras-transformer-nmt[tensorboard]"'
            )
        if recipe.scored_sentences and has_valid:
            task = corpus.task
            task.check_metrics(corpus.target, [task.watched_metric])


def choose_settings(
    corpus: Corpus,
    output: Path,
    preset: str | None = None,
    recipe: Recipe | Mapping[str, Any] | None = None,
    architecture: Mapping[str, Any] | None = None,
    init_from: Path | None = None,
    tokenizer: Sequence[Path] | None = None,
) -> TrainingSettings:
    """Returns the settings of a training; for arguments see `train`.

    Without a preset they are those of the run to start from, whose
    architecture is kept then. If that has no preset either, as an imported
    model, the recipe is the small one at a low learning rate. A prepared
    corpus fixes its own values.
    """
    architecture = given = architecture or {}
    defaults: dict[str, Any] = {}
    past = vocabulary = None
    # A run that is resumed no longer needs another run, or a file.
    is_resumed = (output / "config.json").exists()
    if tokenizer is not None and init_from is not None:
        raise InputError(
            "A run to start from has a tokenizer. Leave out one of them. "
            f"Received: init_from={init_from}, tokenizer="
            + " ".join(map(str, tokenizer))
        )
    if corpus.prepared is not None:
        vocabulary = corpus.prepared.tokenizer
    elif tokenizer is not None:
        vocabulary = (
            Tokenizer.load(output) if is_resumed else open_tokenizer(tokenizer)
        )
    if preset is None and init_from is not None:
        past = Run.read(output if is_resumed else init_from)
        preset = past.recipe.get("preset")
        if preset not in PRESETS:
            preset, defaults = None, dict(_FINE_TUNING)
        defaults["vocab_size"] = past.config.vocab_size
        defaults["max_length"] = past.config.max_length
    elif preset is None:
        preset = "small"
    if vocabulary is not None:
        defaults["vocab_size"] = vocabulary.vocab_size
        if init_from is None and not vocabulary.is_shared:
            architecture = {"tied_embeddings": "target", **architecture}
    if corpus.prepared is not None:
        defaults |= corpus.prepared.fixed
    if not isinstance(recipe, Recipe):
        values = defaults | dict(recipe or {})
        recipe = Recipe.from_preset(preset or "small", **values)
    if tokenizer is not None and recipe.vocab_size != vocabulary.vocab_size:
        open_tokenizer(tokenizer, recipe.vocab_size)  # refuses it
    if vocabulary is None and init_from is None:
        encoding.check_new_vocabulary(recipe.vocab_size)
    values = dict(max_length=recipe.max_length, **architecture)
    if past is not None:
        config = dataclasses.replace(past.config, **values)
    else:
        values = dict(vocab_size=recipe.vocab_size, **values)
        config = TransformerConfig.from_preset(preset, **values)
    corpora = [entry for entry, _ in corpus.parts]
    return TrainingSettings(
        preset=preset,
        data=corpus.name,
        source=corpus.source,
        target=corpus.target,
        init_from=init_from,
        tokenizer=tokenizer,
        recipe=recipe,
        config=config,
        architecture=given,
        corpora=None if corpus.prepared else corpora or None,
    )


def _with_places(recipe: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a recipe with absolute paths of corpora, however spelled."""
    data, corpora = recipe.get("data"), recipe.get("corpora")
    if corpora:
        data = None  # the names of all of them
        corpora = [
            {**entry, "data": [os.path.abspath(path) for path in entry["data"]]}
            for entry in corpora
        ]
    data = data and os.path.abspath(data)
    return {**recipe, "data": data, "corpora": corpora}


def _present(values: Mapping[str, Any]) -> dict[str, Any]:
    return {name: x for name, x in values.items() if x is not None}


def refuse_differences(
    message: str,
    expected: Mapping[str, Any],
    received: Mapping[str, Any],
    free: Collection[str] = (),
) -> None:
    """Raises InputError if values differ whose names are not `free`."""
    differences = [
        f"{name}={received.get(name)!r} instead of {expected.get(name)!r}"
        for name in {**received, **expected}
        if received.get(name) != expected.get(name) and name not in free
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")


def check_train_split(corpus: Corpus) -> None:
    """Raises InputError if there is nothing to train on."""
    parts = [] if corpus.prepared else [part for _, part in corpus.parts]
    for part in (corpus, *parts):
        if "train" not in part.splits:
            raise InputError(
                f"Training needs a split train. Received: {part.name} with "
                f"{', '.join(part.splits)}"
            )
