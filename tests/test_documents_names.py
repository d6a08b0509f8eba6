"""What the documents name exists: commands, flags, files and links."""

import contextlib
import functools
import io
import itertools
import re
import runpy
import shlex

import pytest
from apache_beam.options.pipeline_options import PipelineOptions
from commands import parse
from cyclopts import CycloptsError
from documents import (
    DOCUMENTS,
    ROOT,
    SOURCE_FOLDERS,
    anchor,
    blocks,
    inline_code,
    prose,
    read,
    source_tree,
)

from keras_transformer.bulk import __main__ as beam_program
from keras_transformer.cli import main
from keras_transformer.presets import PRESETS

# Arguments that a command needs in addition to the flags of a document.
ARGUMENTS = {
    "prepare": "embedded --output PREPARED",
    "train": "embedded --output RUN",
    "average": "RUN --output OUTPUT",
    "import": "FOLDER --output RUN",
    "translate": "RUN",
    "score": "RUN",
    "evaluate": "RUN",
    "serve": "RUN",
    "export": "RUN --output OUTPUT",
    "plot curve": "RUN --output curve.png",
    "plot attention": "RUN SENTENCE --output attention.png",
    "plot trace": "RUN SENTENCE --output trace.html",
    "presets": "",
    "demo": "",
}
SHELL = (
    *("cd", "cp", "curl", "docker", "echo", "hf", "paste", "source"),
    "tensorboard",
)
OTHER_FLAGS = {
    *("--logdir", "--no-deps", "--wheel-dir", "--help", "--version"),
    *("--include", "--local-dir"),  # hf download
    *("--rows", "--seeds"),  # benchmarks/table3.py
    # TensorFlow Serving
    *("--tensorflow_intra_op_parallelism", "--enable_batching"),
}


# === Commands ===


def commands(name):
    """Returns the commands in the code blocks of a document, as words."""
    found = []
    for block in blocks(name):
        if block == source_tree():
            continue
        for line in block.replace("\\\n", " ").splitlines():
            for command in re.split(r" \| ", line):
                words = shlex.split(command, comments=True)
                ends = [words.index(end) for end in "<>&" if end in words]
                words = words[: min(ends, default=None)]
                while words and re.match(r"[A-Z_]+=", words[0]):
                    del words[0]
                found.append(words)
    return [words for words in found if words]


def is_accepted(words):
    """Whether the command line accepts a command."""
    if "--help-all" in words:
        return bool(flags_in_help(*words[:-1]))
    if "--config" in words:  # its file may contain missing arguments
        place = words.index("--config")
        missing = ARGUMENTS[words[0]].partition(" --")[0].split()
        words = [*words[:place], *words[place + 2 :], *missing]
    if "--module" in words:  # of all commands
        place = words.index("--module")
        words = words[:place] + words[place + 2 :]
    try:
        _, arguments = parse(words)
    except CycloptsError as error:
        return "does not exist" in str(error)  # an input
    return arguments.get("preset") in {None, *PRESETS}


@functools.cache
def flags_in_help(*command):
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main([*command, "--help-all"]) == 0
    return set(re.findall(r"--[\w-]+", output.getvalue()))


@functools.cache
def beam_flags(command):
    """Returns the flags of a command on Beam, and all of Beam's."""
    output = io.StringIO()
    with contextlib.redirect_stdout(output), contextlib.suppress(SystemExit):
        beam_program.main([command, "--help"])
    flags = set(re.findall(r"--[\w-]+", output.getvalue()))
    PipelineOptions([]).get_all_options(
        add_extra_args_fn=lambda parser: flags.update(
            parser._option_string_actions
        )
    )
    return flags


def check_command(words):
    program, *arguments = words
    if program == "keras-transformer":
        assert is_accepted(arguments), words
        # The name `en-de` belongs to the included model.
        assert ("--output", "en-de") not in itertools.pairwise(words), words
    elif program == "make":
        for argument in arguments:
            # A target, or a variable with its value.
            name, is_variable, _ = argument.partition("=")
            pattern = rf"\$\({name}\)" if is_variable else rf"^{name}:"
            assert re.search(pattern, read("Makefile"), re.M), words
    elif arguments[:2] == ["-m", "keras_transformer.bulk"]:
        known = beam_flags(arguments[2])
        assert {x for x in arguments if x.startswith("--")} <= known, words
    elif program == "python":
        script = read(arguments[0])
        shared = flags_in_help("train") if "flags_of(Recipe" in script else ()
        for flag in filter(re.compile("--").match, arguments[1:]):
            parameter = f"\n    {flag[2:].replace('-', '_')}: " in script
            is_argument = re.search(f'"{flag}[ "]', script)
            assert parameter or is_argument or flag in shared, words
    elif program == "pip":
        for extra in re.findall(r"[\[,](\w+)(?=[,\]])", " ".join(arguments)):
            assert f'"{extra}": ' in read("setup.py"), words
    else:
        assert program in SHELL, words


@pytest.mark.parametrize("name", DOCUMENTS)
def test_commands_exist(name):
    for words in commands(name):
        check_command(words)
    for code in inline_code(name):
        words = shlex.split(code) if '"' in code else code.split()
        if words[0] in ("make", "pip", "python", "tensorboard"):
            check_command(words)
        elif words[0] == "keras-transformer" and len(words) > 1:
            name = " ".join(words[1 : 3 if words[1:2] == ["plot"] else 2])
            assert name in {*ARGUMENTS, "plot", "--install-completion"}, code
            if words[1:] != name.split():
                check_command(words)


def test_commands_are_found():
    assert sum(len(commands(name)) for name in DOCUMENTS) > 40
    complete = ["train", *ARGUMENTS["train"].split()]
    assert is_accepted([*complete, "--preset", "big"])
    assert not is_accepted([*complete, "--preset", "bass"])
    assert not is_accepted([*complete, "--accumulate", "2"])


@pytest.mark.parametrize("name", DOCUMENTS)
def test_flags_exist_and_accept_their_values(name):
    for code in inline_code(name):
        words = code.split()
        if not words[0].startswith("--"):
            continue
        name = words[0].partition("=")[0]
        users = [c for c in ARGUMENTS if name in flags_in_help(*c.split())]
        others = OTHER_FLAGS | beam_flags("translate")
        assert users or name in others, code
        if users and len(words) > 1:
            assert any(
                is_accepted([*c.split(), *ARGUMENTS[c].split(), *words])
                for c in users
            ), code


# === Names ===


@pytest.mark.parametrize("name", DOCUMENTS)
def test_links_exist(name):
    for target in re.findall(r"\]\(([^)]+)\)", prose(name)):
        if target.startswith("https://"):
            continue
        path, _, fragment = target.partition("#")
        path = (ROOT / name).parent / path if path else ROOT / name
        assert path.exists(), target
        if fragment:
            headings = re.findall(r"^#+ (.*)$", path.read_text("utf-8"), re.M)
            assert fragment in map(anchor, headings), target


@pytest.mark.parametrize("name", DOCUMENTS)
def test_files_exist(name):
    folders = "|".join(
        (*SOURCE_FOLDERS, "tests", "benchmarks", "colab", "docs")
    )
    pattern = rf"(?<![\w/])(?:{folders})/[\w/*-]+\.(?:py|ipynb|md|png)\b"
    for path in re.findall(pattern, read(name)):
        assert any(ROOT.glob(path)), path


def test_tests_of_the_statements_of_the_paper_exist():
    names = re.findall(r"`([\w./-]+\.py)::(\w+)`", read("docs/paper.md"))
    assert names
    for path, test in names:
        assert f"\ndef {test}(" in read(path), (path, test)


def test_index_of_the_reference():
    """If it fails: python docs/reference.py > docs/api/README.md"""
    page = runpy.run_path(str(ROOT / "docs/reference.py"))["page"]
    assert read("docs/api/README.md") == page()
