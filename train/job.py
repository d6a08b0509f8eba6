"""The arguments of a training: completed for a new run, else compared.

Nothing here needs TensorFlow.
"""

import dataclasses
import importlib.util
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.inference.opening import read_run
from keras_transformer.presets import PRESETS
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.recipe import Recipe

# Arguments that may change when a run is resumed.
MAY_CHANGE = {"steps", "max_to_keep", "patience", "tensorboard"}

# Changes to the recipe of a preset with `init_from`. The learning rate of a
# model of width 512 peaks at 9e-5.
_FINE_TUNING = dict(
    steps=2_000,
    steps_per_epoch=200,
    warmup_steps=100,
    learning_rate_scale=0.02,
)


@dataclasses.dataclass(frozen=True)
class Request:
    """The arguments of `train` except for output, strategy and dry_run."""

    corpus: Corpus | None
    preset: str | None
    recipe: Recipe | Mapping[str, Any] | None
    architecture: Mapping[str, Any] | None
    init_from: str | Path | None
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
    """Everything that determines a new run."""

    corpus: Corpus
    recipe: Recipe
    config: TransformerConfig  # see `config_for`
    past: Run | None  # from `init_from`
    tokenizer: Tokenizer | None  # None: train one
    request: Mapping[str, Any]  # for `train.yaml`

    @classmethod
    def choose(cls, request: Request) -> "Job":
        """Completes the arguments of `train`, and checks them."""
        corpus, preset, recipe = request.corpus, request.preset, request.recipe
        architecture, defaults = dict(request.architecture or {}), {}
        past = base = None
        if request.init_from is None:
            preset = preset or "small"
        else:
            past = read_run(request.init_from)
            past.find_checkpoint()  # raises if there is none
            defaults = dict(_FINE_TUNING)
            if preset is None:
                base, preset = past.config, past.request.get("preset")
                preset = preset if preset in PRESETS else None
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
        """Returns the architecture with the special ids of a tokenizer."""
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
            "Do not pass them.",
            {name: defaults[name] for name in fixed},
            {name: getattr(recipe, name) for name in fixed},
        )
        if recipe.tensorboard and not importlib.util.find_spec("tensorboard"):
            raise InputError(
                "TensorBoard is not installed. Run `pip install tensorboard`."
            )
        if recipe.scored_sentences and "valid" in corpus.splits:
            task.check_metrics(corpus.target, task.default_metrics[:1])
        if self.past is not None:
            self._check_past(self.past)

    def _check_past(self, past: Run) -> None:
        """Raises InputError unless the new run can start from `past`."""
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
            f"The architecture must be the same as in {past.path}.",
            past.config.to_dict(),
            self.config_for(past.tokenizer).to_dict(),
            free,
        )


def _choose_tokenizer(request: Request, past: Run | None) -> Tokenizer | None:
    """Returns the given tokenizer, or None if one must be trained."""
    paths, prepared = request.tokenizer, request.corpus.prepared
    if past is not None and paths is not None:
        raise InputError(
            "Use either init_from, which has a tokenizer, or the argument "
            "`tokenizer`. "
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
            f"{request.corpus.name} must be prepared with the tokenizer to "
            "train with. Received: a different tokenizer. Prepare it again."
        )
    return prepared.tokenizer


def check_resumable(run: Run, arguments: Mapping[str, Any]) -> None:
    """Raises InputError if arguments differ from the run's."""
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
        f"{run.path} was started with different arguments. Choose a different "
        "output, or leave them out.",
        _without_folders(expected),
        _without_folders(arguments),
        MAY_CHANGE,
    )


def _without_folders(request: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a request with names instead of paths, since files may move."""

    def shorten(value: Any) -> Any:
        if isinstance(value, str) and not value.startswith("tfds:"):
            return os.path.basename(os.path.realpath(value))
        return list(map(shorten, value)) if isinstance(value, list) else value

    values = dict(request)
    for name in {"data", "init_from", "tokenizer"} & values.keys():
        values[name] = shorten(values[name])
    if values.get("corpora"):
        values["corpora"] = list(map(_without_folders, values["corpora"]))
    return values


def _check_equal(
    message: str,
    expected: Mapping[str, Any],
    received: Mapping[str, Any],
    free: Iterable[str] = (),
) -> None:
    """Raises InputError if values differ whose names are not in `free`."""
    differences = [
        f"{name}={received.get(name)!r} instead of {expected.get(name)!r}"
        for name in {**received, **expected}
        if received.get(name) != expected.get(name) and name not in free
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")
