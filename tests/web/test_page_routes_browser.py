import threading

import pytest
from browser import open_address
from fake_translator import FakeTranslator
from web_server import served

pytestmark = pytest.mark.slow


def run(page, text):
    page.get_by_label("Text", exact=True).fill(text)
    page.get_by_role("button", name="Translate").click()


def test_outputs_and_their_pages(address, translator):
    with open_address(address) as page:
        run(page, "dog")
        page.wait_for_selector("#outputs li")
        items = page.locator("#outputs li").all_inner_texts()
        expected = translator.translate("dog")
        for item, text in zip(items, expected.texts, strict=True):
            assert item.startswith(text)
        with page.expect_popup() as popup:
            page.get_by_label("how output 2 was found").click()
        assert popup.value.inner_text("#source") == "Source: dog"
        details = popup.value.inner_text("#details")
        assert f"{expected.scores[1]:.3f}".strip("-") in details
        with page.expect_popup() as popup:
            page.get_by_label("attention of output 2").click()
        found = popup.value.inner_text("#target")
        assert found == f"Output: {expected.texts[1]}"
        # By keyboard. An empty text is not sent.
        page.get_by_label("Text", exact=True).fill(" ")
        page.keyboard.press("Enter")
        page.wait_for_selector("#error:not(:empty)")
        assert page.locator("#outputs li").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_texts_and_files(address, tmp_path, scheme):
    file = tmp_path / "dogs.txt"
    file.write_bytes(b"\xef\xbb\xbf- dog\r\n\n\tcat\n")
    with open_address(address, width=380, scheme=scheme) as page:
        run(page, "dog\n\n  cat")
        page.wait_for_function("find('whole').textContent.endsWith('Katze')")
        assert page.locator("#whole").text_content() == "Hund\n\n  Katze"
        assert page.locator("#outputs h2").all_inner_texts() == ["dog", "cat"]
        assert page.locator("#outputs li").count() == 6
        page.locator("#copy").click()
        assert page.locator("#copy").inner_text() == "Copied"
        text = page.get_by_label("Text", exact=True)
        text.fill("")
        text.focus()
        page.keyboard.press("Control+V")
        assert text.input_value() == "Hund\n\n  Katze"
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#download a")
        shown = page.locator("#whole").text_content()
        assert shown == "- Hund\r\n\n\tKatze\n"
        with page.expect_download() as download:
            page.locator("#download a").click()
        assert download.value.suggested_filename == "dogs.txt"
        assert download.value.path().read_bytes() == shown.encode()
        width = "document.documentElement.scrollWidth"
        assert page.evaluate(width) <= 380
        for name, content, received in (
            ("empty", b"", "empty"),
            ("latin1", b"\xff", "UTF-8"),
            ("long.txt", b"dog\n" * 26, "104"),
            ("a.md", b"# dog", "Markdown"),
            ("a.HTML", b"<b>dog", "HTML"),
        ):
            (tmp_path / name).write_bytes(content)
            page.locator("#file").set_input_files(tmp_path / name)
            page.wait_for_function(
                f"find('error').textContent.includes('{received}')"
            )
            assert page.locator("#whole").text_content() == ""
        # A list mark is kept, so that the whole text is shown.
        run(page, "- dog")
        page.wait_for_function("find('whole').textContent === '- Hund'")
        assert page.locator("#outputs li").count() == 3


def test_the_text_box_grows_with_its_text(address):
    with open_address(address) as page:
        text = page.get_by_label("Text", exact=True)
        before = text.bounding_box()["height"]
        text.fill("dog\n" * 20)
        assert text.bounding_box()["height"] > 3 * before
        text.fill("dog\n" * 999)
        assert text.bounding_box()["height"] < 900  # the window


LONG = "\n".join(["dog", "x" * 99] * 10) + "\n"


@pytest.mark.parametrize("width", [380, 1280])
def test_long_words_and_both_sides(address, width):
    with open_address(address, width=width) as page:
        run(page, "x" * 90 + "\ndog")
        page.wait_for_function("find('notes').innerText.includes('cut')")
        assert page.locator("#outputs li").count() == 6
        assert page.locator("#outputs a").count() == 6  # none of the first
        overflow = (
            "document.documentElement.scrollWidth - document.body."
            "parentElement.clientWidth"
        )
        assert page.evaluate(overflow) == 0
        source = page.locator("#text").bounding_box()
        whole = page.locator("#whole").bounding_box()
        # Beside it, or below it on a phone.
        assert (whole["x"] > source["x"] + source["width"]) == (width == 1280)
        run(page, "y" * 101)
        page.wait_for_selector("#error:not(:empty)")
        assert "100 characters" in page.inner_text("#error")
        page.locator("#error").evaluate("x => x.append('z'.repeat(500))")
        assert page.evaluate(overflow) == 0


def test_progress_and_cancel(tmp_path):
    """A long text is sent in parts, of which the second one waits."""
    going_on, parts = threading.Event(), []

    class Waiting(FakeTranslator):
        def translate_document(self, text, **arguments):
            parts.append(text)
            assert len(parts) % 2 or going_on.wait(20)
            return super().translate_document(text, **arguments)

    file = tmp_path / "long.txt"
    file.write_text(LONG * 10)
    with served(Waiting(), 20_000) as server, open_address(server) as page:
        run(page, LONG)
        page.wait_for_function("find('progress').value > 0")
        first = page.locator("#whole").text_content()
        assert first == parts[0].upper() != LONG.upper()
        going_on.set()
        page.wait_for_function("find('progress').hidden")
        assert "".join(parts) == LONG
        assert page.locator("#whole").text_content() == LONG.upper()
        assert page.locator("#outputs h2").count() == 2  # once each
        going_on.clear()
        parts.clear()
        page.locator("#file").set_input_files(file)
        page.wait_for_function("find('progress').value > 0")
        page.locator("#cancel").click()
        page.wait_for_function("find('notes').textContent.startsWith('Canc')")
        assert page.locator("#whole").text_content() == parts[0].upper()
        assert page.locator("#download a").count() == 0
        going_on.set()
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#download a")
        assert page.locator("#whole").text_content() == LONG.upper() * 10


def test_numbers_that_differ_are_marked(tmp_path):
    file = tmp_path / "numbers.txt"
    file.write_text("It differs.\nNothing.\nlimit differ\n")
    with served(FakeTranslator()) as server, open_address(server) as page:
        run(page, "Nothing.\nIt differs.")
        page.wait_for_function("find('notes').textContent.includes('digits')")
        assert page.inner_text("#notes").startswith("Sentence 2 ")
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#download a")
        incomplete, differing = page.inner_text("#notes").split(".")[:2]
        assert incomplete.endswith(": 1") and differing.endswith(": 2")
