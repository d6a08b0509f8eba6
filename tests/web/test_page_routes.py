import json
import urllib.parse
import urllib.request

import pytest
from fake_translator import FakeTranslator
from web_server import fetch, served


def error_of(*request, **headers):
    status, found = fetch(*request, **headers)
    assert status == 400
    return json.loads(found)["error"]


def test_pages_of_a_text(address, translator):
    text = urllib.parse.quote("dog & <b>")
    status, page = fetch(f"{address}/trace?text={text}")
    assert status == 200 and '"source": "dog & \\u003cb>"' in page
    assert '"hypothesis": 0' in page
    best, second, _ = translator.translate("dog").texts
    for chosen, target in (("", best), ("&hypothesis=1", second)):
        status, page = fetch(f"{address}/attention?text=dog{chosen}")
        assert status == 200 and f'"output": {json.dumps(target)}' in page
    status, page = fetch(f"{address}/trace?text=dog&hypothesis=1")
    assert status == 200 and '"hypothesis": 1' in page


@pytest.mark.parametrize(
    ("path", "received"),
    [
        ("trace?text=", "Received: "),
        ("trace?text=dog&hypothesis=4", "hypothesis must"),
        ("attention?text=dog&hypothesis=3", "hypothesis must"),
        (f"trace?text={'x' * 101}", "Received: 101"),
    ],
)
def test_wrong_addresses_get_a_message(address, path, received):
    assert received in error_of(f"{address}/{path}")


def test_a_text_of_sentences_and_lines(address, translator):
    text = "\n - dog. The red cat sleeps.\n\n * cat\n---\n1.\n\tdog."
    status, answer = fetch(address + "/translate", {"text": text})
    answer = json.loads(answer)
    # Once each, and nothing without letters.
    sources = ["dog.", "The red cat sleeps.", "cat"]
    expected = translator.translate(sources)
    assert status == 200
    assert [sentence["source"] for sentence in answer["sentences"]] == sources
    dog, sleeps, cat = (translation.texts[0] for translation in expected)
    assert answer["text"] == (
        f"\n - {dog} {sleeps}\n\n * {cat}\n---\n1.\n\t{dog}"
    )
    for sentence, translation in zip(
        answer["sentences"], expected, strict=True
    ):
        assert sentence["translations"] == translation.texts
        assert sentence["scores"] == pytest.approx(translation.scores, abs=1e-5)
        assert sentence["source_truncated"] is translation.source_truncated


def test_a_text_that_is_too_long(address):
    error = error_of(address + "/translate", {"text": "x" * 101})
    assert "100 characters" in error and "Received: 101" in error


@pytest.mark.parametrize(
    ("body", "name"),
    [({}, "text"), ({"text": "dog", "n": 2}, "n"), ({"text": 3}, "text")],
)
def test_invalid_fields_are_named(address, body, name):
    status, answer = fetch(address + "/translate", body)
    (problem,) = json.loads(answer)["detail"]
    assert (status, problem["loc"]) == (422, ["body", name])


def test_a_target_language():
    """It stands after list marks, which are not part of the sentence."""
    fake = FakeTranslator(target_languages=["deu", "fra"])
    with served(fake) as address:
        body = {"text": "- Yes.\n>>deu<< No.", "target_language": "fra"}
        answer = json.loads(fetch(f"{address}/translate", body)[1])
        sources = [sentence["source"] for sentence in answer["sentences"]]
        assert sources == [">>fra<< Yes.", ">>deu<< No."]
        assert answer["text"] == "- >>FRA<< YES.\n>>DEU<< NO."
        body["target_language"] = "xx"
        assert "Received: 'xx'" in error_of(f"{address}/translate", body)


def test_what_the_page_knows(address):
    assert '"has_trace": true, "has_attention": true' in fetch(address)[1]
    metadata = {"runs": [{"example": ">>en<< <bt> Ein <b>."}]}
    export = FakeTranslator(metadata=metadata, languages=("eo", None))
    with served(export, note="Short <b>.") as address:
        page = fetch(address)[1]
        assert '"note": "Short \\u003cb>.", ' in page
        assert '"languages": ["eo", null], ' in page
        assert '"example": "Ein \\u003cb>.", ' in page
        assert '"has_trace": false, "has_attention": false' in page
        for path in ("trace", "attention"):
            assert "Received: " in error_of(f"{address}/{path}?text=dog")


# === Other sites ===

BODY = {"text": "dog"}


@pytest.mark.parametrize("host", ["evil.com:80", "localhost.evil.com", ""])
def test_names_of_other_sites(address, host):
    assert fetch(address, Host=host)[0] == 400


@pytest.mark.parametrize(
    "origin", ["http://evil.com", "https://localhost.evil.com", "null"]
)
def test_pages_of_other_sites(address, origin):
    error = error_of(address + "/translate", BODY, Origin=origin)
    assert f"Received: {origin}" in error and "allowed_hosts" in error


def test_no_site_shows_the_page_in_a_frame(address):
    with urllib.request.urlopen(address) as answer:
        found = answer.headers["Content-Security-Policy"]
    assert found == "frame-ancestors 'none'"


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "localhost:9000", "Origin": "http://localhost:9000"},
        {"Host": "LOCALHOST"},
        {"Host": "[::1]:80", "Origin": "http://[::1]"},
        {"Host": "my.example", "Origin": "https://my.example"},
        # Behind a proxy that changes `Host`.
        {"Host": "127.0.0.1:8000", "Origin": "https://my.example"},
    ],
)
def test_own_and_allowed_names(address, headers):
    assert fetch(address + "/translate", BODY, **headers)[0] == 200
