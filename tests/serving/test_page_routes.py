"""The page to try a model with, over HTTP."""

import json
import types
import urllib.parse
import urllib.request

import pytest
from fake_translator import FakeTranslator
from web_server import error_of, fetch, predict, served


def test_pages_of_a_text(address, several):
    text = urllib.parse.quote("dog & <b>")
    status, page = fetch(f"{address}/trace?text={text}")
    assert status == 200 and '"source": "dog & \\u003cb>"' in page
    second = several.translate("dog").texts[1]
    status, page = fetch(f"{address}/attention?text=dog&hypothesis=1")
    assert status == 200 and f'"target": {json.dumps(second)}' in page
    status, page = fetch(f"{address}/trace?text=dog&hypothesis=1")
    assert status == 200 and '"hypothesis": 1' in page
    for path in (
        "trace?text=",
        "trace?text=dog&hypothesis=4",
        "attention?text=dog&hypothesis=3",
    ):
        status, found = fetch(f"{address}/{path}")
        assert status == 400 and "Received: " in json.loads(found)["error"]


def test_a_text_of_sentences_and_lines(address, several):
    text = "\n - dog. The red cat sleeps.\n\n * cat\n---\n1.\n\tdog."
    status, answer = fetch(address + "/translate", {"text": text})
    answer = json.loads(answer)
    # Once each, and nothing without letters.
    sources = ["dog.", "The red cat sleeps.", "cat"]
    expected = several.translate(sources)
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


def test_a_text_without_letters_is_returned(address):
    status, answer = fetch(address + "/translate", {"text": "1. \n---\n"})
    expected = {"text": "1. \n---\n", "sentences": []}
    assert (status, json.loads(answer)) == (200, expected)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, "text: Field required"),
        ({"text": 1}, "text: Input should be a valid string"),
        ({"text": "a", "n_best": 3}, "n_best: Extra inputs are not permitted"),
        ({"text": "a", "target_language": 1}, "target_language: Input should"),
        (["x"], "request: Input should be an object"),
    ],
)
def test_texts_that_are_refused(address, body, message):
    status, found = fetch(address + "/translate", body)
    assert status == 400
    expected, problems = json.loads(found)["error"].split("\n", 1)
    assert expected.startswith('A request must be {"text": "..."}, and may')
    assert message in problems and "Received: " in problems


def test_a_text_that_is_too_long_is_refused(address):
    status, found = fetch(address + "/translate", {"text": "x" * 101})
    message = "A text may have at most 100 characters. Received: 101"
    assert (status, json.loads(found)["error"]) == (400, message)


def send(address, content):
    request = urllib.request.Request(f"{address}/document", content)
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode(), answer.headers


def test_documents(address):
    found, headers = send(address, b"- dog\n\n\tcat\r\n")
    assert found == "- Hund\n\n\tKatze\r\n"
    assert headers["Content-Type"] == "text/plain; charset=utf-8"
    assert headers["X-Content-Type-Options"] == "nosniff"
    assert headers["Incomplete-Sentences"] == "0"
    _, headers = send(address, b"QX" * 50 + b"\n" + b"QX" * 50)
    assert headers["Incomplete-Sentences"] == "1"


@pytest.mark.parametrize(
    ("content", "headers", "status", "message"),
    [
        (b"\xff", {}, 400, "must be in UTF-8. Received: "),
        (b"x" * 40_001, {}, 413, "at most 40,000 bytes"),
        (
            b"--x\r\n",  # what `curl -F file=@FILE` sends
            {"Content-Type": "multipart/form-data; boundary=x"},
            400,
            "curl --data-binary @FILE sends it. Received: a form",
        ),
        (
            b"\x1f\x8b",
            {"Content-Encoding": "gzip"},
            415,
            "must not be compressed. Received: gzip",
        ),
    ],
)
def test_documents_that_are_refused(address, content, headers, status, message):
    request = urllib.request.Request(f"{address}/document", content, headers)
    found, error = error_of(request)
    assert found == status and message in error


def test_a_target_language():
    """It stands after list marks, which are no part of the sentence."""
    tokenizer = types.SimpleNamespace(languages=["deu", "fra"])
    with served(FakeTranslator(tokenizer=tokenizer)) as address:
        body = {"text": "- Yes.\n>>deu<< No.", "target_language": "fra"}
        answer = json.loads(fetch(f"{address}/translate", body)[1])
        sources = [sentence["source"] for sentence in answer["sentences"]]
        assert sources == [">>fra<< Yes.", ">>deu<< No."]
        assert answer["text"] == "- >>FRA<< YES.\n>>DEU<< NO."
        path = f"{address}/document?target_language"
        request = urllib.request.Request(f"{path}=deu", b"- Yes.\n")
        with urllib.request.urlopen(request) as answer:
            assert answer.read() == b"- >>DEU<< YES.\n"
        for url, other in (
            (f"{address}/translate", {**body, "target_language": "xx"}),
            (f"{path}=xx", body),
        ):
            status, error = fetch(url, other)
            assert status == 400 and "deu, fra. Received: 'xx'" in error


@pytest.mark.parametrize(
    ("run", "languages", "example"),
    [
        (
            {"source": "de", "target": "en", "example": ">>en<< <bt> Ein <b>."},
            '["de", "en"]',
            '"Ein \\u003cb>."',
        ),
        ({"source": "eo"}, '["eo", null]', '""'),
    ],
)
def test_languages_and_an_example(run, languages, example):
    with served(FakeTranslator(metadata={"runs": [run]})) as address:
        page = fetch(address)[1]
    assert f'"languages": {languages}, ' in page
    assert f'"example": {example}, ' in page


def test_an_export_has_no_pages_of_a_text(address, address_of_export):
    for server, shown in ((address, "true"), (address_of_export, "false")):
        page = fetch(server)[1]
        assert f'"has_trace": {shown}, "has_attention": {shown}' in page
    for path in ("trace", "attention"):
        status, answer = fetch(f"{address_of_export}/{path}?text=dog")
        assert status == 400
        assert "needs a run" in json.loads(answer)["error"]


def test_an_export_has_two_signatures(address_of_export):
    _, answer = predict(address_of_export, {"instances": ["dog", "cat"]})
    found = [row["translations"] for row in answer["predictions"]]
    assert found == [["DOG"] * 3, ["CAT"] * 3]
    inputs = {"text": "dog", "prefix": "A "}
    body = {"signature_name": "translate_prefix", "instances": [inputs]}
    _, answer = predict(address_of_export, body)
    assert answer["predictions"][0]["translations"] == ["A DOG"] * 3
