"""The web page to try a model, in a browser."""

import pytest
from browser import open_address

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


def test_errors_in_a_browser(address):
    with pytest.raises(AssertionError, match="400"):  # its console
        with open_address(address) as page:
            page.get_by_label("Text", exact=True).fill("x" * 101)
            page.keyboard.press("Enter")
            page.wait_for_selector("#error:not(:empty)")
            assert "at most 100 characters" in page.inner_text("#error")
