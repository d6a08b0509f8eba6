"""The model that comes with the package: its name, its size, its page."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from documents import ROOT, blocks, read

import keras_transformer as kt
from keras_transformer.inference.opening import read_folder, read_run
from keras_transformer.support.errors import InputError

FOLDER = ROOT / "keras_transformer" / "models" / "en-de"


@pytest.fixture(scope="module")
def translator():
    return kt.open_translator("en-de")


def table(name):
    """The rows of the table of English and German of a document."""
    _, _, rest = read(name).partition("| English | German |\n|---|---|\n")
    rows = rest.partition("\n\n")[0]
    return re.findall(r"^\| (.+) \| (.+) \|$", rows, re.MULTILINE)


def test_readme_shows_its_translations(translator):
    rows = table("README.md")
    assert len(rows) >= 5
    sources, expected = zip(*rows, strict=True)
    translations = translator.translate(list(sources))
    assert [x.texts[0] for x in translations] == list(expected)


def test_readme_begins_with_its_command(translator):
    command, output = blocks("README.md")[0], blocks("README.md", "text")[0]
    text = re.search(
        'echo "(.+)" \\| keras-transformer translate en-de', command
    )
    assert output == translator(text[1]) + "\n"


def test_program_of_the_page(translator):
    (program,) = blocks("docs/en-de.md", "python")
    names = {}
    exec(program, names)
    assert names["translator"].metadata == translator.metadata


def test_a_folder_of_that_name_is_given_by_its_path(
    tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    assert read_folder("en-de").languages == ("en", "de")
    assert capsys.readouterr().err == ""
    (tmp_path / "en-de").mkdir()
    for _ in range(2):
        assert read_folder("en-de").path == FOLDER
    (line,) = capsys.readouterr().err.splitlines()  # once
    assert "./en-de" in line
    for path in ("./en-de", Path("en-de"), tmp_path / "en-de"):
        with pytest.raises(InputError, match="en-de.*config.json"):
            read_folder(path)


def test_size_and_origin():
    sizes = {path: path.stat().st_size for path in FOLDER.rglob("*.*")}
    model = sum(sizes[path] for path in FOLDER.glob("*.*"))
    assert model <= 10e6 and sum(sizes.values()) - model <= 20e6
    metadata = json.loads((FOLDER / "keras_transformer.json").read_text())
    (run,) = metadata["runs"]
    assert len(run["statistics"]["averaged"]) == 12
    assert not re.search(r'"/', json.dumps(metadata))  # no path of a machine


@pytest.mark.slow
def test_its_run_translates_alike(translator):
    sources, expected = zip(*table("README.md"), strict=True)
    run = read_run("en-de")
    assert run.tokenizer.digest == translator.metadata["tokenizer_sha256"]
    assert kt.open_translator(run.path)(list(sources)) == list(expected)


def test_errors_name_its_run():
    for options in (dict(search=kt.BeamSearch(12)), dict(checkpoint="best")):
        with pytest.raises(kt.InputError, match=f"its run {FOLDER / 'run'}"):
            kt.open_translator("en-de", **options)


def test_card_names_licence_and_source():
    card = " ".join((FOLDER / "README.md").read_text("utf-8").split())
    assert "CC BY 2.0" in card
    assert "tatoeba.org" in card


WITHOUT_TENSORFLOW = """
import sys

for name in ("tensorflow", "keras", "h5py", "torch", "jax"):
    sys.modules[name] = None  # an import raises ImportError

before = set(sys.modules)
import keras_transformer as kt

translator = kt.open_translator("en-de")
texts = ["Stop!", "Good morning."]
found = translator.translate(texts, workers=2, prefixes=["", "Guten"])
assert found[1].texts[0].startswith("Guten")
assert translator.score("Stop!", found[0].texts[0]).log_prob < 0
names = {name.split(".")[0] for name in set(sys.modules) - before}
print(*sorted(names - set(sys.stdlib_module_names)))

from keras_transformer import web
from keras_transformer.cli import main

web.serve = lambda translator, *_: web.make_app(translator, "", 9)
assert main(["serve", "en-de", "--port", "0"]) == 0
sys.exit(main(["translate", "en-de"]))
"""
# The packages that ai_edge_litert imports differ between its versions.
NEEDED = {"ai_edge_litert", "keras_transformer", "numpy", "sentencepiece"}
ALLOWED = {*NEEDED, "flatbuffers", "google", "typing_extensions"}


def test_it_translates_without_tensorflow(translator, tmp_path):
    text = "Where is the station?"
    process = subprocess.run(
        [sys.executable, "-c", WITHOUT_TENSORFLOW],
        input=f"{text}\n",
        capture_output=True,
        encoding="utf-8",
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert (process.stderr, process.returncode) == ("", 0)
    modules, translation = process.stdout.splitlines()
    found = {name for name in modules.split() if name[0] != "_"}
    assert NEEDED <= found <= ALLOWED
    assert translation == translator(text)
