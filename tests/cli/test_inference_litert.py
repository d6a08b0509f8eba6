"""The commands that use a run, with an export for LiteRT in its place."""

import dataclasses
import json
import subprocess
import sys

import pytest
from commands import Chunks, check_refused, set_stdin
from conftest import FakeTranslator

from keras_transformer.decoding.search import BeamSearch
from keras_transformer.inference.texts import Score
from keras_transformer.showing import web
from keras_transformer.support.startup import available_cores


class FakeLiteRT(FakeTranslator):
    """Stands for `LiteRTTranslator`."""

    dtype = "int8"
    metadata = {"runs": [{"source": "en", "target": "de"}]}  # noqa: RUF012

    def __init__(self, path, search, num_translations):
        self.path = path
        self.search = search or BeamSearch(alpha=0.5)
        self.num_translations = num_translations

    def score(self, sources, targets):
        return [Score(-1.0, -2.0, 1.5) for _ in sources]


@pytest.fixture
def opened(monkeypatch):
    """Replaces `LiteRTTranslator.open`; holds the translators."""
    translators = []

    def open(path, search=None, num_translations=1):
        translators.append(FakeLiteRT(path, search, num_translations))
        return translators[-1]

    monkeypatch.setattr("keras_transformer.litert.LiteRTTranslator.open", open)
    return translators


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.tflite").touch()
    return str(tmp_path)
