import pytest

from keras_transformer.convert.settings_file import (
    SettingsFile,
    find_file,
    read_json,
)
from keras_transformer.support.errors import InputError

SETTINGS = SettingsFile(
    "a.json",
    {"count": 3, "rate": 0.5, "flag": True, "null": None, "list": []},
)


@pytest.mark.parametrize(
    ("field", "value_type", "value"),
    [
        ("count", int, 3),
        ("count", float, 3.0),
        ("rate", float, 0.5),
        ("flag", bool, True),
        ("list", list, []),
        ("absent", int, 7),
        ("null", int, 7),
    ],
)
def test_values(field, value_type, value):
    found = SETTINGS.get(field, value_type, 7)
    assert (type(found), found) == (value_type, value)


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
def test_wrong_types(field, value_type):
    expected = f"a.json .*'{field}'.* {value_type.__name__}"
    with pytest.raises(InputError, match=expected):
        SETTINGS.get(field, value_type)


def test_allowed_values():
    SETTINGS.check("count", [2, 3])
    SETTINGS.check("absent", [2])
    SETTINGS.check("list", [[]])
    SETTINGS.check("null", [False])
    with pytest.raises(InputError, match="2 or 'x'.*count=3"):
        SETTINGS.check("count", [2, "x"])


def test_damaged_json(tmp_path):
    (tmp_path / "a.json").write_text("{")
    with pytest.raises(InputError, match="a.json"):
        read_json(tmp_path, "a.json")


def test_files(tmp_path):
    (tmp_path / "a").touch()
    assert find_file(tmp_path, "a") == tmp_path / "a"
    assert find_file(tmp_path, "nothing", "a") == tmp_path / "a"
    for name in ("nothing", ".."):
        with pytest.raises(InputError, match=name):
            find_file(tmp_path, name)
