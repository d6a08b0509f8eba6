"""An export, installed in Argos Translate; needs argos-translate-lt."""

import os
import re
import sys

import pytest
from translation_fixtures import PAIRS

import keras_transformer as kt


@pytest.fixture(scope="module")
def argos(translator, tmp_path_factory):
    """Argos Translate with one installed package."""
    home = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patched:
        for name in ("DATA", "CONFIG", "CACHE"):
            patched.setenv(f"XDG_{name}_HOME", os.fspath(home))
        patched.setattr(translator, "languages", ("en", "de"))
        argostranslate = pytest.importorskip(
            "argostranslate", reason="needs argos-translate-lt"
        )
        import argostranslate.package
        import argostranslate.sbd
        import argostranslate.tags
        import argostranslate.translate

        # It would download a model for sentence boundaries.
        patched.setattr(
            argostranslate.sbd.MiniSBDSentencizer,
            "split_sentences",
            lambda _, text: re.findall(r"[^.!?]+[.!?]*", text),
        )
        # CTranslate2's beam search ends early, which drops pieces here.
        patched.setattr(argostranslate.settings, "beam_size", 1)
        path = kt.export.save_argos(translator, home / "en-de.argosmodel")
        argostranslate.package.install_from_path(path)
        yield argostranslate
    for name in list(sys.modules):
        if name.startswith("argostranslate"):
            del sys.modules[name]


def test_the_package(argos):
    (package,) = argos.package.get_installed_packages()
    assert str(package) == "en → de"
    assert package.type == "translate"
    assert "docs/argos.md" in package.get_readme()
    names = [x.name for x in argos.translate.get_installed_languages()]
    assert names == ["en", "de"]


def test_translations(argos):
    text = "\n\n".join(PAIRS)
    found = argos.translate.translate(text, "en", "de")
    assert found == "\n\n".join(PAIRS.values())


def test_sentences_of_a_line(argos):
    texts = list(PAIRS)[:3]
    found = argos.translate.translate(" ".join(texts), "en", "de")
    assert found == " ".join(PAIRS[text] for text in texts)


def test_tags(argos):
    """HTML pages and documents consist of tags."""
    first, second = list(PAIRS)[:2]
    page = argos.tags.Tag([argos.tags.Tag([first]), argos.tags.Tag([second])])
    translation = argos.translate.get_translation_from_codes("en", "de")
    found = argos.tags.translate_tags(translation, page)
    assert found.text() == PAIRS[first] + PAIRS[second]
