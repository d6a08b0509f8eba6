"""The job of a training: what a new run is made from, and what it records.

Nothing here needs TensorFlow.
"""

import dataclasses
import importlib.util
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.inference.run_folder import Run
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.recipe import Recipe

# What may differ when a run is resumed.
_MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard"}

# Differences from the small recipe for a model without a preset: it was
# imported, or trained further. With a width of 512 the learning rate rises to
# 9e-5, and falls.
_FINE_TUNING = dict(steps=2_000, steps_per_epoch=200, warmup_steps=100)
_FINE_TUNING["learning_rate_scale"] = 0.02


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of `train` that describe what is trained."""

    corpus: Corpus | None
    preset: str | None
    recipe: Recipe | Mapping[str, Any] | None
    architecture: Mapping[str, Any] | None
    init_from: Path | None
    tokenizer: Sequence[Path] | None

    def arguments(self) -> dict[str, Any]:
        """Returns the arguments that are not None, as plain values."""
        recipe, tokenizer = self.recipe, self.tokenizer
        if isinstance(recipe, Recipe):
            recipe = dataclasses.asdict(recipe)
        values = dict(
            preset=self.preset,
            init_from=self.init_from and str(self.init_from),
            tokenizer=tokenizer and list(map(str, tokenizer)),
        )
        return {
            **(self.corpus.request() if self.corpus else {}),
            **{name: x for name, x in values.items() if x is not None},
            **(recipe or {}),
            **(self.architecture or {}),
        }


@dataclasses.dataclass(frozen=True)
class Job:
    """What a new run is made from."""

    corpus: Corpus
    recipe: Recipe
    config: TransformerConfig  # with the ids of any tokenizer
    past: Run | None  # whose tokenizer and weights the run starts with
    tokenizer: Tokenizer | None  # None: one is trained
    request: Mapping[str, Any]  # what the run records

    @classmethod
    def choose(cls, request: Request) -> "Job":
        """Completes the arguments of `train`, and checks them.

        Without a preset, the architecture and the preset of the recipe are
        those of the run to start from. If it has no preset, like an imported
        model, the recipe is the small one at a low learning rate. A prepared
        corpus determines its own values.
        """
        corpus, preset, recipe = request.corpus, request.preset, request.recipe
        architecture, defaults = dict(request.architecture or {}), {}
        past = base = None
        if request.init_from is None:
            preset = preset or "small"
        else:
            past = Run.open(request.init_from)
            past.find_checkpoint()  # raises if there is none
            if preset is None:
                base, preset = past.config, past.request.get("preset")
                if preset not in PRESETS:
                    preset, defaults = None, dict(_FINE_TUNING)
                defaults["max_length"] = base.max_length
        tokenizer = _choose_tokenizer(request, past)
        if tokenizer is not None:
            defaults["vocab_size"] = tokenizer.vocab_size
            if past is None and not tokenizer.is_shared:
                architecture = {"tied_embeddings": "target", **architecture}
        if corpus.prepared is not None:
            defaults["max_length"] = corpus.prepared.max_length
        if not isinstance(recipe, Recipe):
            values = defaults | dict(recipe or {})
            recipe = Recipe.from_preset(preset or "small", **values)
        sizes = dict(max_length=recipe.max_length, **architecture)
        if base is not None:
            config = dataclasses.replace(base, **sizes)
        else:
            sizes["vocab_size"] = recipe.vocab_size
            config = TransformerConfig.from_preset(preset, **sizes)
        values = {"preset": preset, **dataclasses.asdict(recipe)}
        values = {**request.arguments(), **values}
        values = {name: x for name, x in values.items() if x is not None}
        job = cls(corpus, recipe, config, past, tokenizer, values)
        job._check(defaults)
        return job

    def config_for(self, tokenizer: Tokenizer) -> TransformerConfig:
        """Returns the architecture with the ids of a tokenizer."""
        names = ("vocab_size", "pad_id", "bos_id", "eos_id")
        values = {name: getattr(tokenizer, name) for name in names}
        size = tokenizer.source.vocab_size
        is_own = size != tokenizer.vocab_size
        values["source_vocab_size"] = size if is_own else None
        return dataclasses.replace(self.config, **values)

    def _check(self, defaults: Mapping[str, Any]) -> None:
        """Raises InputError for values that would fail late."""
        recipe, corpus, task = self.recipe, self.corpus, self.corpus.task
        fixed = ["vocab_size"] if self.tokenizer is not None else []
        fixed += ["max_length"] if corpus.prepared is not None else []
        _check_equal(
            "The tokenizer and the prepared corpus determine some values. "
            "Leave them out.",
            {name: defaults[name] for name in fixed},
            {name: getattr(recipe, name) for name in fixed},
        )
        has_valid = "valid" in corpus.splits
        if recipe.patience is not None and not has_valid:
            raise InputError(
                "patience monitors the loss of a split valid. "
                f"Received: patience={recipe.patience}, splits "
                f"{', '.join(corpus.splits)}"
            )
        if recipe.tensorboard and not importlib.util.find_spec("tensorboard"):
            raise InputError(
                "TensorBoard is not installed. Run "
                'pip install "keras-transformer-nmt[tensorboard]"'
            )
        if recipe.scored_sentences and has_valid:
            task.check_metrics(corpus.target, [task.watched_metric])
        if self.past is not None:
            self._check_past(self.past)

    def _check_past(self, past: Run) -> None:
        """Raises InputError unless the run can start from another one."""
        if past.task.name != self.corpus.task.name:
            raise InputError(
                "A run can only start from a run for the same task. Received: "
                f"{past.path}, which is for {past.task.name}, and "
                f"{self.corpus.name}, which is for {self.corpus.task.name}"
            )
        free = {"dropout", "attention_window"}
        if self.config.positional_encoding == "sinusoidal":
            free.add("max_length")
        _check_equal(
            f"{past.path} has a different architecture, and its weights do not "
            "fit. Choose the same architecture.",
            past.config.to_dict(),
            self.config_for(past.tokenizer).to_dict(),
            free,
        )


def _choose_tokenizer(request: Request, past: Run | None) -> Tokenizer | None:
    """Returns the tokenizer that arguments determine, if they do."""
    paths, prepared = request.tokenizer, request.corpus.prepared
    if past is not None and paths is not None:
        raise InputError(
            "Use either init_from, which brings its tokenizer, or tokenizer. "
            f"Received: init_from={request.init_from}, tokenizer="
            + " ".join(map(str, paths))
        )
    tokenizer = past and past.tokenizer
    if paths is not None:
        tokenizer = open_tokenizer(paths)
    if prepared is None:
        return tokenizer
    if tokenizer and tokenizer.digest != prepared.tokenizer.digest:
        raise InputError(
            f"{request.corpus.name} was prepared with a different tokenizer "
            "than the one to train with. Prepare it with that one."
        )
    return prepared.tokenizer


def changes(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments that a run which is resumed takes over."""
    return {name: x for name, x in arguments.items() if name in _MAY_CHANGE}


def check_resumable(run: Run, arguments: Mapping[str, Any]) -> None:
    """Raises InputError if arguments differ from those of a run."""
    if run.checkpoints() and not run.state_path.exists():
        raise InputError(
            f"{run.path} cannot be resumed without its {run.state_path.name}. "
            "Train into a different folder, perhaps with init_from this run."
        )
    source, target = run.languages
    recorded = {
        **run.statistics,
        **run.config.to_dict(),
        "source": source,
        "target": target,
        **run.request,
    }
    expected = {name: recorded.get(name) for name in arguments}
    _check_equal(
        f"{run.path} was started with other values. Choose a different output, "
        "or leave them out.",
        _without_places(expected),
        _without_places(arguments),
        _MAY_CHANGE,
    )


def _without_places(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a request with the names of files alone, which may be moved."""

    def names(paths: str | Iterable[str] | None) -> list[str]:
        paths = [paths] if isinstance(paths, str) else paths or []
        return [
            path if path.startswith("tfds:") else Path(path).resolve().name
            for path in paths
        ]

    values = dict(request)
    for name in ("data", "init_from", "tokenizer"):
        if name in values:
            values[name] = names(values[name])
    if values.get("corpora"):
        values["corpora"] = [
            {**x, "data": names(x["data"])} for x in values["corpora"]
        ]
    return values


def _check_equal(
    message: str,
    expected: Mapping[str, Any],
    received: Mapping[str, Any],
    free: Iterable[str] = (),
) -> None:
    """Raises InputError if values differ, except for those of `free` names."""
    differences = [
        f"{name}={received.get(name)!r} instead of {expected.get(name)!r}"
        for name in {**received, **expected}
        if received.get(name) != expected.get(name) and name not in free
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")
