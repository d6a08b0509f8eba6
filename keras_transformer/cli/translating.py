"""The commands that use a model on texts: translate, score, evaluate."""

import dataclasses
import json
import os
from collections import Counter
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.types import ExistingFile, NonExistentFile

import keras_transformer as kt
from keras_transformer.cli import flags, terminal
from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.inference.exports import Export
from keras_transformer.inference.opening import read_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import step_of
from keras_transformer.support.compressed import without_suffix
from keras_transformer.support.errors import InputError
from keras_transformer.support.progress import progress_bar
from keras_transformer.tasks import ParsingTask, Task
from keras_transformer.text import split_sentences as split
from keras_transformer.train.data.corpus import Corpus

if TYPE_CHECKING:
    from keras_transformer.inference.records import Translation

# What may be wrong: fields of `Translation`, and `sentences` in one line.
_PROBLEMS = {
    "source_truncated": "truncated inputs, longer than the model reads",
    "at_length_limit": "outputs as long as --extra-length and --length-factor "
    "allow, perhaps incomplete",
    "repaired": "outputs that were not a tree over the words, repaired",
    "numbers_differ": "outputs with digits that differ from the input, marked "
    "by --jsonl",
    "sentences": "inputs of several sentences, which --split-sentences "
    "separates",
}
_PREFIX = Parameter(allow_leading_hyphen=True, validator=flags.accept_empty)
_TREES = Parameter(group=Group("Trees" + flags.RARE, sort_key=3.5))
_SAMPLING = Parameter(group=Group("Sampling", sort_key=5))


def translate(
    runs: flags.ModelsFlag,
    *,
    input: list[ExistingFile] | None = None,
    output: NonExistentFile | None = None,
    num_translations: flags.NumTranslations = None,
    split_sentences: bool = False,
    prefix: Annotated[str, _PREFIX] = "",
    tokenized: Annotated[bool, _TREES] = False,
    one_line: Annotated[bool, _TREES] = False,
    jsonl: bool = False,
    model: flags.ModelFlags = flags.ModelFlags(),
    workers: flags.Workers = None,
    search: flags.SearchFlags = None,
    sample: Annotated[bool, _SAMPLING] = False,
    sampling: flags.SamplingFlags = None,
) -> None:
    """Translate or parse text line by line.

    Args:
        input: Text files (default: standard input).
        output: New file to write (default: standard output).
        num_translations: Print the N best outputs of each line, as number of
            the line, score and output (default: the text of one).
        split_sentences: Translate each sentence of a line separately.
        prefix: Text that every translation begins with.
        tokenized: For runs that parse: the words of a line are separated by
            spaces already, as in the Penn Treebank.
        one_line: For runs that parse: print each tree in one line.
        jsonl: Print a JSON object for each line: its text, the N best outputs
            and their scores, and what may be wrong with the best one.
        sample: Draw translations at random, instead of beam search.
    """
    sample = sample or bool(sampling)
    if sample and "beam_size" in (search or {}):
        raise InputError("Sampling cannot be combined with --beam-size.")
    if split_sentences and (num_translations or prefix or jsonl):
        raise InputError(
            "--split-sentences cannot be combined with --n-best, --prefix or "
            "--jsonl."
        )
    problems: Counter[str] = Counter()
    with terminal.open_output(output) as stream:
        first = read_folder(runs[0])
        parses = not first.task.targets_are_text
        if (tokenized or one_line) and not parses:
            raise InputError("--tokenized and --one-line need a parser.")
        translator = model.open(
            [first, *runs[1:]],
            {**(search or {}), **(sampling or {})},
            num_translations,
            ParsingTask(split_words=False) if tokenized else None,
            Sampling if sample else BeamSearch,
            reads_many=True,
            workers=workers,
        )
        form = translator.task, num_translations, jsonl, one_line
        for lines, number, bar in terminal.read_with_progress(input):
            options = dict(progress=bar.update)
            translator.check_languages(lines, number)
            if split_sentences:
                text = "\n".join(lines)
                document = translator.translate_document(text, **options)
                translations = document.translations.values()
                texts = [document.text + "\n"]
            else:
                options["prefixes"] = [prefix] * len(lines)
                translations = translator.translate(lines, **options)
                pairs = zip(lines, translations, strict=True)
                texts = [
                    _as_text(*form, place, *pair)
                    for place, pair in enumerate(pairs, number)
                ]
                if not parses:
                    counts = (len(split(x.strip())) > 1 for x in lines)
                    problems["sentences"] += sum(counts)
            for field in _PROBLEMS:
                marks = (getattr(x, field, False) for x in translations)
                problems[field] += sum(marks)
            bar.clear()
            stream.writelines(texts)
            bar.refresh()
    for field in filter(problems.get, _PROBLEMS):
        terminal.report(f"{_PROBLEMS[field]}: {problems[field]:,}")


def _as_text(
    task: Task,
    num_translations: int | None,
    jsonl: bool,
    one_line: bool,
    number: int,
    line: str,
    translation: "Translation",
) -> str:
    """Returns the lines that are printed for one line of input."""
    if jsonl:
        columns = {"text": line, **task.columns(translation)}
        return json.dumps(columns, ensure_ascii=False) + "\n"
    texts = translation.texts
    if task.targets_are_text:  # a model may spell line ends
        texts = [" ".join(text.splitlines()) for text in texts]
    if num_translations is not None:
        return "".join(
            f"{number}\t{score:.4f}\t{text}\n"
            for score, text in zip(translation.scores, texts, strict=True)
        )
    # An empty line has no tree.
    if not (task.targets_are_text or one_line) and texts[0]:
        tree = kt.parsing.Tree.from_string(texts[0])
        return f"{kt.parsing.pretty(tree)}\n\n"
    return f"{texts[0]}\n"


def score(
    runs: flags.ModelsFlag,
    *,
    input: list[ExistingFile] | None = None,
    output: NonExistentFile | None = None,
    model: flags.ModelFlags = flags.ModelFlags(),
    workers: flags.Workers = None,
    search: flags.ScoreFlags = None,
) -> None:
    """Score given translations.

    Args:
        input: Files of source, tab and translation on each line, of which
            further columns are ignored (default: standard input).
        output: New file to write (default: standard output). Pairs that are
            empty or longer than the model reads have empty lines.
    """
    missing = 0
    with terminal.open_output(output) as stream:
        translator = model.open(runs, search, reads_many=True, workers=workers)
        for lines, number, bar in terminal.read_with_progress(input):
            pairs = [line.split("\t", 2)[:2] for line in lines]
            for place, pair in enumerate(pairs, number):
                if len(pair) != 2:
                    raise InputError(
                        "Each line must be a source, a tab and its "
                        f"translation. Received: no tab in line {place}"
                    )
            sources, targets = zip(*pairs, strict=True)
            translator.check_languages(sources, number)
            scores = translator.score_corpus(
                sources, targets, progress=bar.update
            )
            missing += scores.count(None)
            bar.clear()
            stream.writelines(
                f"{x.score:.4f}\t{x.perplexity:.4f}\n" if x else "\t\n"
                for x in scores
            )
            bar.refresh()
    if missing:
        terminal.report(f"empty or too long pairs: {missing:,}")


def evaluate(
    runs: flags.ModelsFlag,
    *,
    data: flags.RunCorpusFlag = None,
    reading: flags.CorpusFlags = flags.CorpusFlags(),
    split: Annotated[
        str | None, Parameter(show_default="test, or the only one of --data")
    ] = None,
    metric: list[str] | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    model: flags.ModelFlags = flags.ModelFlags(),
    workers: flags.Workers = None,
    search: flags.SearchFlags = None,
) -> None:
    """Measure BLEU or F1 on a split.

    Args:
        split: Split to measure.
        metric: For translation: bleu, chrf, tokenized_bleu, ter (default: all
            but ter); for parsing: f1, precision, recall, unlabelled_f1,
            complete_match, tag_accuracy (default: all).
        as_json: Print the results as a JSON object.
    """
    with terminal.open_output(None) as stdout:
        first = read_folder(runs[0])
        corpus = _open_corpus(first, data, reading)
        is_only = data is not None and len(corpus.splits) == 1
        split = split or (corpus.splits[0] if is_only else "test")
        corpus.pairs(split)  # raises if there is no such split
        name, (part, *others) = split, corpus.parts
        if not others and os.path.isfile(part.data[0]):  # a name as news.en
            file = without_suffix(os.path.basename(part.data[0]))
            name = os.path.splitext(file)[0]
        translator = model.open(
            [first, *runs[1:]], search, reads_many=True, workers=workers
        )
        from keras_transformer.train import evaluation

        checkpoints = translator.checkpoints
        # Training may replace them meanwhile.
        steps = [step_of(checkpoint) for _, checkpoint in checkpoints]
        print(f"decoding {name} of {corpus.name}")
        with progress_bar(unit="sentence", leave=False) as bar:
            results, hypotheses = evaluation.evaluate(
                translator,
                corpus,
                split,
                corpus.target,
                metrics=metric,
                progress=bar.update,
            )
        results["split"] = name
        for option in ("target_language", "tag"):
            if (value := getattr(model, option)) is not None:
                results[option] = value
        describe = json.dumps if as_json else evaluation.describe
        # Before they are recorded, so that a full disk does not lose them.
        print(describe(results), file=stdout)
        if len(checkpoints) != 1:
            print("not recorded: the results of an ensemble or an export")
            return
        run, checkpoint = checkpoints[0]
        path = evaluation.record(run, checkpoint, steps[0], results, hypotheses)
        print(f"recorded in {path}")


def _open_corpus(
    folder: Run | Export, data: list[str] | None, reading: flags.CorpusFlags
) -> Corpus:
    """Opens the data, by default the training data of a run."""
    request = folder.request if data is None else {}
    reading = dataclasses.replace(
        reading,
        source=reading.source or folder.languages[0],
        target=reading.target or folder.languages[1],
        columns=reading.columns or request.get("columns"),
    )
    try:
        return reading.open(data or request.get("data"), request.get("corpora"))
    except InputError as error:
        if data is not None:
            raise
        raise InputError(
            f"The training data of {folder.path} cannot be opened. Pass --data."
        ) from error
