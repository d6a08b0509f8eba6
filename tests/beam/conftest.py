"""Models for the tests of this folder."""

import pytest

from keras_transformer.inference.texts import Translation


class FakeTranslator:
    """Translates into upper case, and fails on what contains "bad".

    It also fails on "device lost", and after it alone on everything.
    """

    def __init__(self, threads):
        self.threads = threads
        self.sizes = []  # of what it was asked to translate
        self.is_lost = False

    def translate(self, texts, workers):
        self.sizes.append(len(texts))
        if self.is_lost or "device lost" in texts:
            self.is_lost |= len(texts) == 1
            raise RuntimeError("device lost")
        if any("bad" in text for text in texts):
            raise RuntimeError("no kernel")
        return [
            Translation(
                [text.upper()],
                [-len(text) / 2],
                "long" in text,
                "limit" in text,
            )
            for text in texts
        ]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The folder of an export without a model, and its translators."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "keras_transformer.json").touch()
    opened = []

    def open(path, threads):
        opened.append(FakeTranslator(threads))
        return opened[-1]

    monkeypatch.setattr("keras_transformer.litert.LiteRTTranslator.open", open)
    return folder, opened
