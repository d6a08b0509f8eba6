"""The commands that make runs."""

import functools
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Group, Parameter

import keras_transformer as kt
from keras_transformer.cli import flags
from keras_transformer.config import TransformerConfig
from keras_transformer.convert import FORMATS, ForeignModel
from keras_transformer.inference.opening import read_run
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.text import open_tokenizer
from keras_transformer.train.data.corpus import Corpus
from keras_transformer.train.data.filters import PairFilters
from keras_transformer.train.recipe import Recipe

# Fields that are not of the architecture: what a run takes from its tokenizer
# and, as vocab_size, from its recipe.
_OTHER_FIELDS = {"source_vocab_size", "pad_id", "bos_id", "eos_id"}.union(
    Recipe.__dataclass_fields__
)
_flags_of = functools.partial(flags.flags_of, default_of=flags.small_default)
SizeFlags = _flags_of(
    Recipe,
    "Sizes",
    4,
    names=("vocab_size", "max_length"),
)
RecipeFlags = _flags_of(
    Recipe,
    "Training hyper-parameters",
    4,
    common=("vocab_size", "steps", "batch_tokens", "max_length", "dtype"),
)
ArchitectureFlags = _flags_of(
    TransformerConfig,
    "Architecture",
    5,
    without=_OTHER_FIELDS,
    common=("num_layers", "d_model"),
)
_FILTERS = Parameter(group=Group("Filters", sort_key=5))
_DEVICES = Parameter(group=Group("Devices" + flags.RARE, sort_key=6))


def prepare(
    data: flags.CorpusFlag = None,
    *,
    output: Path,
    corpora: flags.CorporaFlag = None,
    source: flags.SourceFlag = None,
    target: flags.TargetFlag = None,
    columns: flags.ColumnsFlag = None,
    preset: str = "small",
    tokenizer: flags.TokenizerFlag = None,
    sizes: SizeFlags = None,
    filters: flags.FilterFlags = None,
    dropped: Annotated[Path | None, _FILTERS] = None,
) -> None:
    """Tokenize a large corpus for training.

    Args:
        output: New folder to write.
        preset: Preset whose sizes to use; `presets` lists all.
        dropped: .tsv file to write of what is dropped: reason, source, target.
    """
    values = sizes or {}
    if tokenizer is not None:
        open_tokenizer(tokenizer, values.get("vocab_size"))
    recipe = Recipe.from_preset(preset, **values)
    from keras_transformer.train import preparation

    prepared = preparation.prepare(
        _open_data(data, corpora, source, target, columns),
        output,
        recipe,
        tokenizer,
        PairFilters(**(filters or {})),
        dropped,
    )
    statistics = prepared.statistics.describe(prepared.max_length)
    print(
        f"train: {statistics}\n\nThe corpus is in {prepared.path}. Next:\n"
        "  keras-transformer train "
        f"{shlex.quote(str(output))} --preset {preset} --output runs/mine"
    )


def train(
    data: flags.CorpusFlag = None,
    *,
    output: Path | None = None,
    corpora: flags.CorporaFlag = None,
    source: flags.SourceFlag = None,
    target: flags.TargetFlag = None,
    columns: flags.ColumnsFlag = None,
    preset: str | None = None,
    init_from: Path | None = None,
    tokenizer: flags.TokenizerFlag = None,
    recipe: RecipeFlags = None,
    architecture: ArchitectureFlags = None,
    strategy: Annotated[
        Literal["auto", "single", "mirrored", "multiworker"], _DEVICES
    ] = "auto",
    dry_run: bool = False,
) -> None:
    """Train on a parallel corpus.

    Args:
        output: Folder of the run; alone it resumes the training there.
        preset: tiny, small, base, big or another of `presets` (default: small,
            as below; with --init-from that of the run).
        init_from: Run whose tokenizer and newest weights to start with.
        strategy: Devices to train on.
        dry_run: Try three steps, report, and write nothing.
    """
    corpus = None
    if data or corpora:
        corpus = _open_data(data, corpora, source, target, columns)
    else:
        languages = dict(source=source, target=target)
        flags.refuse("DATA or --corpora", columns=columns, **languages)
    run = kt.train.train(
        corpus,
        output,
        preset,
        recipe,
        architecture=architecture,
        strategy=strategy,
        init_from=init_from,
        tokenizer=tokenizer,
        dry_run=dry_run,
    )
    if run is None:  # only the chief of several workers reports
        return
    print(f"\nThe run is in {run.path}. Next:")
    name = shlex.quote(str(run.path))
    splits = ("train",) if corpus is None else corpus.splits
    split = "test" if "test" in splits else splits[-1]
    if split != "train":
        print(f"  keras-transformer evaluate {name} --split {split}")
    print(f"  keras-transformer translate {name}")
    if run.task.targets_are_text:
        print(f"  keras-transformer export {name} --output exported/1")


def _open_data(
    data: list[str] | None,
    corpora: list[dict[str, Any]] | None,
    source: str | None,
    target: str | None,
    columns: tuple[int, int] | None,
) -> Corpus:
    """Opens the corpus, or the several corpora, that flags name."""
    if bool(data) == bool(corpora):
        raise InputError(
            "Give either DATA or --corpora. Received: "
            + ("both" if data else "neither")
        )
    if corpora:
        flags.refuse("DATA; an entry of --corpora has its own", columns=columns)
        return kt.train.open_corpora(corpora, source, target)
    return kt.train.open_corpus(data, source, target, columns)


def import_(
    model: str,
    *,
    output: Path,
    format: Annotated[str | None, Parameter(choices=tuple(FORMATS))] = None,
    source: flags.SourceFlag = None,
    target: flags.TargetFlag = None,
    target_language: flags.TargetLanguageFlag = None,
    revision: str | None = None,
) -> None:
    """Turn a model of another system into a run.

    Args:
        model: Folder of a model of another system, or the name of one on the
            Hugging Face Hub, as Helsinki-NLP/opus-mt-en-de.
        output: Folder of the run.
        format: System that wrote it (default: recognised by its files).
        revision: Branch, tag or commit of a model by name (default: main).
    """
    check_free(output)
    foreign = kt.convert.read(model, format, target_language, revision)
    vocabulary = foreign.vocabulary
    choices = vocabulary.languages  # for each source
    if len(choices) < 2 or vocabulary.language_token is not None:
        choices = ()
    print(_describe(foreign, choices))
    run = foreign.save_run(output, source, target)
    language = f" --target-language {choices[0]}" if choices else ""
    name = shlex.quote(str(run.path))
    print(
        f"\nThe run is in {run.path}. Next:\n"
        f"  keras-transformer translate {name}{language}"
    )


def _describe(foreign: ForeignModel, choices: Sequence[str]) -> str:
    """Returns what a model is, and the languages that sources must choose."""
    search, differences = foreign.search, foreign.differences().items()
    parameters = f"{foreign.config.num_parameters:,} parameters"
    rows = {
        "model": f"{foreign.system}, {parameters}",
        "languages": " to ".join(x or "unknown" for x in foreign.languages),
        "search": f"beam {search.beam_size}, score log P / {search.formula}",
        "not the paper's": ", ".join(f"{x} {y}" for x, y in differences),
        "weights": foreign.file,
    }
    lines = [f"{name + ':':<17} {value}" for name, value in rows.items()]
    lines += [f"{'not followed:':<17} {note}" for note in foreign.notes]
    if choices:
        lines.append(
            f"A source must begin with one of {len(choices)} target languages, "
            f"as in >>{choices[0]}<<, unless --target-language names one, here "
            f"or later: {', '.join(choices)}"
        )
    return "\n".join(lines)


def average(
    run: flags.RunFlag,
    *,
    output: Path,
    last: flags.PositiveInteger | None = None,
) -> None:
    """Average the last checkpoints of a run.

    Args:
        output: Folder of the new run.
        last: Number of checkpoints (default: as many as training keeps, 5 for
            base and 20 for big).
    """
    from keras_transformer.train import averaging

    mean = averaging.average(read_run(run), output, last)
    print(f"{mean.path} holds the mean of")
    for name in mean.statistics["averaged"]:
        print(f"  {name}")
    name = shlex.quote(str(mean.path))
    print(f"\nNext:\n  keras-transformer evaluate {name}")


def presets() -> None:
    """List the presets and their parameters."""
    print(
        f"{'preset':<19} {'parameters':>12} {'vocabulary':>11} {'batch':>7} "
        f"{'steps':>8} {'paper:':>7} {'PPL':>5} {'BLEU':>5}  description"
    )
    for name, preset in PRESETS.items():
        config = TransformerConfig.from_preset(name)
        recipe = Recipe.from_preset(name)
        paper = preset.paper_parameters
        print(
            f"{name:<19} {config.num_parameters:>12,} "
            f"{recipe.vocab_size:>11,} {recipe.batch_tokens:>7,} "
            f"{recipe.steps:>8,} {f'{paper}M' if paper else '-':>7} "
            f"{preset.paper_perplexity or '-':>5} "
            f"{preset.paper_bleu or '-':>5}  {preset.description}"
        )
    print(
        "\nThe batch is in source plus target tokens. The columns after "
        "`paper:` are from\nthe paper's Table 3: parameters, and perplexity "
        "per subword and BLEU on\nnewstest2013. Our parameters are those for "
        "the 37,000 tokens that the paper\nstates; its own figures, except "
        "big's, match a vocabulary of about 41,000."
    )
