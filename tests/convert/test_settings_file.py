"""Fields of settings, and where their files may be."""

import pytest

from keras_transformer.convert.settings_file import (
    SettingsFile,
    read_json,
    read_yaml,
    resolve_in_folder,
)
from keras_transformer.support.errors import InputError

SETTINGS = SettingsFile(
    "a.json",
    {
        "count": 3,
        "rate": 0.5,
        "huge": 10**400,
        "flag": True,
        "null": None,
        "list": [],
    },
)


@pytest.mark.parametrize(
    ("field", "value_type", "value"),
    [
        ("count", int, 3),
        ("count", float, 3.0),
        ("rate", float, 0.5),
        ("flag", bool, True),
        ("list", list, []),
    ],
)
def test_values(field, value_type, value):
    found = SETTINGS.get(field, value_type, 7)
    assert (type(found), found) == (value_type, value)
    assert SETTINGS.get("absent", value_type, 7) == 7


@pytest.mark.parametrize(
    ("field", "value_type"),
    [
        ("absent", int),
        ("null", int),
        ("rate", int),
        ("flag", int),
        ("flag", float),
        ("huge", float),
        ("count", str),
        ("count", bool),
    ],
)
def test_other_types_are_refused(field, value_type):
    message = f"a.json must have '{field}': a value of type "
    with pytest.raises(InputError, match=message + value_type.__name__):
        SETTINGS.get(field, value_type)


def test_allowed_values():
    SETTINGS.check("count", 2, 3)
    SETTINGS.check("absent", 2)
    SETTINGS.check("list", [])
    message = "a.json must have 'count': 2 or 'x'. Received: count=3"
    with pytest.raises(InputError, match=message):
        SETTINGS.check("count", 2, "x")
    with pytest.raises(InputError, match="Received: null=None"):
        SETTINGS.check("null", False)


def test_long_values_are_cut():
    settings = SettingsFile("a.yml", {"list": [1] * 9999})
    with pytest.raises(InputError) as caught:
        settings.check("list", [])
    assert len(str(caught.value)) < 400


@pytest.mark.parametrize("values", [None, [], "text"])
def test_settings_are_a_mapping(values):
    with pytest.raises(InputError, match="a.yml must have names with values"):
        SettingsFile("a.yml", values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "a.json must be valid JSON"),
        ("[" * 99_999, "a.json must be valid JSON"),
        ('{"a": ' + "9" * 9999 + "}", "a.json must be valid JSON"),
        ("\\xff", "a.json must be valid JSON"),
        ('{"a": "\\ud800"}', "a.json must be valid JSON"),
        ('{"\\udc00": 1}', "a.json must be valid JSON"),
        ("[]", "names with values. Received: a value of type list"),
    ],
)
def test_json_that_is_refused(tmp_path, content, message):
    (tmp_path / "a.json").write_bytes(content.encode("utf-8"))
    with pytest.raises(InputError, match=message):
        read_json(tmp_path, "a.json")


def test_yaml():
    content = b"a: [1, 2]\nno: 1.5\n"
    assert read_yaml(content, "a.yml") == {"a": [1, 2], False: 1.5}
    texts = read_yaml(content, "a.yml", as_texts=True)
    assert texts == {"a": ["1", "2"], "no": "1.5"}


@pytest.mark.parametrize(
    "content",
    [
        "a: [",
        "[" * 5000,
        "- " * 5000,
        "a: &x [1]\nb: *x",
        # No objects of Python.
        "a: !!python/name:os.system",
        "a: !!python/object/apply:os.system [ls]",
        "\x01",
    ],
)
def test_yaml_that_is_refused(content):
    with pytest.raises(InputError, match="a.yml must be YAML. Received: "):
        read_yaml(content.encode(), "a.yml")


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "secret").write_text("secret")
    folder = tmp_path / "model"
    (folder / "spm").mkdir(parents=True)
    (folder / "spm" / "source.spm").write_text("pieces")
    (folder / "link").symlink_to("spm/source.spm")
    (folder / "outside").symlink_to("../secret")
    (folder / "dangling").symlink_to("nothing")
    (folder / "loop").symlink_to("loop")
    return folder


def test_files_inside_the_folder(folder, tmp_path):
    linked = tmp_path / "linked"
    linked.symlink_to(folder)
    for name in ("spm/source.spm", "link", "spm/../link"):
        for place in (folder, str(folder), linked):
            assert resolve_in_folder(place, name).read_text() == "pieces"


def test_files_outside_the_folder_are_refused(folder, tmp_path):
    for name in ("outside", "../secret", str(tmp_path / "secret")):
        with pytest.raises(InputError) as caught:
            resolve_in_folder(folder, name)
        assert name in str(caught.value)
        assert f"Received: {tmp_path / 'secret'}" in str(caught.value)
    for name in ("dangling", "loop", "nothing", "spm"):
        with pytest.raises(InputError, match=f"must have the file {name}"):
            resolve_in_folder(folder, name)


def test_links_of_the_cache_of_hugging_face(tmp_path):
    """Into the model's own part of it, and not into another model's."""
    (tmp_path / "secret").write_text("secret")
    cache = tmp_path / "models--owner--name"
    folder = cache / "snapshots" / "abc"
    for place in (folder, cache / "blobs", tmp_path / "models--owner--other"):
        place.mkdir(parents=True)
    (cache / "blobs" / "1a2b").write_text("blob")
    (folder / "good").symlink_to("../../blobs/1a2b")
    assert resolve_in_folder(folder, "good").read_text() == "blob"
    (tmp_path / "models--owner--other" / "blob").write_text("other")
    (folder / "bad").symlink_to("../../../models--owner--other/blob")
    (folder / "worse").symlink_to("../../../secret")
    for name in ("bad", "worse"):
        with pytest.raises(InputError, match=f"{name} must be a file inside"):
            resolve_in_folder(folder, name)
