"""`Translate` in a pipeline of this process."""

import pickle
import re
import uuid

import apache_beam as beam
import pytest
from documents import blocks

import keras_transformer as kt
from keras_transformer.inference.saved_model import SavedModelTranslator


@pytest.fixture
def collect(tmp_path):
    """Returns what a transform makes of elements, counters, and batches."""
    folder = tmp_path / "results"
    folder.mkdir()

    def keep(result):  # pickling would copy a list
        (folder / uuid.uuid4().hex).write_bytes(pickle.dumps(result))

    def collect(elements, transform):
        pipeline = beam.Pipeline(runner="FnApiRunner")
        _ = pipeline | beam.Create(elements) | transform | beam.Map(keep)
        result = pipeline.run()
        metrics = result.metrics().query()
        counters = {x.key.metric.name: x.result for x in metrics["counters"]}
        batches = sum(
            x.result.count
            for x in metrics["distributions"]
            if x.key.metric.name == "lines_per_second"
        )
        results = [pickle.loads(x.read_bytes()) for x in folder.iterdir()]
        return results, counters, batches

    return collect


def test_translations_are_those_of_the_export(collect, exported, pairs):
    texts = [*pairs, ""]
    results, counters, batches = collect(
        list(enumerate(texts)), kt.beam.Translate(exported, batch_size=10)
    )
    assert sorted(result.key for result in results) == list(range(len(texts)))
    expected = SavedModelTranslator.open(exported).translate(texts)
    for key, source, text, score, error in results:
        assert (source, error) == (texts[key], None)
        assert text == expected[key].texts[0]
        assert score == pytest.approx(expected[key].scores[0], abs=1e-4)
    assert counters["lines"] == counters["num_inferences"] == len(texts)
    assert counters["characters"] == sum(map(len, texts))
    assert batches >= len(texts) / 10


def test_program_of_the_page(exported, tmp_path, monkeypatch, capfd):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "en-de").symlink_to(exported.parent)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/bulk.md", "python")
    exec(program.replace("I am a student.", "dog"))
    assert re.search("^a Hund -0[.][0-9]+$", capfd.readouterr().out, re.M)


def test_what_fails_is_found_alone(collect, fake):
    folder, opened = fake
    texts = ["a", "bad", "b", "ß".encode(), b"\xff", "too long", "limit"]
    results, counters, _ = collect(texts, kt.beam.Translate(folder))
    by_source = {result.source: result for result in results}
    assert set(by_source) == set(texts)
    assert by_source["b"] == (None, "b", "B", -0.5, None)
    assert by_source["ß".encode()].text == "SS"
    errors = {x.source: x.error for x in results if x.error}
    assert errors.pop("bad") == "RuntimeError: no kernel"
    assert errors.pop("too long") == "The text is longer than the model reads."
    (invalid,) = errors.values()
    assert invalid == "The text must be valid UTF-8."
    assert all(x.text is x.score is None for x in results if x.error)
    assert (counters["lines"], counters["failed"]) == (7, 3)
    assert counters["at_length_limit"] == 1
    assert counters["characters"] == 1 + 3 + 1 + 1 + 1 + 8 + 5
    assert len(opened) == 1  # of all threads and batches


def test_a_model_that_always_fails_fails_the_pipeline(collect, fake):
    with pytest.raises(RuntimeError, match="no kernel"):
        collect(["bad", "bad 2"], kt.beam.Translate(fake[0]))


def test_a_device_that_fails_meanwhile_fails_the_pipeline(collect, fake):
    texts = ["a", "b", "device lost", "c"]
    with pytest.raises(RuntimeError, match="device lost"):
        collect(texts, kt.beam.Translate(fake[0]))


def test_a_transform_carries_no_model(exported, tmp_path):
    transform = kt.beam.Translate(exported, threads=1)
    assert len(pickle.dumps(transform)) < 2_000
    handler = kt.beam.TranslationHandler(exported, share_model=True)
    assert handler.share_model_across_processes()
    assert not kt.beam.TranslationHandler(
        exported
    ).share_model_across_processes()
    # All workers open the version that was the newest.
    versions = tmp_path / "versions"
    versions.mkdir()
    (versions / "3").symlink_to(exported)
    newest = kt.beam.TranslationHandler(versions)
    assert newest.path == str(versions / "3")
    with pytest.raises(kt.InputError, match="must be a SavedModel or"):
        kt.beam.Translate(tmp_path)
