"""The arguments of a training, completed for a new run.

Nothing here needs TensorFlow.
"""

import dataclasses
import functools
import importlib.util
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

from keras_transformer.config import TransformerConfig
from keras_transformer.inference.opening import read_run
from keras_transformer.presets import PRESETS
from keras_transformer.runs.run_folder import Run
from keras_transformer.support.errors import InputError
from keras_transformer.support.startup import start_keras
from keras_transformer.text import Tokenizer, open_tokenizer
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.prepared import PreparedCorpus
from keras_transformer.train.recipe import Recipe

# Changes to the recipe of a preset with `init_from`. The learning rate of a
# model of width 512 peaks at 9e-5.
_FINE_TUNING = dict(
    steps=2_000, steps_per_epoch=200, warmup_steps=100, learning_rate_scale=0.02
)


@dataclasses.dataclass(frozen=True)
class TrainingArguments:
    """The arguments of `train` that determine its result.

    A property such as `resolved_recipe` is the value that a new run uses.
    """

    corpus: Corpus | None = None
    preset: str | None = None
    recipe: Mapping[str, Any] | None = None
    architecture: Mapping[str, Any] | None = None
    init_from: str | Path | None = None
    tokenizer: Sequence[Path] | None = None

    def by_name(self) -> dict[str, Any]:
        """Returns the arguments that are not None."""
        values = {} if self.corpus is None else self.corpus.arguments()
        if self.preset is not None:
            values["preset"] = self.preset
        if self.init_from is not None:
            values["init_from"] = str(self.init_from)
        if self.tokenizer is not None:
            values["tokenizer"] = [str(path) for path in self.tokenizer]
        return {**values, **(self.recipe or {}), **(self.architecture or {})}

    def for_new_run(self) -> dict[str, Any]:
        """Returns the arguments and the whole recipe, for `train.yaml`."""
        return {
            **self.by_name(),
            "preset": self.resolved_preset,
            **dataclasses.asdict(self.resolved_recipe),
        }

    @functools.cached_property
    def initial_run(self) -> Run | None:
        """The run in `init_from`."""
        return None if self.init_from is None else read_run(self.init_from)

    @property
    def resolved_preset(self) -> str | None:
        """The name of the preset; None if `init_from` was imported."""
        if self.preset is not None or self.initial_run is None:
            return self.preset or "small"
        name = self.initial_run.request.get("preset")
        return name if name in PRESETS else None

    @functools.cached_property
    def resolved_tokenizer(self) -> Tokenizer | None:
        """The tokenizer to use; None if a new one must be trained."""
        tokenizers = {}
        if self.initial_run is not None:
            name = f"init_from={self.init_from}"
            tokenizers[name] = self.initial_run.tokenizer
        if self.tokenizer is not None:
            paths = " ".join(str(path) for path in self.tokenizer)
            tokenizers[f"tokenizer={paths}"] = open_tokenizer(self.tokenizer)
        if isinstance(self.corpus, PreparedCorpus):
            tokenizers[f"data={self.corpus.name}"] = self.corpus.tokenizer
        if len({tokenizer.digest for tokenizer in tokenizers.values()}) > 1:
            raise InputError(
                "A training must have one tokenizer. Received: different ones "
                f"in {' and '.join(tokenizers)}. Leave one out, or prepare the "
                "corpus again."
            )
        return next(iter(tokenizers.values()), None)

    @functools.cached_property
    def resolved_recipe(self) -> Recipe:
        """The recipe: the values in `recipe`, else those of the preset."""
        defaults: dict[str, Any] = {}
        if self.initial_run is not None:
            defaults |= _FINE_TUNING
            if self.preset is None:
                defaults["max_length"] = self.initial_run.config.max_length
        fixed = {}
        if self.resolved_tokenizer is not None:
            fixed["vocab_size"] = self.resolved_tokenizer.vocab_size
        if isinstance(self.corpus, PreparedCorpus):
            fixed["max_length"] = self.corpus.max_length
        values = {**defaults, **fixed, **(self.recipe or {})}
        recipe = Recipe.from_preset(self.resolved_preset or "small", **values)
        check_equal(
            "The tokenizer and the prepared corpus fix these values. Leave "
            "them out.",
            fixed,
            {name: getattr(recipe, name) for name in fixed},
        )
        return recipe

    def check_new(self) -> None:
        """Raises InputError for values with which a new run would fail late."""
        corpus = self.corpus
        if corpus is None:
            raise InputError(
                "Training needs data, except to resume the run in `output`. A "
                "dry run always needs data."
            )
        recipe = self.resolved_recipe
        for package in ("tensorboard", "tensorflow"):
            if recipe.tensorboard and not importlib.util.find_spec(package):
                raise InputError(
                    f"needs the package {package}. Received: True, and it is "
                    f"not installed. Run `pip install {package}`.",
                    argument="tensorboard",
                )
        if recipe.scored_sentences and "valid" in corpus.splits:
            metric = corpus.task.default_metrics[0]
            corpus.task.check_metrics(corpus.target, [metric])
        config = self.config_with(self.resolved_tokenizer)
        if config.custom_sublayers:
            start_keras()
            from keras_transformer.layers.transformer_layer import find_class

            for name, layer_class in config.custom_sublayers.items():
                find_class(layer_class, name)
        if self.initial_run is None:
            return
        self.initial_run.find_checkpoint()  # raises if there is none
        may_differ = {"dropout", "attention_window"}
        if config.positional_encoding == "sinusoidal":
            may_differ.add("max_length")
        expected = self.initial_run.config.to_dict()
        check_equal(
            "Task and architecture must be the same as in "
            f"{self.initial_run.path}.",
            {"task": self.initial_run.task.name, **expected},
            {"task": corpus.task.name, **config.to_dict()},
            may_differ,
        )

    def config_with(self, tokenizer: Tokenizer | None) -> TransformerConfig:
        """Returns the architecture, with the sizes and ids of a tokenizer."""
        recipe = self.resolved_recipe
        values = dict(max_length=recipe.max_length, **(self.architecture or {}))
        values["vocab_size"] = recipe.vocab_size
        if tokenizer is not None:
            values |= tokenizer.config_values()
            if self.initial_run is None and not tokenizer.is_shared:
                values.setdefault("tied_embeddings", "target")
        if self.initial_run is not None and self.preset is None:
            return dataclasses.replace(self.initial_run.config, **values)
        return TransformerConfig.from_preset(self.resolved_preset, **values)


def check_equal(
    message: str,
    expected: Mapping[str, Any],
    received: Mapping[str, Any],
    may_differ: Collection[str] = (),
) -> None:
    """Raises InputError if received values are not the expected ones."""
    differences = [
        f"{name}={value!r} instead of {expected.get(name)!r}"
        for name, value in received.items()
        if value != expected.get(name) and name not in may_differ
    ]
    if differences:
        raise InputError(f"{message} Received: {'; '.join(differences)}")
