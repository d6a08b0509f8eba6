"""The commands that use a model on texts: translate, score, evaluate."""

import contextlib
import functools
import json
import os
import re
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Group, Parameter

import keras_transformer as kt
from keras_transformer.cli import flags, terminal
from keras_transformer.inference.exports import Export
from keras_transformer.inference.model_folder import find_folder
from keras_transformer.inference.opening import read_folder
from keras_transformer.inference.run_folder import Run
from keras_transformer.inference.weight_files import step_of
from keras_transformer.support.compressed import without_suffix
from keras_transformer.support.errors import InputError
from keras_transformer.support.progress import progress_bar
from keras_transformer.tasks import ParsingTask, Task
from keras_transformer.train.data.corpus import Corpus

if TYPE_CHECKING:
    from keras_transformer.inference.records import Translation

_SHOWN = 10  # lines in a message
# What may be wrong with an output, by the field of `Translation`.
_PROBLEMS = {
    "source_truncated": "truncated, longer than the model reads",
    "at_length_limit": "perhaps incomplete, as long as --extra-length and "
    "--length-factor allow",
    "repaired": "repaired, because the model wrote no tree over them",
}
_TREES = Parameter(group=Group("Trees" + flags.RARE, sort_key=3.5))


def translate(
    runs: flags.ModelsFlag,
    *,
    input: list[Path] | None = None,
    output: Path | None = None,
    n_best: flags.PositiveInteger | None = None,
    split_sentences: bool = False,
    prefix: Annotated[str, Parameter(allow_leading_hyphen=True)] = "",
    tokenized: Annotated[bool, _TREES] = False,
    one_line: Annotated[bool, _TREES] = False,
    jsonl: bool = False,
    model: flags.SamplingFlags = flags.SamplingFlags(),
) -> None:
    """Translate or parse text line by line.

    Args:
        input: Text files (default: standard input).
        output: New file to write (default: standard output).
        n_best: Print the N best outputs of each line, each in one line as line
            number, score and output, separated by tabs (default: 1, its text
            alone).
        split_sentences: Translate every sentence of a line by itself.
        prefix: What every translation must begin with.
        tokenized: For runs that parse: the words of a line are separated by
            spaces already, as in the Penn Treebank.
        one_line: For runs that parse: print each tree in one line.
        jsonl: Print a JSON object for each line: its text, the N best outputs
            and their scores, and what may be wrong with the best one.
    """
    terminal.check_output(output)
    folder = _read_first(runs)
    parses = not folder.task.targets_are_text
    if parses:
        flags.refuse("a run that translates", split_sentences=split_sentences)
    else:
        flags.refuse(
            "a run that parses", tokenized=tokenized, one_line=one_line
        )
    if split_sentences:
        flags.refuse("lines of text", n_best=n_best, prefix=prefix, jsonl=jsonl)
    total = terminal.count_lines(input)
    task = ParsingTask(split_words=False) if tokenized else None
    translator = model.open(runs, n_best or 1, task)
    workers = translator.recommended_workers
    as_text = functools.partial(_as_text, n_best, parses, one_line)
    if jsonl:
        as_text = functools.partial(_as_json, translator.task)
    unit = "sentence" if split_sentences else "line"
    problems: dict[str, list[str]] = {}
    number = 0
    with (
        contextlib.ExitStack() as stack,
        terminal.open_output(output) as stream,
        terminal.progress_of(input, total, unit) as bar,
    ):
        stack.callback(_report_problems, problems, unit)
        for lines in terminal.read_lines(input):
            numbers = range(number + 1, number + len(lines) + 1)
            number += len(lines)
            translator.check_languages(lines, numbers[0])
            if split_sentences:
                document = translator.translate_document(
                    "\n".join(lines), workers=workers, progress=bar.update
                )
                by_sentence = document.translations
                names = map(_shorten, by_sentence)
                _note_problems(problems, names, by_sentence.values())
                texts = [document.text + "\n"]
            else:
                translations = translator.translate(
                    lines,
                    workers=workers,
                    prefixes=[prefix] * len(lines),
                    progress=bar.update,
                )
                _note_problems(problems, numbers, translations)
                names = lines if jsonl else numbers
                texts = [
                    as_text(*pair)
                    for pair in zip(names, translations, strict=True)
                ]
            bar.clear()
            stream.writelines(texts)
            bar.refresh()


def _read_first(runs: Sequence[str]) -> Run | Export:
    """Reads the first folder, before TensorFlow is imported."""
    # TensorFlow reads it when it is imported. On CPU a batch per core is
    # computed at the same time instead.
    os.environ.setdefault("TF_NUM_INTRAOP_THREADS", "1")
    # Standard output is for translations.
    with contextlib.redirect_stdout(sys.stderr):
        folder = read_folder(runs[0])
    for path in runs[1:]:
        if not find_folder(path).exists():
            raise InputError(
                "Texts come from --input or standard input. Received: "
                f"{path!r}, which is not the folder of a run"
            )
    return folder


def _note_problems(
    problems: dict[str, list[str]],
    names: Iterable[Any],
    translations: Iterable["Translation"],
) -> None:
    """Notes the names of inputs with whose output something may be wrong."""
    for name, translation in zip(names, translations, strict=True):
        for field, problem in _PROBLEMS.items():
            if getattr(translation, field):
                problems.setdefault(problem, []).append(str(name))


def _report_problems(problems: dict[str, list[str]], unit: str) -> None:
    for problem, names in problems.items():
        shown = ", ".join(names[:_SHOWN])
        more = len(names) - _SHOWN
        shown += f" and {more:,} more" if more > 0 else ""
        plural = "s" if len(names) > 1 else ""
        terminal.report(f"{unit}{plural} {shown}: {problem}")


def _shorten(text: str) -> str:
    return f'"{text}"' if len(text) <= 40 else f'"{text[:39]}…"'


def _as_text(
    n_best: int | None,
    parses: bool,
    one_line: bool,
    number: int,
    translation: "Translation",
) -> str:
    """Returns what is printed of the outputs for a line."""
    texts = translation.texts
    if not parses:  # a model may spell line ends
        texts = [" ".join(text.splitlines()) for text in texts]
    if n_best is not None:
        return "".join(
            f"{number}\t{score:.4f}\t{text}\n"
            for score, text in zip(translation.scores, texts, strict=True)
        )
    # An empty line has no tree.
    if parses and texts[0] and not one_line:
        tree = kt.parsing.Tree.from_string(texts[0])
        return f"{kt.parsing.pretty(tree)}\n\n"
    return f"{texts[0]}\n"


def _as_json(task: Task, text: str, translation: "Translation") -> str:
    """Returns a line of `--jsonl`, with the names that signatures have."""
    columns = {"text": text, **task.columns(translation)}
    return json.dumps(columns, ensure_ascii=False) + "\n"


def score(
    runs: flags.ModelsFlag,
    *,
    input: list[Path] | None = None,
    output: Path | None = None,
    model: flags.ScoreFlags = flags.ScoreFlags(),
) -> None:
    """Score given translations.

    Args:
        input: Files of source, tab and translation on each line, of which
            further columns are ignored (default: standard input).
        output: New file to write (default: standard output).
    """
    terminal.check_output(output)
    _read_first(runs)
    total = terminal.count_lines(input)
    translator = model.open(runs)
    start = 1
    with (
        terminal.open_output(output) as stream,
        terminal.progress_of(input, total) as bar,
    ):
        for lines in terminal.read_lines(input):
            pairs = _read_pairs(input, lines, start)
            try:
                scores = translator.score(
                    [source for source, _ in pairs],
                    [target for _, target in pairs],
                    workers=translator.recommended_workers,
                    progress=bar.update,
                )
            except InputError as error:
                message = _name_line(str(error), input, start)
                raise InputError(message) from error
            bar.clear()
            stream.writelines(
                f"{x.score:.4f}\t{x.perplexity:.4f}\n" for x in scores
            )
            bar.refresh()
            start += len(lines)


def _read_pairs(
    inputs: Sequence[Path] | None, lines: Sequence[str], start: int
) -> list[list[str]]:
    """Returns source and translation of lines, the first of number `start`."""
    # Further columns are ignored, as those of a corpus are.
    pairs = [line.split("\t", 2)[:2] for line in lines]
    for number, pair in enumerate(pairs, start):
        if len(pair) != 2:
            raise InputError(
                "Each line must be a source, a tab and its translation. "
                f"Received: 0 tabs in "
                f"{terminal.name_line(inputs, number)}"
            )
    return pairs


def _name_line(message: str, inputs: Sequence[Path] | None, start: int) -> str:
    """Names the line that a message numbers among those from `start` on."""
    return re.sub(
        r"at index (\d+)",
        lambda match: f"in {terminal.name_line(inputs, start + int(match[1]))}",
        message,
    )


def evaluate(
    runs: flags.ModelsFlag,
    *,
    data: flags.RunCorpusFlag = None,
    source: flags.SourceFlag = None,
    target: flags.TargetFlag = None,
    columns: flags.ColumnsFlag = None,
    split: Annotated[
        str | None, Parameter(show_default="test, or the only one of --data")
    ] = None,
    metric: list[str] | None = None,
    as_json: Annotated[bool, Parameter(name="--json")] = False,
    model: flags.ModelFlags = flags.ModelFlags(),
) -> None:
    """Measure BLEU or F1 on a split.

    Args:
        split: Split to measure.
        metric: Of translation: bleu, chrf, tokenized_bleu, ter (default: all
            but ter); of parsing: f1, precision, recall, unlabelled_f1,
            complete_match, tag_accuracy (default: all).
        as_json: Print the results as a JSON object; messages go to standard
            error.
    """
    folder = _read_first(runs)
    corpus = _open_corpus(folder, data, source, target, columns)
    is_only = data is not None and len(corpus.splits) == 1
    split = split or (corpus.splits[0] if is_only else "test")
    corpus.pairs(split)  # raises if there is no such split
    name, (part, *others) = split, corpus.parts
    if not others and os.path.isfile(part.data[0]):  # a name such as news.en
        file = without_suffix(os.path.basename(part.data[0]))
        name = os.path.splitext(file)[0]
    translator = model.open(runs)
    from keras_transformer.train import evaluation

    checkpoints = translator.checkpoints
    # Training may replace them meanwhile.
    steps = [step_of(checkpoint) for _, checkpoint in checkpoints]
    describe = json.dumps if as_json else evaluation.describe
    say = functools.partial(print, file=sys.stderr if as_json else sys.stdout)
    say(f"decoding {name} of {corpus.name}")
    with progress_bar(unit="sentence", leave=False) as bar:
        results, hypotheses = evaluation.evaluate(
            translator,
            corpus,
            split,
            corpus.target,
            translator.recommended_workers,
            metric,
            progress=bar.update,
        )
    results["split"] = name
    if len(checkpoints) != 1:
        print(describe(results))
        say("not recorded: the results of an ensemble or an export")
        return
    ((run, checkpoint),), (step,) = checkpoints, steps
    for name in ("target_language", "tag"):
        if (value := getattr(model, name)) is not None:
            results[name] = value
    # Before they are recorded, so that a full disk does not lose them.
    print(describe(results))
    path = evaluation.record(run, checkpoint, step, results, hypotheses)
    say(f"recorded in {path}")


def _open_corpus(
    folder: Run | Export,
    data: list[str] | None,
    source: str | None,
    target: str | None,
    columns: tuple[int, int] | None,
) -> Corpus:
    """Opens the data, by default those that a run was trained on."""
    request = folder.request
    languages = source or folder.languages[0], target or folder.languages[1]
    if languages == folder.languages[::-1] and languages[0] != languages[1]:
        raise InputError(
            f"{folder.path} translates in the other direction. Received: "
            f"source={source}, target={target}"
        )
    if data is None and "corpora" in request:
        return kt.train.open_corpora(request["corpora"], *languages)
    if data is None:
        data, columns = request.get("data"), columns or request.get("columns")
    if not data:
        raise InputError(
            f"{folder.path} does not record what it was trained on. Pass --data"
        )
    return kt.train.open_corpus(data, *languages, columns)
