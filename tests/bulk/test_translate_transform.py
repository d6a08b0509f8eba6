import pickle
import re
import uuid

import apache_beam as beam
import pytest
from documents import blocks

import keras_transformer as kt


@pytest.fixture
def collect(tmp_path):
    """Returns both outputs of a transform, and counters."""
    folders = [tmp_path / "translated", tmp_path / "failed"]

    def keep(result, folder):  # pickling would copy a list
        (folder / uuid.uuid4().hex).write_bytes(pickle.dumps(result))

    def collect(elements, transform):
        pipeline = beam.Pipeline(runner="FnApiRunner")
        outputs = pipeline | beam.Create(elements) | transform
        for output, folder in zip(outputs, folders, strict=True):
            folder.mkdir()
            _ = output | f"Keep {folder.name}" >> beam.Map(keep, folder)
        metrics = pipeline.run().metrics().query()
        counters = {x.key.metric.name: x.result for x in metrics["counters"]}
        found = (
            [pickle.loads(file.read_bytes()) for file in folder.iterdir()]
            for folder in folders
        )
        return *found, counters

    return collect


def test_translations_are_those_of_the_export(collect, exported, pairs):
    texts = [*pairs, ""]
    transform = kt.bulk.Translate(exported, batch_size=10)
    results, failed, counters = collect(list(enumerate(texts)), transform)
    assert sorted(result.key for result in results) == list(range(len(texts)))
    expected = kt.open_translator(exported).translate(texts)
    for key, source, text, score in results:
        assert source == texts[key]
        assert text == expected[key].texts[0]
        assert score == pytest.approx(expected[key].scores[0], abs=1e-4)
    assert not failed and counters["num_inferences"] == len(texts)


def test_program_of_the_page(exported, tmp_path, monkeypatch, capfd):
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "en-de").symlink_to(exported.parent)
    monkeypatch.chdir(tmp_path)
    (program,) = blocks("docs/bulk.md", "python")
    exec(program.replace("I am a student.", "dog"))
    assert re.search("^a Hund -0[.][0-9]+$", capfd.readouterr().out, re.M)


def test_what_fails_is_found_alone(collect, fake):
    folder, opened = fake
    texts = ["a", "bad", "b", "ß".encode(), b"\xff", "too long"]
    results, failed, counters = collect(texts, kt.bulk.Translate(folder))
    assert set(results) == {
        *((None, "a", "A", -0.5), (None, "b", "B", -0.5)),
        (None, "ß".encode(), "SS", -0.5),
    }
    assert all(failure.key is None for failure in failed)
    assert {failure.source: failure.error for failure in failed} == {
        "bad": "RuntimeError: no kernel",
        b"\xff": "The text must be valid UTF-8.",
        "too long": "The text is longer than the model reads.",
    }
    assert (counters["num_inferences"], counters["failed"]) == (6, 3)
    assert len(opened) == 1  # of all threads and batches


def test_a_model_that_always_fails_fails_the_pipeline(collect, fake):
    with pytest.raises(RuntimeError, match="no kernel"):
        collect(["bad", "bad 2"], kt.bulk.Translate(fake[0]))


def test_a_transform_carries_no_model(exported, tmp_path):
    transform = kt.bulk.Translate(exported, threads=1, share_model=True)
    assert len(pickle.dumps(transform)) < 2_000
    with pytest.raises(kt.InputError, match=tmp_path.name):
        kt.bulk.Translate(tmp_path)
