import shutil
import sys

import pytest
import tensorflow_datasets as tfds
from corpora import PAIRS, read

from keras_transformer.support.errors import InputError
from keras_transformer.train.data.corpus import open_corpus


class TinyTranslate(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Generated here, in the form of the WMT datasets."""

    VERSION = tfds.core.Version("1.0.0")
    BUILDER_CONFIGS = (tfds.core.BuilderConfig(name="de-en"),)

    def _info(self):
        languages = tfds.features.Translation(languages=("de", "en"))
        return tfds.core.DatasetInfo(builder=self, features=languages)

    def _split_generators(self, _):
        return {
            "train": self._generate_examples(PAIRS),
            "validation": self._generate_examples(PAIRS[:2]),
            "extra": self._generate_examples(PAIRS[2:]),
        }

    def _generate_examples(self, pairs):
        for key, (english, german) in enumerate(pairs):
            yield key, {"en": english, "de": german}


@pytest.fixture(scope="module")
def tfds_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tfds")
    tfds.disable_progress_bar()
    builder = TinyTranslate(config="de-en", data_dir=folder)
    builder.download_and_prepare()
    return folder


@pytest.fixture
def tfds_data_dir(tfds_folder, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tfds_folder))


@pytest.mark.usefixtures("tfds_data_dir")
def test_tfds():
    corpus = open_corpus(["tfds:tiny_translate/de-en"], "en", "de")
    assert sorted(corpus.splits) == ["extra", "train", "valid"]
    # Preparing a dataset shuffles it once.
    train = read(corpus)
    assert sorted(train) == sorted(PAIRS)
    assert read(corpus, "train") == train
    assert sorted(read(corpus, "valid")) == sorted(PAIRS[:2])
    reverse = open_corpus(["tfds:tiny_translate/de-en"], "de", "en")
    assert read(reverse) == [pair[::-1] for pair in train]


@pytest.mark.usefixtures("tfds_data_dir")
@pytest.mark.parametrize(
    "source, target", [("en", "fr"), (None, None), ("en", "en")]
)
def test_tfds_without_the_language(source, target):
    with pytest.raises(InputError, match="tiny_translate/de-en: de, en"):
        open_corpus(["tfds:tiny_translate/de-en"], source, target)


@pytest.mark.usefixtures("tfds_data_dir")
@pytest.mark.parametrize(
    "name", ["no_such_set/de-en", "tiny_translate/xx", "", "not a name"]
)
def test_tfds_that_does_not_exist(name):
    with pytest.raises(InputError, match=f"tfds:{name} must be") as error:
        open_corpus([f"tfds:{name}"], "en", "de")
    assert len(str(error.value)) < 400


def test_a_damaged_dataset_is_named(tfds_folder, tmp_path, monkeypatch):
    monkeypatch.setenv("TFDS_DATA_DIR", str(tmp_path))
    folder = tmp_path / "tiny_translate/de-en/1.0.0"

    def read_damaged():
        name = "tfds:tiny_translate/de-en"
        with pytest.raises(InputError, match=f"{name}.* must be") as error:
            read(open_corpus([name], "en", "de"))
        (line,) = str(error.value).splitlines()
        return line

    shutil.copytree(tfds_folder, tmp_path, dirs_exist_ok=True)
    (shard,) = folder.glob("*-train.tfrecord-*")
    content = bytearray(shard.read_bytes())
    content[20] ^= 1
    shard.write_bytes(content)
    assert "DataLossError" in read_damaged()
    (folder / "dataset_info.json").write_text("{")
    assert "Error" in read_damaged()


@pytest.mark.parametrize(
    "problem",
    [
        tfds.download.DownloadError("HTTP code 404"),
        AssertionError("Manual directory does not exist.\nInstructions: ..."),
    ],
)
def test_a_dataset_that_cannot_be_prepared(tfds_data_dir, monkeypatch, problem):
    def fail(self):
        raise problem

    builder = tfds.core.DatasetBuilder
    monkeypatch.setattr(builder, "download_and_prepare", fail)
    name = type(problem).__name__
    with pytest.raises(InputError, match=f"de-en must .*: {name}: "):
        open_corpus(["tfds:tiny_translate/de-en"], "en", "de")


def test_tfds_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    message = r"tensorflow_datasets, which .*\.\[tfds\]"
    with pytest.raises(InputError, match=message):
        open_corpus(["tfds:tiny_translate/de-en"], "en", "de")
