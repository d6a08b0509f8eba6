"""The web page to try a model, in a browser."""

import contextlib
import threading

import pytest
from browser import open_address
from fake_translator import FakeTranslator
from web_server import served

pytestmark = pytest.mark.slow


def test_an_export_in_a_browser(address_of_export):
    with open_address(address_of_export) as page:
        page.get_by_label("Text", exact=True).fill("dog")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#outputs li")
        assert page.locator("#outputs li").count() == 3
        assert page.locator("#outputs a").count() == 0
        page.get_by_label("Text", exact=True).fill("one two three four")
        page.get_by_role("button", name="Run").click()
        page.wait_for_function(
            "find('notes').textContent.startsWith('The text was cut: it is')"
        )


def test_in_a_browser(address, several):
    with open_address(address) as page:
        page.get_by_label("Text", exact=True).fill("dog")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#outputs li")
        items = page.locator("#outputs li").all_inner_texts()
        expected = several.translate("dog")
        assert len(items) == 3
        for item, text in zip(items, expected.texts, strict=True):
            assert item.startswith(text)
        with page.expect_popup() as popup:
            page.get_by_label("how output 2 was found").click()
        assert popup.value.inner_text("#source") == "Source: dog"
        details = popup.value.inner_text("#details")
        assert f"score {expected.scores[1]:.3f}"[6:].strip("-") in details
        with page.expect_popup() as popup:
            page.get_by_label("attention of output 2").click()
        found = popup.value.inner_text("#target")
        assert found == f"Output: {expected.texts[1]}"
        # By keyboard. An empty text is not sent.
        page.get_by_label("Text", exact=True).fill(" ")
        page.keyboard.press("Enter")
        page.wait_for_selector("#error:not(:empty)")
        assert page.inner_text("#error") == "The text is empty."
        assert page.locator("#outputs li").count() == 0


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_text_and_documents_in_a_browser(address, tmp_path, scheme):
    file = tmp_path / "dogs.txt"
    file.write_text("- dog\n\n\tcat\n")
    with open_address(address, width=380, scheme=scheme) as page:
        page.get_by_label("Text", exact=True).fill("dog\n\n  cat")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#whole:not(:empty)")
        assert page.locator("#whole").text_content() == "Hund\n\n  Katze"
        assert page.locator("#outputs h2").all_inner_texts() == ["dog", "cat"]
        assert page.locator("#outputs li").count() == 6
        width = "document.documentElement.scrollWidth"
        assert page.evaluate(width) <= 380
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#download a")
        shown = page.locator("#whole").text_content()
        assert shown == "- Hund\n\n\tKatze\n"
        with page.expect_download() as download:
            page.locator("#download a").click()
        assert download.value.suggested_filename == "dogs.txt"
        assert download.value.path().read_text() == shown
        assert page.evaluate(width) <= 380
        # A list mark is kept, so that the whole text is shown.
        page.get_by_label("Text", exact=True).fill("- dog")
        page.get_by_role("button", name="Run").click()
        page.wait_for_function("find('whole').textContent === '- Hund'")
        assert page.locator("#outputs li").count() == 3
        page.get_by_label("Text", exact=True).fill("1.")
        page.get_by_role("button", name="Run").click()
        page.wait_for_function("find('whole').textContent === '1.'")
        assert page.locator("#outputs li").count() == 0


LONG = "\n".join(["dog", "x" * 99] * 10) + "\n"


@pytest.mark.parametrize("width", [380, 1280])
def test_long_words_and_both_sides(address, width):
    with pytest.raises(AssertionError, match="400"):  # its console
        with open_address(address, width=width) as page:
            page.get_by_label("Text", exact=True).fill("x" * 90 + "\ndog")
            page.get_by_role("button", name="Run").click()
            page.wait_for_selector("#outputs li")
            overflow = (
                "document.documentElement.scrollWidth - document.body."
                "parentElement.clientWidth"
            )
            assert page.evaluate(overflow) == 0
            source = page.locator("#text").bounding_box()
            whole = page.locator("#whole").bounding_box()
            # Beside it, or below it on a phone.
            assert (whole["x"] > source["x"] + source["width"]) == (
                width == 1280
            )
            page.get_by_label("Text", exact=True).fill("y" * 101)
            page.keyboard.press("Enter")
            page.wait_for_selector("#error:not(:empty)")
            page.locator("#error").evaluate(
                "x => { x.append('z'.repeat(500)) }"
            )
            assert page.evaluate(overflow) == 0


def test_the_translation_is_copied(address):
    with open_address(address) as page:
        copy = page.locator("#copy")
        assert copy.is_disabled()
        page.get_by_label("Text", exact=True).fill("dog\n\n  cat")
        page.get_by_role("button", name="Run").click()
        page.wait_for_selector("#whole:not(:empty)")
        copy.click()
        assert copy.inner_text() == "Copied"
        page.get_by_label("Text", exact=True).fill("")
        page.get_by_label("Text", exact=True).focus()
        page.keyboard.press("Control+V")
        found = page.get_by_label("Text", exact=True).input_value()
        assert found == "Hund\n\n  Katze"


def test_progress_and_cancel(tmp_path):
    """A long text is sent in parts, of which the second one waits."""
    going_on, parts = threading.Event(), []

    class Waiting(FakeTranslator):
        def translate_document(self, text, **arguments):
            parts.append(text)
            assert len(parts) % 2 or going_on.wait(20)
            return super().translate_document(text, **arguments)

    with served(Waiting()) as server, open_address(server) as page:
        progress, cancel = page.locator("#progress"), page.locator("#cancel")
        page.get_by_label("Text", exact=True).fill(LONG)
        page.get_by_role("button", name="Run").click()
        page.wait_for_function("find('progress').value > 0")
        assert progress.is_visible() and cancel.is_visible()
        first = page.locator("#whole").text_content()
        assert first == parts[0].upper() != LONG.upper()
        going_on.set()
        page.wait_for_function("find('progress').hidden")
        assert "".join(parts) == LONG
        assert page.locator("#whole").text_content() == LONG.upper()
        assert page.locator("#outputs h2").count() == 2  # once each
        assert cancel.is_hidden() and page.inner_text("#notes") == ""
        # A file, which is cancelled.
        going_on.clear()
        parts.clear()
        file = tmp_path / "long.txt"
        file.write_text(LONG * 10)
        page.locator("#file").set_input_files(file)
        page.wait_for_function("find('progress').value > 0")
        cancel.click()
        page.wait_for_function("find('notes').textContent.startsWith('Canc')")
        shown = page.locator("#whole").text_content()
        assert shown == parts[0].upper() and shown.endswith("\n")
        assert page.locator("#download a").count() == 0
        going_on.set()
        # An empty one, and one in several parts.
        (tmp_path / "empty.txt").touch()
        page.locator("#file").set_input_files(tmp_path / "empty.txt")
        page.wait_for_selector("#error:not(:empty)")
        page.locator("#file").set_input_files(file)
        page.wait_for_selector("#download a")
        assert page.locator("#whole").text_content() == LONG.upper() * 10
        (tmp_path / "latin1.txt").write_bytes(b"\xff")
        page.locator("#file").set_input_files(tmp_path / "latin1.txt")
        page.wait_for_function("find('error').textContent.includes('UTF-8')")


def test_a_stopped_server_says_so():
    with pytest.raises(AssertionError, match="ERR_CONNECTION_REFUSED"):
        with contextlib.ExitStack() as stack:
            server = contextlib.ExitStack()
            address = server.enter_context(served(FakeTranslator()))
            page = stack.enter_context(open_address(address))
            server.close()
            page.get_by_label("Text", exact=True).fill("dog")
            page.keyboard.press("Enter")
            page.wait_for_selector("#error:not(:empty)")
            message = page.inner_text("#error")
            assert message.startswith("The server does not answer: it was st")
            assert page.get_by_role("button", name="Run").is_enabled()


def test_errors_in_a_browser(address):
    with pytest.raises(AssertionError, match="400"):  # its console
        with open_address(address) as page:
            page.get_by_label("Text", exact=True).fill("x" * 101)
            page.keyboard.press("Enter")
            page.wait_for_selector("#error:not(:empty)")
            assert "at most 100 characters" in page.inner_text("#error")
