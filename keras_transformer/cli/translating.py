"""The commands that answer line by line."""

import argparse
import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, TextIO

import keras_transformer as kt
from keras_transformer.cli import terminal
from keras_transformer.cli.arguments import open_translator
from keras_transformer.cli.options import (
    MODELS_OR_EXPORT,
    N_BEST,
    SEARCH,
    command,
    field_flags,
    flag,
    flags,
)
from keras_transformer.decoding.settings import BeamSearch, Sampling
from keras_transformer.support.errors import InputError

if TYPE_CHECKING:
    from keras_transformer.inference.base import BaseTranslator
    from keras_transformer.inference.records import Score, Translation

_SHOWN = 10  # lines in a message
_TREES = ("tokenized", "one_line")


def _streams(text: str) -> tuple:
    """Returns the flags of what is read and written."""
    return (
        flag("--input FILE", f"{text} (default: standard input)", nargs="+"),
        flag("--output FILE", "new file to write (default: standard output)"),
    )


@command(
    MODELS_OR_EXPORT,
    flags(
        *_streams("text files"),
        N_BEST,
        flag(
            "--split-sentences",
            "translate every sentence of a line by itself",
        ),
        flag(
            "--prefix TEXT",
            "what every translation must begin with",
            default="",
        ),
        title="input and output",
    ),
    SEARCH,
    flags(
        flag(
            "--sample", "draw translations at random, in place of beam search"
        ),
        field_flags(
            Sampling,
            without=BeamSearch.__dataclass_fields__,
            common=("temperature", "top_k", "top_p"),
        ),
        title="sampling",
    ),
    flags(
        flag(
            "--tokenized",
            "the words of a line are separated by spaces already, as in the "
            "Penn Treebank",
        ),
        flag("--one-line", "print each tree in one line"),
        title="trees, of runs that parse",
    ),
)
def translate(options: argparse.Namespace) -> None:
    """Translate or parse text line by line."""
    if options.split_sentences:
        names = ("n_best", "prefix", *_TREES)
        _refuse_flags(options, names, "for lines of text")
    translator = open_translator(options)
    if translator.task.targets_are_text:
        _refuse_flags(options, _TREES, "for a run that parses")
    else:
        names = ("split_sentences",)
        _refuse_flags(options, names, "for a run that translates")
    has_lines = not options.split_sentences
    outputs = _Outputs(translator, options.prefix, has_lines)
    with terminal.written(options.output) as stream, outputs.reported():
        for lines in terminal.read_lines(options.input):
            if options.split_sentences:
                print(outputs.document("\n".join(lines)), file=stream)
                continue
            for number, found in outputs.of(lines):
                if translator.task.targets_are_text:
                    _print_text(options, number, found, stream)
                else:
                    _print_tree(options, number, found, stream)


def _refuse_flags(
    options: argparse.Namespace, names: tuple[str, ...], purpose: str
) -> None:
    for name in names:
        if getattr(options, name):
            raise InputError(
                f"--{name.replace('_', '-')} is {purpose}. Leave it out."
            )


class _Outputs:
    """Translates lines, and remembers those where something is wrong.

    Sentences, which are not lines, are remembered by how they begin.
    """

    def __init__(
        self,
        translator: "BaseTranslator",
        prefix: str,
        has_lines: bool,
    ) -> None:
        self._translator = translator
        self._prefix = prefix
        self._count = 0
        self._has_lines = has_lines
        tokens, hint = (
            ("tokens", "--extra-length, --length-factor")
            if translator.task.targets_are_text
            else ("symbols", "--extra-length")
        )
        self._truncated = "truncated, to all that the model reads"
        self._incomplete = f"perhaps incomplete, as long as it may be ({hint})"
        if limit := translator.max_length:
            self._truncated = (
                f"truncated at {limit - 1} tokens, which is all that the model "
                "reads"
            )
            self._incomplete = (
                f"perhaps incomplete, with as many {tokens} as there may be, "
                f"{limit} or fewer ({hint})"
            )
        self._repaired = "repaired, because the model wrote no tree over them"
        self._problems: dict[str, list[str]] = {}

    def of(self, lines: list[str]) -> "Iterator[tuple[int, Translation]]":
        """Yields number and output of each of the next lines."""
        translations = self._translator.translate(
            lines,
            workers=self._translator.recommended_workers,
            prefixes=[self._prefix] * len(lines),
        )
        for translation in translations:
            self._count += 1
            self._note_problems(translation, str(self._count))
            yield self._count, translation

    def document(self, text: str) -> str:
        """Returns the translation of a text of several sentences."""
        document = self._translator.translate_document(
            text, workers=self._translator.recommended_workers
        )
        for sentence, translation in document.translations.items():
            self._note_problems(translation, _beginning(sentence))
        return document.text

    def _note_problems(self, translation: "Translation", name: str) -> None:
        if translation.source_truncated:
            self._note(self._truncated, name)
        if translation.at_length_limit:
            self._note(self._incomplete, name)
        elif translation.repaired:
            self._note(self._repaired, name)

    @contextlib.contextmanager
    def reported(self) -> Iterator[None]:
        """Reports after the block, in one line, what may be wrong."""
        try:
            yield
        finally:
            if self._problems:
                terminal.report(
                    "; ".join(
                        f"{self._listed(names)}: {problem}"
                        for problem, names in self._problems.items()
                    )
                )

    def _note(self, problem: str, name: str) -> None:
        self._problems.setdefault(problem, []).append(name)

    def _listed(self, names: list[str]) -> str:
        unit = "line" if self._has_lines else "sentence"
        text = f"{unit}{'s' * (len(names) > 1)} {', '.join(names[:_SHOWN])}"
        more = len(names) - _SHOWN
        return f"{text} and {more:,} more" if more > 0 else text


def _beginning(text: str) -> str:
    return f'"{text}"' if len(text) <= 40 else f'"{text[:39]}…"'


def _in_one_line(text: str) -> str:
    return " ".join(text.splitlines())  # a model may spell line ends


def _print_text(
    options: argparse.Namespace,
    number: int,
    found: "Translation",
    stream: TextIO,
) -> None:
    texts = list(map(_in_one_line, found.texts))
    if options.n_best is None:
        print(texts[0], file=stream)
    else:
        _print_n_best(number, found.scores, texts, stream)


def _print_tree(
    options: argparse.Namespace,
    number: int,
    found: "Translation",
    stream: TextIO,
) -> None:
    text = found.texts[0]
    # An empty line has no tree.
    tree = kt.parsing.Tree.from_string(text) if text else None
    if options.n_best is not None:
        _print_n_best(number, found.scores, found.texts, stream)
    elif tree is None or options.one_line:
        print(text, file=stream)
    else:
        print(f"{kt.parsing.pretty(tree)}\n", file=stream)


def _print_n_best(
    number: int,
    scores: list[float],
    texts: list[str],
    stream: TextIO,
) -> None:
    for score, text in zip(scores, texts, strict=True):
        print(f"{number}\t{score:.4f}\t{text}", file=stream)


@command(
    MODELS_OR_EXPORT,
    flags(
        *_streams("files of source, tab and translation on each line"),
        title="input and output",
    ),
    field_flags(BeamSearch, ("alpha", "length_penalty"), title="search"),
)
def score(options: argparse.Namespace) -> None:
    """Score given translations."""
    translator = open_translator(options)
    start = 1
    with terminal.written(options.output) as stream:
        for lines in terminal.read_lines(options.input):
            for found in _scores(translator, lines, start):
                print(f"{found.score:.4f}\t{found.perplexity:.4f}", file=stream)
            start += len(lines)


def _scores(
    translator: "BaseTranslator", lines: list[str], start: int
) -> "Iterator[Score]":
    """Yields the scores of lines, those before an invalid one first."""
    pairs = [line.split("\t") for line in lines]
    try:
        for pair in pairs:
            if len(pair) != 2:
                raise InputError(
                    "Each line must be a source, a tab and its translation. "
                    f"Received: {len(pair) - 1} tabs at index 0"
                )
        yield from translator.score(*map(list, zip(*pairs, strict=True)))
    except InputError as error:
        if len(lines) == 1:
            message = str(error).replace("at index 0", f"in line {start}")
            raise InputError(message) from error
        for number, line in enumerate(lines, start):
            yield from _scores(translator, [line], number)
