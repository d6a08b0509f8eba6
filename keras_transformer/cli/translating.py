"""The commands that use a model on texts: translate, score, evaluate."""

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter
from cyclopts.types import ExistingFile, NonExistentFile

import keras_transformer as kt
from keras_transformer.cli import flags, terminal
from keras_transformer.inference.exports import Export
from keras_transformer.inference.opening import read_folder
from keras_transformer.runs.run_folder import Run
from keras_transformer.runs.weight_files import step_of
from keras_transformer.support.errors import InputError, name_file
from keras_transformer.support.logs import progress_bar
from keras_transformer.support.text_files import without_suffix
from keras_transformer.tasks import ParsingTask, Task
from keras_transformer.text import split_sentences as split_into_sentences
from keras_transformer.train.data.corpus import Corpus

if TYPE_CHECKING:
    from keras_transformer.inference.records import Translation

# What may be wrong, by the field of `Translation` that says so.
_PROBLEMS = {
    "source_truncated": "inputs truncated to the model's maximum length",
    "at_length_limit": "outputs as long as --extra-length and --length-factor "
    "allow, perhaps incomplete",
    "repaired": "outputs that were not a tree over the words, repaired",
    "numbers_differ": "outputs with digits that differ from the input, marked "
    "by --jsonl",
}
_SEVERAL_SENTENCES = (
    "inputs of several sentences, which --split-sentences separates"
)
_TREES = Parameter(group=Group("Trees" + flags.RARE, sort_key=3.5))
_SAMPLING = Parameter(group=Group("Sampling", sort_key=5))


def translate(
    runs: flags.ModelsFlag,
    *,
    input: list[ExistingFile] | None = None,
    output: NonExistentFile | None = None,
    num_translations: flags.NumTranslations = None,
    split_sentences: bool = False,
    prefix: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
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
        num_translations: Print the N best outputs per line, as line number,
            score and text (default: only the best text).
        split_sentences: Translate each sentence of a line separately.
        prefix: Text that every translation begins with.
        tokenized: For runs that parse: take the words of a line to be
            separated by spaces already, as in the Penn Treebank.
        one_line: For runs that parse: print each tree in one line.
        jsonl: Print a JSON object for each line: its text, the N best outputs
            and their scores, and what may be wrong with the best one.
        sample: Draw translations at random, instead of beam search.
    """
    if (sample or sampling) and "beam_size" in (search or {}):
        raise InputError("Sampling cannot be combined with --beam-size.")
    if split_sentences and (num_translations or prefix or jsonl):
        raise InputError(
            "--split-sentences cannot be combined with --n-best, --prefix or "
            "--jsonl."
        )
    problems: Counter[str] = Counter()
    with terminal.open_output(output) as stream:
        folders = [read_folder(run) for run in runs]
        parses = not folders[0].task.targets_are_text
        if (tokenized or one_line) and not parses:
            raise InputError("--tokenized and --one-line need a parser.")
        translator = model.open(
            folders,
            search,
            num_translations,
            task=ParsingTask(split_words=False) if tokenized else None,
            sampling=(sampling or {}) if sample else sampling,
            reads_many=True,
            workers=workers,
        )
        for lines, first, bar in terminal.read_with_progress(input):
            translator.check_languages(lines, first)
            if split_sentences:
                document = translator.translate_document(
                    "\n".join(lines), progress=bar.update
                )
                translations = list(document.translations.values())
                texts = [document.text]
            else:
                translations = translator.translate(
                    lines, prefixes=[prefix] * len(lines), progress=bar.update
                )
                pairs = zip(lines, translations, strict=True)
                texts = [
                    _as_text(
                        translator.task,
                        number,
                        line,
                        translation,
                        as_json=jsonl,
                        is_numbered=num_translations is not None,
                        as_tree=parses and not one_line,
                    )
                    for number, (line, translation) in enumerate(pairs, first)
                ]
            for translation in translations:
                for field, problem in _PROBLEMS.items():
                    problems[problem] += getattr(translation, field)
            if not split_sentences and not parses:
                parts = (split_into_sentences(x.strip()) for x in lines)
                problems[_SEVERAL_SENTENCES] += sum(len(x) > 1 for x in parts)
            bar.clear()
            stream.writelines(f"{text}\n" for text in texts)
            bar.refresh()
    for problem, number in problems.items():
        if number:
            terminal.report(f"{problem}: {number:,}")


def _as_text(
    task: Task,
    number: int,
    line: str,
    result: "Translation",
    as_json: bool,
    is_numbered: bool,
    as_tree: bool,
) -> str:
    """Returns what is printed for one line of input."""
    if as_json:
        columns = {"text": line, **task.columns(result)}
        return json.dumps(columns, ensure_ascii=False)
    texts = result.texts
    if task.targets_are_text:  # a model may spell line ends
        texts = [" ".join(text.splitlines()) for text in texts]
    if is_numbered:
        return "\n".join(
            f"{number}\t{score:.4f}\t{text}"
            for score, text in zip(result.scores, texts, strict=True)
        )
    if as_tree and texts[0]:  # an empty line has no tree
        tree = kt.parsing.Tree.from_string(texts[0])
        return f"{kt.parsing.pretty(tree)}\n"
    return texts[0]


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
        input: Files of source, tab and translation on each line; further
            columns are ignored (default: standard input).
        output: New file to write (default: standard output), with empty lines
            for pairs that are empty or longer than the model reads.
    """
    missing = 0
    with terminal.open_output(output) as stream:
        translator = model.open(runs, search, reads_many=True, workers=workers)
        for lines, first, bar in terminal.read_with_progress(input):
            sources, targets = [], []
            for number, line in enumerate(lines, first):
                source, tab, rest = line.partition("\t")
                if not tab:
                    raise InputError(
                        "Each line must be a source, a tab and its "
                        f"translation. Received: no tab in line {number}"
                    )
                sources.append(source)
                targets.append(rest.partition("\t")[0])
            translator.check_languages(sources, first)
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
        folders = [read_folder(run) for run in runs]
        corpus = _open_corpus(folders[0], data, reading)
        is_only = data is not None and len(corpus.splits) == 1
        split = split or (corpus.splits[0] if is_only else "test")
        corpus.pairs(split)  # raises if there is no such split
        name = split
        file = corpus.parts[0].data[0]
        if len(corpus.parts) == 1 and Path(file).is_file():
            name = Path(without_suffix(file)).stem  # of a file news.en.gz: news
        translator = model.open(
            folders, search, reads_many=True, workers=workers
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
    if data is None and not request:
        raise InputError(
            f"is required, since {folder.path} records no training data.",
            argument="data",
        )
    reading = dataclasses.replace(
        reading,
        source=reading.source or folder.languages[0],
        target=reading.target or folder.languages[1],
        columns=reading.columns or request.get("columns"),
    )
    if data is not None:
        return reading.open(data, None)
    name = f"The training data of {folder.path} (pass --data for other data)"
    with name_file(name):
        return reading.open(request.get("data"), request.get("corpora"))
