"""The page of a trace, in a browser."""

import pytest
from browser import open_page

import keras_transformer as kt


@pytest.fixture(scope="module")
def html(found):
    return found.to_html()


def test_the_page_has_the_trace_and_no_address(html):
    assert "<title>Search: &lt;b&gt;&amp;</title>" in html
    assert '"source": "\\u003cb>&"' in html
    assert "http" not in html.replace("http://www.w3.org/2000/svg", "")


@pytest.mark.parametrize("hypothesis", [-1, 2])
def test_there_are_as_many_translations_as_the_search_found(found, hypothesis):
    with pytest.raises(kt.InputError, match=f"hypothesis .*{hypothesis}"):
        found.to_html(hypothesis)


@pytest.mark.slow
def test_the_second_translation_is_chosen(found):
    with open_page(found.to_html(1)) as page:
        chosen = page.locator(".node.chosen b").all_inner_texts()
        assert chosen == ["<s>", "a", "</s>"]
        # One stop of the Tab key for the tree.
        assert page.locator(".node[tabindex='0']").inner_text()[:4] == "</s>"
        assert page.locator(".node[tabindex='0']").count() == 1


@pytest.mark.slow
def test_the_beam_is_a_tree(html):
    with open_page(html) as page:
        assert page.inner_text("#source") == "Source: <b>&"
        rows = page.locator("#results tbody tr").all_inner_texts()
        assert rows[1].split() == "beam 1 −1.350 aa 3 −1.80 1.333".split()
        formula = page.inner_text("#formula")
        assert formula.endswith("length penalty, ((5 + n) / 6)^1 of n tokens")
        assert page.locator(".node").count() == 1 + 3 + 4 + 1
        assert page.locator(".node.pruned").count() == 2
        assert page.locator(".node.finished").count() == 2
        # The best translation is chosen at first.
        chosen = page.locator(".node.chosen b").all_inner_texts()
        assert chosen == ["<s>", "a", "a", "</s>"]
        assert "score −1.350" in page.inner_text("#details")
        # By keyboard: along the tree.
        page.locator(".node").first.focus()
        page.keyboard.press("ArrowRight")
        page.keyboard.press("ArrowDown")
        assert page.inner_text("#details").startswith("<s> b\n")
        assert "Most probable next: </s> 0.407" in page.inner_text("#details")
        page.keyboard.press("ArrowRight")
        assert "finished" not in page.inner_text("#details")
        page.keyboard.press("ArrowLeft")
        assert page.inner_text("#details").startswith("<s> b\n")


@pytest.mark.slow
def test_pruned_hypotheses_can_be_hidden(html):
    with open_page(html, width=380, scheme="dark") as page:
        page.get_by_label("show pruned").uncheck()
        visible = page.locator(".node:visible")
        assert visible.count() == 7
        # The nodes below move up, and none overlap.
        boxes = [one.bounding_box() for one in visible.all()]
        places = {(round(box["x"]), round(box["y"])) for box in boxes}
        assert len(places) == 7
        # The scores can be read without scrolling.
        for score in page.locator("#results td:nth-child(2)").all():
            box = score.bounding_box()
            assert box["x"] + box["width"] <= 380
        # The one that the Tab key reaches is shown, also if it was pruned.
        page.get_by_label("show pruned").check()
        page.locator(".node.pruned").first.focus()
        page.get_by_label("show pruned").focus()
        page.keyboard.press("Space")
        page.keyboard.press("Tab")
        assert page.locator(".node:focus").is_visible()
        page.keyboard.press("ArrowLeft")
        assert page.locator(".node:focus b").inner_text() == "<s>"
        # On a phone the tree scrolls, not the page.
        assert page.evaluate("document.body.scrollWidth") <= 380
        background = page.evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        assert background == "rgb(20, 23, 26)"
