import base64
import json
import re

import numpy as np
import pytest
from browser import open_page

from keras_transformer.inference.translator import TranslationAttention
from keras_transformer.plotting.html_pages import attention_page

SOURCE = ["▁do", "gs", "▁run", "</s>"]
TARGET = ["<s>", "▁Hun", "de"]
LAYERS, HEADS = 2, 3


def random_scores(rows, columns):
    generator = np.random.default_rng(rows * columns)
    found = generator.dirichlet([0.3] * columns, (LAYERS, HEADS, rows))
    return list(found.astype("float32"))


ATTENTION = TranslationAttention(
    "dogs run",
    "Hunde",
    SOURCE,
    TARGET,
    source_words=[[0, 1], [2], [3]],
    target_words=[[0], [1, 2]],
    encoder=random_scores(4, 4),
    decoder=random_scores(3, 3),
    cross=random_scores(3, 4),
)


@pytest.fixture(scope="module")
def html():
    return attention_page(ATTENTION)


def test_the_page_has_the_scores_of_every_head(html):
    (text,) = re.findall(r'id="data">(.*)</script>', html)
    data = json.loads(text)
    found = np.frombuffer(base64.b64decode(data["cross"]), np.uint8)
    found = found.reshape(LAYERS, HEADS, 3, 4) / 255
    np.testing.assert_allclose(found, ATTENTION.cross, atol=0.5 / 255)
    assert "http" not in html


def value_at(page, head, row, column):
    """Returns what the page tells of a cell, by keyboard."""
    canvas = page.locator("figure canvas").nth(head)
    canvas.evaluate("canvas => canvas.blur()")
    canvas.focus()
    for key, count in (("ArrowUp", 9), ("ArrowLeft", 9)):
        for _ in range(count):
            page.keyboard.press(key)
    for key, count in (("ArrowDown", row), ("ArrowRight", column)):
        for _ in range(count):
            page.keyboard.press(key)
    return page.inner_text("#value")


@pytest.mark.slow
def test_heat_maps_and_words(html):
    with open_page(html) as page:
        scores = np.rint(255 * ATTENTION.cross[1][2]) / 255
        expected = f"head 3: de → ▁run {scores[2, 2]:.2f}"
        assert " ".join(value_at(page, 2, 2, 2).split()) == expected
        page.locator("#layer").select_option("1")
        page.locator("#kind").select_option("encoder-decoder attention")
        page.locator("#layer").select_option("0")
        page.get_by_label("merge pieces").check()
        # To a word: the sum over its pieces. From a word: the mean.
        merged = ATTENTION.cross[0][0][1:3, :2].sum(axis=1).mean()
        found = value_at(page, 0, 1, 0).split()
        assert found[:5] == ["head", "1:", "▁Hunde", "→", "▁dogs"]
        assert float(found[5]) == pytest.approx(merged, abs=0.01)


@pytest.mark.slow
def test_lines_of_heads_and_of_a_token(html):
    with open_page(html, width=380, scheme="dark") as page:

        def lines():
            canvas = page.locator("#lines canvas")
            return int(canvas.get_attribute("data-lines"))

        visible = np.rint(255 * np.stack(ATTENTION.cross)[1]) / 255 >= 0.02
        assert lines() == visible.sum()
        page.get_by_role("button", name="none").click()
        assert lines() == 0
        page.get_by_role("button", name="head 2").click()
        assert lines() == visible[1].sum()
        page.locator(".left .token").nth(1).focus()
        assert lines() == visible[1][1].sum()
        page.keyboard.press("ArrowDown")
        assert lines() == visible[1][2].sum()
        page.locator(".right .token").nth(3).focus()
        assert lines() == visible[1][:, 3].sum()
        page.locator("#kind").select_option("decoder")
        assert page.locator(".right .token").all_inner_texts() == TARGET
        assert page.evaluate("document.body.scrollWidth") <= 380


@pytest.mark.slow
def test_a_tap_shows_the_cell_below_it(html):
    with open_page(html, width=380, has_touch=True) as page:
        canvas = page.locator("figure canvas").nth(1)
        canvas.scroll_into_view_if_needed()
        box = canvas.bounding_box()
        canvas.tap(position={"x": box["width"] * 0.9, "y": box["height"] * 0.9})
        found = page.inner_text("#value")
        assert found.startswith("head 2: de → </s>")
        for i, token in enumerate(TARGET):
            page.locator(".left .token").nth(i).tap()
            assert page.locator(".chosen").all_inner_texts() == [token]


@pytest.mark.slow
def test_heat_maps_have_their_tokens_on_both_axes(html):
    with open_page(html, width=380) as page:
        figure = page.locator("figure").nth(1)
        canvas = figure.locator("canvas").bounding_box()
        for labels, tokens, at, size in (
            (".labels:not(.below) span", TARGET, "y", "height"),
            (".below span", SOURCE, "x", "width"),
        ):
            spans = figure.locator(labels)
            assert spans.all_inner_texts() == tokens
            cell = canvas[size] / len(tokens)
            for i, span in enumerate(spans.all()):
                box = span.bounding_box()
                middle = box[at] + box[size] / 2
                assert abs(middle - canvas[at] - (i + 0.5) * cell) < 2
        page.get_by_label("merge pieces").check()
        words = figure.locator(".below span").all_inner_texts()
        assert words == ["▁dogs", "▁run", "</s>"]


@pytest.mark.slow
def test_by_keyboard_and_screen_reader(html):
    with open_page(html) as page:
        # One stop of the Tab key for each column.
        stops = page.locator(".token[tabindex='0']")
        assert stops.all_inner_texts() == ["<s>", "▁do"]
        page.locator("#heads .plain").last.focus()
        page.keyboard.press("Tab")
        page.keyboard.press("ArrowDown")
        means = np.stack(ATTENTION.cross)[1].mean(axis=0)[1]
        best = SOURCE[means.argmax()]
        value = page.inner_text("#value")
        assert value.startswith(f"▁Hun → {best} {means.max():.2f}, ")
        pressed = page.locator(".token[aria-pressed='true']")
        assert pressed.all_inner_texts() == ["▁Hun"]
        page.keyboard.press("Escape")
        assert pressed.count() == 0 and page.inner_text("#value") == ""
        page.keyboard.press("ArrowDown")
        assert pressed.all_inner_texts() == ["de"]
        page.keyboard.press("Tab")
        assert pressed.all_inner_texts() == ["▁do"]
        page.locator("#layer").focus()
        assert pressed.count() == 0
