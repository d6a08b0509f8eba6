"""The commands that show something."""

import html
import json
import re

import pytest
from commands import check_refused
from PIL import Image

from keras_transformer import plotting

# === trace ===


def test_trace_prints_the_steps(run_cli, trained):
    code, out, _ = run_cli(
        *(
            "plot",
            "trace",
            trained.run,
            "the cat",
            "--beam-size",
            2,
            "--tokens",
            3,
        ),
        *("--extra-length", 1),
    )
    assert code == 0
    assert out.startswith("Source: the cat\n\nThe encoder reads: ▁")
    assert "\nBeam search with 2 hypotheses, alpha 0.6\n" in out
    row = out.partition("Step 1: the live hypotheses\n")[2].splitlines()[1]
    assert len(row.split()) == 3 + 2 * 3


def test_trace_writes_a_page(run_cli, trained, tmp_path):
    page = tmp_path / "a.html"
    arguments = (
        "plot",
        "trace",
        trained.run,
        "a",
        "--extra-length",
        1,
        "--output",
    )
    result = run_cli(*arguments, page)
    assert result.out == f"the search is shown in {page}\n"
    assert page.read_text("utf-8").startswith("<!doctype html>")
    check_refused(run_cli(*arguments, "a.pdf"), ".html", "Received: a.pdf")


# === attention ===


@pytest.mark.parametrize(
    ("flags", "kind", "layer"),
    [
        ([], "cross", None),
        (["--kind", "encoder", "--layer", 1], "encoder", 1),
        (["--kind", "decoder", "--layer", 2], "decoder", 2),
    ],
)
def test_attention_plots_a_layer(
    run_cli, fake_translators, monkeypatch, tmp_path, flags, kind, layer
):
    calls = []
    plot = plotting.translation_figure

    def translation_figure(attention, kind, layer):
        calls.append((attention.target_tokens, kind, layer))
        return plot(attention, kind, layer)

    monkeypatch.setattr(plotting, "translation_figure", translation_figure)
    picture = tmp_path / "a.png"
    code, out, _ = run_cli(
        *("plot", "attention", "runs/x", "a cat", "--output", picture),
        *flags,
    )
    assert (code, out) == (0, f"the attention is shown in {picture}\n")
    text = Image.open(picture).text
    assert (text["Title"], text["Description"]) == ("a cat", "A CAT")
    assert calls == [(["<s>", "A", "CAT"], kind, layer)]


def test_attention_as_a_page(run_cli, fake_translators, tmp_path):
    page = tmp_path / "a.html"
    arguments = ("plot", "attention", "runs/x", "a cat", "--output", page)
    assert run_cli(*arguments).out == f"the attention is shown in {page}\n"
    assert '"source": "a cat", "target": "A CAT"' in page.read_text("utf-8")
    for flags in (("--kind", "encoder"), ("--layer", 1)):
        check_refused(run_cli(*arguments, *flags), "all kinds and layers")


def test_attention_refuses_a_layer_that_is_not_there(
    run_cli, fake_translators, tmp_path
):
    picture = tmp_path / "a.png"
    flags = ("--output", picture, "--layer", 3)
    result = run_cli("plot", "attention", "runs/x", "a", *flags)
    check_refused(result, "layers 1 to 2", "--layer 3")
    assert not picture.exists()


def test_attention_refuses_bytes_that_are_not_utf8(run_cli):
    result = run_cli("plot", "attention", "run", "\udcff", "--output", "a.png")
    check_refused(result, "valid UTF-8", r"'\udcff'")


# === curve ===


def test_curve_plots_the_log(run_cli, trained, tmp_path):
    picture = tmp_path / "a.svg"
    code, out, _ = run_cli("plot", "curve", trained.run, "--output", picture)
    assert code == 0
    assert out == f"2 epochs are plotted in {picture}\n"
    assert "validation" in picture.read_text("utf-8")


@pytest.mark.parametrize(
    ("field", "model"),
    [
        ("averaged", "The mean of checkpoints"),
        ("imported_from", "An imported model"),
    ],
)
def test_curve_of_what_no_training_wrote(
    run_cli, trained, tmp_path, field, model
):
    copy = tmp_path / "copy"
    config = json.loads((trained.run / "config.json").read_text("utf-8"))
    config["recipe"][field] = "something"
    copy.mkdir()
    (copy / "config.json").write_text(json.dumps(config), "utf-8")
    (copy / "tokenizer.model").symlink_to(trained.run / "tokenizer.model")
    result = run_cli("plot", "curve", copy, "--output", tmp_path / "a.svg")
    check_refused(result, f"{model} has no curve", str(copy))


# === masks ===


def test_masks_have_the_tokens_of_a_translation(run_cli, trained, tmp_path):
    picture = tmp_path / "a.svg"
    result = run_cli(
        *("plot", "masks", trained.run, "the cat", "--extra-length", 1),
        *("--padding", 3, "--output", picture),
    )
    assert (result.code, result.out) == (
        0,
        f"the masks are shown in {picture}\n",
    )
    texts = svg_texts(picture)
    assert {"decoder: look-ahead", "<s>", "</s>"} <= set(texts)
    assert texts.count("<pad>") == 4 * 2 * 3


def svg_texts(path):
    # Text is drawn as curves; its content is in comments.
    return re.findall("<!-- (.*?) -->", html.unescape(path.read_text("utf-8")))
