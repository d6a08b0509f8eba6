"""Corpora: the same pairs from every form, and every fault named."""

import shutil
import sys

import pytest
import tensorflow_datasets as tfds

from keras_transformer.errors import InputError
from keras_transformer.train.data.corpus import open_corpus

PAIRS = [
    ("A cat.", "Eine Katze."),
    ("", "Leer links."),
    ("Über alles: „so“ 🦩", "tab-free, ½"),
    ("The last line.", "Die letzte Zeile."),
]


def write(path, lines, end="\n"):
    path.write_bytes("".join(line + end for line in lines).encode("utf-8"))
    return str(path)


def write_sides(folder, split="train", pairs=PAIRS, end="\n"):
    return [
        write(folder / f"{split}.{code}", side, end)
        for code, side in zip(
            ("en", "de"), zip(*pairs, strict=True), strict=True
        )
    ]


def listed(corpus, split="train"):
    return [
        tuple(side.decode("utf-8") for side in pair)
        for pair in corpus.pairs(split).as_numpy_iterator()
    ]


def assert_holds(corpus, split, pairs):
    """Every way to read the split gives these pairs, in order, twice."""
    assert listed(corpus, split) == listed(corpus, split) == pairs
    assert corpus.check(split) == len(pairs)
    assert list(corpus.texts(split)) == [
        text for pair in pairs for text in pair
    ]
    source, target = corpus.pairs(split).element_spec
    assert source.shape == target.shape == []


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_folder(tmp_path, end):
    write_sides(tmp_path, "train", end=end)
    write_sides(tmp_path, "test", PAIRS[:1], end=end)
    write(tmp_path / "train.fr", ["ignored"])
    corpus = open_corpus([str(tmp_path)], "en", "de")
    assert corpus.splits == ("train", "test")
    assert (corpus.source, corpus.target) == ("en", "de")
    assert_holds(corpus, "train", PAIRS)
    assert_holds(corpus, "test", PAIRS[:1])


def test_folder_in_the_other_direction(tmp_path):
    write_sides(tmp_path)
    corpus = open_corpus([str(tmp_path)], "de", "en")
    assert_holds(corpus, "train", [(de, en) for en, de in PAIRS])


def test_two_files(tmp_path):
    corpus = open_corpus(write_sides(tmp_path))
    assert corpus.splits == ("train",)
    assert corpus.name == f"{tmp_path}/train.en {tmp_path}/train.de"
    assert_holds(corpus, "train", PAIRS)


def test_two_files_the_wrong_way_round(tmp_path):
    paths = [str(write(tmp_path / f"a.{code}", ["x"])) for code in ("de", "en")]
    assert open_corpus(paths, "de", "en").splits == ("train",)
    with pytest.raises(InputError, match="source comes first.*source='en'"):
        open_corpus(paths, "en", "de")


def test_last_line_without_an_end(tmp_path):
    files = [tmp_path / "a", tmp_path / "b"]
    files[0].write_bytes(b"one\ntwo")
    files[1].write_bytes(b"eins\nzwei\n")
    corpus = open_corpus([str(file) for file in files])
    assert_holds(corpus, "train", [("one", "eins"), ("two", "zwei")])


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_tsv(tmp_path, end):
    lines = [f"{source}\t{target}" for source, target in PAIRS]
    lines[0] += "\tthird column\tfourth"
    corpus = open_corpus([write(tmp_path / "a.tsv", lines, end)])
    assert corpus.splits == ("train",)
    assert_holds(corpus, "train", PAIRS)


@pytest.mark.parametrize(
    "source, target, swapped",
    [
        (None, None, False),
        ("en", "de", False),
        ("de", None, True),
        (None, "en", True),
    ],
)
def test_embedded(source, target, swapped):
    from keras_transformer.text import corpus as embedded

    corpus = open_corpus(["embedded"], source, target)
    assert corpus.splits == ("train", "valid", "test")
    assert (corpus.source == "de") is (corpus.target == "en") is swapped
    for split in corpus.splits:
        pairs = [tuple(pair) for pair in embedded.load(split)]
        expected = [pair[::-1] for pair in pairs] if swapped else pairs
        assert_holds(corpus, split, expected)


@pytest.mark.parametrize("source, target", [("fr", None), ("en", "fr")])
def test_embedded_has_two_languages(source, target):
    with pytest.raises(InputError, match="English and German.*'fr'"):
        open_corpus(["embedded"], source, target)


# === Shards ===


def shards(corpus, count, split="train"):
    return [
        [
            tuple(side.decode("utf-8") for side in pair)
            for pair in corpus.pairs(split, (index, count)).as_numpy_iterator()
        ]
        for index in range(count)
    ]


def every(count, pairs):
    return [pairs[index::count] for index in range(count)]


# 5 workers are more than there are pairs.
COUNTS = [1, 2, 3, 5]


@pytest.mark.parametrize("count", COUNTS)
@pytest.mark.parametrize("form", ["folder", "two files", "tsv"])
def test_shards_of_text_files(tmp_path, form, count):
    files = write_sides(tmp_path)
    lines = [f"{source}\t{target}" for source, target in PAIRS]
    tsv = write(tmp_path / "a.tsv", lines)
    data = {"folder": [str(tmp_path)], "two files": files, "tsv": [tsv]}
    corpus = open_corpus(data[form], "en", "de")
    assert shards(corpus, count) == every(count, PAIRS)


def test_shards_of_embedded():
    corpus = open_corpus(["embedded"])
    pairs = listed(corpus, "valid")
    assert shards(corpus, 3, "valid") == every(3, pairs)


def test_shards_when_a_side_is_longer(tmp_path):
    files = write_sides(tmp_path)
    write(tmp_path / "train.de", [target for _, target in PAIRS[:3]])
    assert shards(open_corpus(files), 2) == every(2, PAIRS[:3])


@pytest.mark.parametrize(
    "shard",
    [(2, 2), (-1, 2), (0, 0), (0,), (0, 1, 2), (0.0, 1), ("0", 1), 1, None],
)
def test_a_shard_that_is_none(tmp_path, shard):
    corpus = open_corpus(write_sides(tmp_path))
    with pytest.raises(InputError, match="0 <= index < count") as error:
        corpus.pairs("train", shard)
    assert str(error.value).endswith(f"Received: shard={shard!r}")


# === Faults of the arguments ===


@pytest.mark.parametrize("data", [[], ["a", "b", "c"], [""], ""])
def test_the_forms_are_listed(data):
    with pytest.raises(InputError, match=r"(?s)embedded.*FOLDER.*tfds:"):
        open_corpus(data)


def test_a_name_that_does_not_exist(tmp_path):
    with pytest.raises(InputError, match="there is none.*nowhere"):
        open_corpus([str(tmp_path / "nowhere")], "en", "de")
    en, de = write_sides(tmp_path)
    with pytest.raises(InputError, match="there is none.*train.fr"):
        open_corpus([en, str(tmp_path / "train.fr")])
    with pytest.raises(InputError, match="is a folder"):
        open_corpus([str(tmp_path), de])


def test_one_file_that_is_no_tsv(tmp_path):
    en, _ = write_sides(tmp_path)
    with pytest.raises(InputError, match=r"\.tsv file.*train\.en"):
        open_corpus([en])


@pytest.mark.parametrize("target", [None, "fr"])
def test_a_folder_without_the_language(tmp_path, target):
    write_sides(tmp_path, "valid")
    with pytest.raises(InputError, match="files for: de, en"):
        open_corpus([str(tmp_path)], "cz", target)


def test_a_folder_with_half_a_split(tmp_path):
    write_sides(tmp_path, "train")
    write(tmp_path / "valid.de", ["allein"])
    with pytest.raises(InputError, match=r"valid\.de without .*valid\.en"):
        open_corpus([str(tmp_path)], "en", "de")


def test_the_same_language_twice(tmp_path):
    write_sides(tmp_path)
    with pytest.raises(InputError, match="different languages"):
        open_corpus([str(tmp_path)], "en", "en")


def test_a_split_that_is_not_there(tmp_path):
    write_sides(tmp_path, "train")
    write_sides(tmp_path, "test")
    corpus = open_corpus([str(tmp_path)], "en", "de")
    for read in (corpus.pairs, corpus.check, corpus.texts):
        with pytest.raises(InputError, match="splits train, test.*'valid'"):
            read("valid")


# === Faults of the files ===


@pytest.mark.parametrize("short", [0, 1])
def test_sides_of_different_length(tmp_path, short):
    files = write_sides(tmp_path)
    lines = list(list(zip(*PAIRS, strict=True))[short])[:1]
    write(tmp_path / files[short], lines)
    counts = [4, 4]
    counts[short] = 1
    en, de = (f"{file} with {n}" for file, n in zip(files, counts, strict=True))
    with pytest.raises(InputError, match=f"{en} lines, {de} lines"):
        open_corpus(files).check("train")
    with pytest.raises(InputError, match="same number of lines"):
        list(open_corpus(files).texts("train"))


def test_bytes_that_are_not_utf8(tmp_path):
    en, de = write_sides(tmp_path)
    (tmp_path / "train.de").write_bytes(b"a\nb\nm\xfcde\nc\n")
    with pytest.raises(
        InputError, match=r"train\.de, line 3: .*byte 2 .*latin1"
    ):
        open_corpus([en, de]).check("train")


def test_texts_before_a_fault_are_not_held_back(tmp_path):
    en, de = write_sides(tmp_path)
    (tmp_path / "train.de").write_bytes(b"a\nm\xfcde\n")
    texts = open_corpus([en, de]).texts("train")
    assert [next(texts), next(texts)] == ["A cat.", "a"]
    with pytest.raises(InputError, match=r"train\.de, line 2"):
        next(texts)


def test_an_empty_corpus(tmp_path):
    files = write_sides(tmp_path, pairs=[("", "")], end="")
    with pytest.raises(InputError, match=r"train\.en and .*train\.de.*empty"):
        open_corpus(files).check("train")
    with pytest.raises(InputError, match=r"a\.tsv, which is empty"):
        open_corpus([write(tmp_path / "a.tsv", [])]).check("train")


def test_a_tsv_line_without_a_tab(tmp_path):
    path = write(tmp_path / "a.tsv", ["a\tb", "c\td", "no tab", "e\tf"])
    with pytest.raises(InputError, match=r"a\.tsv, line 3, without a tab"):
        open_corpus([path]).check("train")


def test_a_file_that_vanishes(tmp_path):
    corpus = open_corpus(write_sides(tmp_path))
    (tmp_path / "train.de").unlink()
    with pytest.raises(InputError, match=r"train\.de \(No such file"):
        corpus.check("train")


# === TensorFlow Datasets ===


class TinyTranslate(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Made on the spot, in the form of the WMT datasets."""

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
    # Preparing a dataset shuffles it, once and for all.
    train = listed(corpus)
    assert sorted(train) == sorted(PAIRS)
    assert_holds(corpus, "train", train)
    assert sorted(listed(corpus, "valid")) == sorted(PAIRS[:2])
    assert corpus.check("valid") == 2
    reverse = open_corpus(["tfds:tiny_translate/de-en"], "de", "en")
    assert listed(reverse) == [pair[::-1] for pair in train]


@pytest.mark.usefixtures("tfds_data_dir")
@pytest.mark.parametrize("count", COUNTS)
def test_shards_of_tfds(count):
    corpus = open_corpus(["tfds:tiny_translate/de-en"], "en", "de")
    train = listed(corpus)
    parts = {
        1: [train],
        2: [train[:2], train[2:]],
        3: [train[:2], train[2:3], train[3:]],
        5: every(5, train),
    }
    assert shards(corpus, count) == parts[count]


@pytest.mark.usefixtures("tfds_data_dir")
def test_the_files_of_tfds_are_tfrecords(tfds_folder, tmp_path):
    (path,) = tfds_folder.glob("**/*-train.tfrecord-00000-of-00001")
    shutil.copy(path, tmp_path / "train.tfrecord-00000-of-00001")
    from_tfds = open_corpus(["tfds:tiny_translate/de-en"], "en", "de")
    corpus = open_corpus([str(tmp_path)], "en", "de")
    assert_holds(corpus, "train", listed(from_tfds))


@pytest.mark.usefixtures("tfds_data_dir")
@pytest.mark.parametrize("source, target", [("en", "fr"), (None, None)])
def test_tfds_without_the_language(source, target):
    with pytest.raises(InputError, match="tiny_translate/de-en: de, en"):
        open_corpus(["tfds:tiny_translate/de-en"], source, target)


@pytest.mark.usefixtures("tfds_data_dir")
@pytest.mark.parametrize(
    "name", ["no_such_set/de-en", "tiny_translate/xx", "", "not a name"]
)
def test_tfds_that_does_not_exist(name):
    with pytest.raises(InputError, match=f"Received: tfds:{name} ") as error:
        open_corpus([f"tfds:{name}"], "en", "de")
    assert len(str(error.value)) < 400


def test_tfds_is_not_installed(monkeypatch):
    monkeypatch.setitem(sys.modules, "tensorflow_datasets", None)
    message = r"tensorflow_datasets, .*keras-transformer-nmt\[tfds\]"
    with pytest.raises(InputError, match=message):
        open_corpus(["tfds:tiny_translate/de-en"], "en", "de")
