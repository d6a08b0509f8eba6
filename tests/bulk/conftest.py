import dataclasses
import json

import pytest

from keras_transformer.bulk import translate_transform
from keras_transformer.decoding.settings import BeamSearch
from keras_transformer.inference.records import Translation

# What the folder of an export says of itself.
METADATA = {
    **dict.fromkeys(("tokenizer_sha256", "model_sha256", "dtype"), ""),
    **dict.fromkeys(("pad_id", "bos_id", "eos_id"), 0),
    **dict(largest_beam_size=4, num_translations=1, max_length=10),
    **dict(attention_window=None, runs=[]),
    "search": dataclasses.asdict(BeamSearch()),
}


class FakeTranslator:
    """Translates into upper case, and fails on what contains "bad"."""

    def __init__(self, threads):
        self.threads = self.recommended_workers = threads

    def translate(self, texts, *, workers):
        if any("bad" in text for text in texts):
            raise RuntimeError("no kernel")
        return [
            Translation([text.upper()], [-len(text) / 2], "long" in text, False)
            for text in texts
        ]


@pytest.fixture
def fake(tmp_path, monkeypatch):
    """The folder of an export without a model, and its translators."""
    folder = tmp_path / "model"
    folder.mkdir()
    (folder / "keras_transformer.json").write_text(json.dumps(METADATA))
    opened = []

    def open_translator(path, *, threads):
        opened.append(FakeTranslator(threads))
        return opened[-1]

    monkeypatch.setattr(translate_transform, "open_translator", open_translator)
    return folder, opened
