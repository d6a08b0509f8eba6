import numpy as np
import pytest
from PIL import Image

from keras_transformer import plotting
from keras_transformer.inference.translator import TranslationAttention


def test_trace(run_cli, trained, tmp_path):
    page = tmp_path / "a.html"
    command = ("plot", "trace", trained.run, "the cat", "--extra-length", 1)
    flags = ("--beam-size", 2, "--tokens", 3, "--output", page)
    code, out, _ = run_cli(*command, *flags)
    assert (code, out) == (0, f"Wrote {page}\n")
    assert page.read_text("utf-8").startswith("<!doctype html>")


def attention(text):
    """Stands for `Translator.attention`."""
    source, target = text.split(), ["<s>", *text.upper().split()]
    s, t = len(source), len(target)
    return TranslationAttention(
        text,
        text.upper(),
        source,
        target,
        source_words=[[i] for i in range(len(source))],
        target_words=[[i] for i in range(len(target))],
        encoder=[np.full((1, s, s), 1 / s)] * 2,
        decoder=[np.full((1, t, t), 1 / t)] * 2,
        cross=[np.full((1, t, s), 1 / s)] * 2,
    )


@pytest.fixture
def fake_attention(opened, monkeypatch):
    monkeypatch.setattr(
        "fake_translator.FakeTranslator.attention",
        lambda self, text: attention(text),
        raising=False,
    )


@pytest.mark.parametrize(
    ("flags", "kind", "layer"),
    [
        ([], "cross", None),
        (["--kind", "encoder", "--layer", 1], "encoder", 1),
        (["--kind", "decoder", "--layer", 2], "decoder", 2),
    ],
)
def test_attention_plots_a_layer(
    run_cli, fake_attention, monkeypatch, folder, tmp_path, flags, kind, layer
):
    calls = []
    plot = plotting.translation_figure

    def translation_figure(attention, kind, layer):
        calls.append((attention.target_tokens, kind, layer))
        return plot(attention, kind, layer)

    monkeypatch.setattr(plotting, "translation_figure", translation_figure)
    picture = tmp_path / "a.png"
    command = ("plot", "attention", folder, "a cat", "--output", picture)
    code, out, _ = run_cli(*command, *flags)
    assert (code, out) == (0, f"Wrote {picture}\n")
    text = Image.open(picture).text
    assert (text["Title"], text["Description"]) == ("a cat", "A CAT")
    assert calls == [(["<s>", "A", "CAT"], kind, layer)]


def test_attention_as_a_page(run_cli, fake_attention, folder, tmp_path):
    page = tmp_path / "a.html"
    # A text may begin as a flag does.
    command = ("plot", "attention", folder, "- a cat", "--output", page)
    assert run_cli(*command).out == f"Wrote {page}\n"
    assert '"source": "- a cat", "output": "- A CAT"' in page.read_text("utf-8")


def test_curve_plots_the_log(run_cli, trained, tmp_path):
    picture = tmp_path / "a.svg"
    code, out, _ = run_cli("plot", "curve", trained.run, "--output", picture)
    assert (code, out) == (0, f"Wrote {picture} with 2 epochs\n")
    assert "validation" in picture.read_text("utf-8")
