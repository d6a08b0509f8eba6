"""Trains, evaluates, exports and translates in a few minutes."""

import itertools
import os
from pathlib import Path

from keras_transformer.export import save, translate_in_subprocess
from keras_transformer.inference.run import Run
from keras_transformer.inference.translator import Translator
from keras_transformer.train.data.corpus import open_corpus
from keras_transformer.train.evaluation import (
    describe,
    evaluate,
    record,
    training_cost,
)
from keras_transformer.train.recipe import Recipe
from keras_transformer.train.run import check_free
from keras_transformer.train.trainer import train

_PRESET = "tiny"
_SENTENCE = "I am a student"


def run_demo(output: str | os.PathLike | None = None) -> Run:
    """Trains a small Transformer on the bundled corpus and uses it."""
    output = output or _free_folder()
    check_free(output)
    corpus = open_corpus(["embedded"])
    recipe = Recipe.from_preset(_PRESET, max_length=32, steps_per_epoch=250)

    print("== 1/4 train on the bundled English-German corpus")
    run = train(corpus, output, _PRESET, recipe)

    print("\n== 2/4 translate 500 held-out sentences with beam search")
    translator = Translator.open(run.path)
    results, hypotheses = evaluate(translator, corpus, "test", corpus.target)
    results.update(training_cost(run, run.step))
    record(run, run.find_checkpoint(), run.step, results, hypotheses)
    print(describe(results))

    exported = run.path / "exported" / "1"
    print(f"\n== 3/4 export a SavedModel to {exported} and check it")
    save(translator, exported)
    print("A new process loaded it and translated as the run does.")

    print("\n== 4/4 translate with the SavedModel in a new process")
    held_out = list(itertools.islice(corpus.pairs("test"), 2))
    sources = [_SENTENCE, *(source for source, _ in held_out)]
    references = ["", *(reference for _, reference in held_out)]
    translations = translate_in_subprocess(exported, sources)
    for source, translation, reference in zip(
        sources, translations, references, strict=True
    ):
        print(f"  {source}\n    -> {translation.texts[0]}")
        if reference:
            print(f"    reference: {reference}")
    print(
        "\nThe corpus has simple sentences and a small vocabulary: the model "
        "cannot translate\nanything else."
    )
    print(_next_steps(run.path))
    return run


def _free_folder() -> Path:
    numbered = (Path(f"runs/demo-{number}") for number in itertools.count(2))
    paths = itertools.chain([Path("runs/demo")], numbered)
    return next(path for path in paths if not path.exists())


def _next_steps(path: Path) -> str:
    # `make demo` runs the command by its path, without activating .venv.
    return f"""
The run is in {path}. Next, after `source .venv/bin/activate`:
  echo "The old teacher reads a book." | keras-transformer translate {path}
  keras-transformer serve {path}            a page to try it with
  keras-transformer trace {path} "{_SENTENCE}." --output trace.html
  keras-transformer attention {path} "{_SENTENCE}." --output attention.html
  keras-transformer train --data FOLDER --source en --target de \\
      --preset small --output runs/mine     with your own train.en, train.de"""
