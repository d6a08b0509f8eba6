"""Files of settings, and their fields."""

import pytest

from keras_transformer.convert.settings_file import (
    SettingsFile,
    find_file,
    read_json,
    read_yaml,
)
from keras_transformer.support.errors import InputError

SETTINGS = SettingsFile(
    "a.json",
    {
        "count": 3,
        "rate": 0.5,
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
    for name in ("absent", "null"):
        assert SETTINGS.get(name, value_type, 7) == 7


@pytest.mark.parametrize(
    ("field", "value_type"),
    [
        ("absent", int),
        ("null", int),
        ("rate", int),
        ("flag", int),
        ("flag", float),
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
    SETTINGS.check("null", False)


@pytest.mark.parametrize("values", [None, [], "text"])
def test_settings_are_a_mapping(values):
    with pytest.raises(InputError, match="a.yml"):
        SettingsFile("a.yml", values)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "a.json"),
        ("[]", "a.json.*type list"),
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
        # No objects of Python.
        "a: !!python/name:os.system",
        "a: !!python/object/apply:os.system [ls]",
        "\x01",
    ],
)
def test_yaml_that_is_refused(content):
    with pytest.raises(InputError, match="a.yml"):
        read_yaml(content.encode(), "a.yml")


def test_files(tmp_path):
    (tmp_path / "a").write_text("a")
    assert find_file(tmp_path, "a") == tmp_path / "a"
    for name in ("nothing", ".."):
        with pytest.raises(InputError, match=f"file {name}"):
            find_file(tmp_path, name)
