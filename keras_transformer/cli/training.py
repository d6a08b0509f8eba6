"""The commands that make and measure runs."""

import argparse
import shlex
import shutil

import keras_transformer as kt
from keras_transformer.cli.arguments import (
    given_values,
    is_run,
    open_corpus,
    open_translator,
)
from keras_transformer.cli.options import (
    CORPUS,
    DATA,
    MODELS_OR_EXPORT,
    PRESET_NAMES,
    RUN,
    SEARCH,
    TARGET_LANGUAGE,
    command,
    field_flags,
    flag,
)
from keras_transformer.config import TransformerConfig
from keras_transformer.convert import FORMATS, ForeignModel
from keras_transformer.inference.run_folder import step_of
from keras_transformer.presets import PRESETS
from keras_transformer.support.errors import InputError
from keras_transformer.support.files import check_free
from keras_transformer.support.startup import import_tensorflow_quietly
from keras_transformer.tasks import TASKS
from keras_transformer.train.recipe import Recipe

# Fields that are not of the architecture: what a run takes from its tokenizer
# and, as vocab_size, from its recipe.
_OTHER_FIELDS = {"source_vocab_size", "pad_id", "bos_id", "eos_id"}.union(
    Recipe.__dataclass_fields__
)


@command(
    CORPUS,
    flag("--output DIR", "folder to write", required=True),
    flag("--preset NAME", PRESET_NAMES, default="small"),
    flag(
        "--init-from RUN",
        "use the tokenizer of this run, as `train --init-from` needs",
    ),
    field_flags(Recipe, ("vocab_size", "max_length")),
)
def prepare(options: argparse.Namespace) -> None:
    """Tokenize a large corpus for training."""
    values = given_values(options, Recipe)
    if options.init_from is not None and "vocab_size" in values:
        raise InputError(
            "--vocab-size is for a new tokenizer, and --init-from takes that "
            "of a run. Leave out one of them. Received: --vocab-size "
            f"{values['vocab_size']}, --init-from {options.init_from}"
        )
    recipe = Recipe.from_preset(options.preset, **values)
    from keras_transformer.train import preparation

    prepared = preparation.prepare(
        open_corpus(options),
        options.output,
        recipe.vocab_size,
        recipe.max_length,
        options.init_from,
    )
    start = f"--preset {options.preset}"
    if options.init_from is not None:
        start = f"--init-from {shlex.quote(options.init_from)}"
    print(
        f"\nThe corpus is in {prepared.path}. Next:\n"
        f"  keras-transformer train {shlex.quote(options.output)} "
        f"{start} --output runs/mine"
    )


@command(
    CORPUS,
    flag("--output RUN", "folder of the run", required=True),
    flag(
        "--preset NAME",
        f"{PRESET_NAMES} (default: small; with --init-from that of the run)",
    ),
    flag(
        "--strategy",
        "devices to train on",
        is_rare=True,
        choices=("auto", "single", "mirrored", "multiworker"),
        default="auto",
    ),
    flag(
        "--cluster",
        "where the addresses of the workers come from (default: TF_CONFIG, if "
        "set)",
        is_rare=True,
        choices=("tf_config", "slurm", "kubernetes"),
    ),
    flag(
        "--init-from RUN",
        "start with the tokenizer and the newest weights of this run",
    ),
    field_flags(
        Recipe,
        title="training hyper-parameters",
        common=("vocab_size", "steps", "batch_tokens", "max_length", "dtype"),
    ),
    field_flags(
        TransformerConfig,
        without=_OTHER_FIELDS,
        title="architecture",
        common=("num_layers", "d_model"),
    ),
)
def train(options: argparse.Namespace) -> None:
    """Train on a parallel corpus."""
    values = given_values(options, Recipe)
    architecture = given_values(options, TransformerConfig)
    # vocab_size and max_length are values of the recipe.
    architecture = {k: v for k, v in architecture.items() if k not in values}
    corpus = open_corpus(options)
    run = kt.train.train(
        corpus,
        options.output,
        options.preset,
        values,
        architecture=architecture,
        strategy=options.strategy,
        cluster=options.cluster,
        init_from=options.init_from,
    )
    if run is None:  # only the chief of several workers reports
        return
    print(f"\nThe run is in {run.path}. Next:")
    split = "test" if "test" in corpus.splits else corpus.splits[-1]
    if corpus.prepared is None or split != "train":  # there it has no texts
        print(f"  keras-transformer evaluate {run.path} --split {split}")
    print(
        f"  keras-transformer translate {run.path}\n"
        f"  keras-transformer export {run.path} --output exported/1"
    )


@command(
    MODELS_OR_EXPORT,
    DATA,
    flag("--split", "split to measure", default="test"),
    flag(
        "--metric NAME",
        "; ".join(
            f"of {task.name}, some of {', '.join(task.metrics)} (default: "
            f"{', '.join(task.default_metrics)})"
            for task in TASKS.values()
        ),
        nargs="+",
    ),
    SEARCH,
)
def evaluate(options: argparse.Namespace) -> None:
    """Measure BLEU or F1 on a split."""
    import_tensorflow_quietly()
    from keras_transformer.train import evaluation
    from keras_transformer.train.cluster import check_one_worker

    check_one_worker("evaluate")
    corpus = open_corpus(options)
    translator = open_translator(options)
    checkpoints = translator.checkpoints
    # Training may replace them meanwhile.
    steps = [step_of(checkpoint) for _, checkpoint in checkpoints]
    print(f"decoding {options.split} of {corpus.name}")
    results, hypotheses = evaluation.evaluate(
        translator,
        corpus,
        options.split,
        corpus.target,
        translator.recommended_workers,
        options.metric,
    )
    if len(checkpoints) != 1:
        print(evaluation.describe(results))
        kind = "an ensemble" if checkpoints else "an export"
        print(f"not recorded: the results of {kind}")
        return
    ((run, checkpoint),), (step,) = checkpoints, steps
    results.update(evaluation.training_cost(run, step))
    if options.target_language is not None:
        results["target_language"] = options.target_language
    # Before they are recorded, so that a full disk does not lose them.
    print(evaluation.describe(results))
    path = evaluation.record(run, checkpoint, step, results, hypotheses)
    print(f"recorded in {path}")


@command(
    flag("folder", "folder of a model of another system", metavar="FOLDER"),
    flag("--output RUN", "folder of the run", required=True),
    flag(
        "--format",
        "system that wrote it (default: recognised by its files)",
        choices=tuple(FORMATS),
    ),
    TARGET_LANGUAGE,
)
def import_(options: argparse.Namespace) -> None:
    """Turn a model of another system into a run."""
    # What is refused so far needs no TensorFlow.
    check_free(options.output)
    if is_run(options.folder):
        raise InputError(
            "The command reads models of other systems. Received: "
            f"{options.folder}, which is a run already: use it as it is"
        )
    found = kt.convert.read(
        options.folder, options.format, options.target_language
    )
    print(_description(found))
    import_tensorflow_quietly()
    model = found.load_model("float32")
    source, target = found.languages
    recipe = dict(preset=None, source=source, target=target)
    try:
        run = kt.train.TrainingRun.create(
            options.output,
            found.config,
            {**recipe, "imported_from": found.system},
            found.vocabulary,
            model=model,
            search=found.search,
        )
    except BaseException:
        shutil.rmtree(options.output, ignore_errors=True)
        raise
    languages = f"--source {source or 'LANGUAGE'} "
    languages += f"--target {target or 'LANGUAGE'}"
    print(
        f"\nThe run is in {run.path}. Next:\n"
        f"  keras-transformer translate {run.path}\n"
        f"  keras-transformer evaluate {run.path} --data DATA {languages}\n"
        f"  keras-transformer train DATA --init-from {run.path} {languages} "
        "--output runs/fine-tuned\n"
        f"  keras-transformer export {run.path} --output exported/1"
    )


def _description(found: ForeignModel) -> str:
    """Returns what a model is, and what is special about it."""
    config, vocabulary = found.config, found.vocabulary
    sides = dict(encoder=config.encoder, decoder=config.decoder)
    search = found.search
    factor, extra = search.length_factor, search.extra_length
    limits = {f"{factor:g} per source token": factor, f"{extra} tokens": extra}
    limit = " and ".join(text for text, number in limits.items() if number)
    differences = ", ".join(
        f"{name} {value}" for name, value in found.differences().items()
    )
    rows = {
        "model": f"{found.system}, {config.num_parameters:,} parameters",
        **{
            name: f"{sizes.num_layers} layers, {sizes.num_heads} heads, d_ff "
            f"{sizes.d_ff:,}, d_model {config.d_model:,}"
            for name, sizes in sides.items()
        },
        "languages": " to ".join(one or "unknown" for one in found.languages),
        "vocabulary": f"{vocabulary.source.vocab_size:,} pieces of sources, "
        f"{vocabulary.vocab_size:,} of targets",
        "search": f"beam {search.beam_size}, score log P / {search.formula}, "
        f"at most {limit}",
        "not the paper's": differences or "nothing",
    }
    lines = [f"{name + ':':<17} {value}" for name, value in rows.items()]
    lines += [f"{'not followed:':<17} {note}" for note in found.notes]
    tokens = getattr(vocabulary, "languages", [])
    if len(tokens) > 1 and vocabulary.special.language_token is None:
        lines.append(
            f"A source must begin with one of {len(tokens)} target languages, "
            f"as in >>{tokens[0]}<<, unless --target-language names one, here "
            f"or later: {', '.join(tokens)}"
        )
    return "\n".join(lines)


@command(
    RUN,
    flag("--output RUN", "folder of the new run", required=True),
    flag(
        "--last N",
        "number of checkpoints (default: as many as training keeps, 5 for "
        "base and 20 for big)",
    ),
)
def average(options: argparse.Namespace) -> None:
    """Average the last checkpoints of a run."""
    check_free(options.output)
    from keras_transformer.train import averaging
    from keras_transformer.train.cluster import check_one_worker

    check_one_worker("average")
    run = kt.train.TrainingRun.open(options.run)
    mean = averaging.average(run, options.output, options.last)
    print(f"{mean.path} holds the mean of")
    for name in mean.recipe["averaged"]:
        print(f"  {name}")
    print(f"\nNext:\n  keras-transformer evaluate {mean.path}")


@command()
def presets(options: argparse.Namespace) -> None:
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
