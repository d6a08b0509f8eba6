"""Languages and version of a package for Argos Translate."""

import datetime
from pathlib import Path

import pytest

from keras_transformer.export.argos_package import (
    check_package,
    package_metadata,
)
from keras_transformer.support.errors import InputError


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [
        ("a", "en", "de"),
        ("a.zip", "en", "de"),
        ("a.argosmodel", None, None),
        ("a.argosmodel", "en", None),
        ("a.argosmodel", "en", "../de"),
        ("a.argosmodel", "english", "de"),
    ],
)
def test_what_is_refused(name, source, target):
    codes = f"source={source!r}, target={target!r}"
    received = codes if name.endswith("argosmodel") else name
    with pytest.raises(InputError, match=f"Received: {received}"):
        check_package(Path(name), source, target)


def test_codes():
    for code in ("en", "deu", "pt_BR", "zh-Hant-TW"):
        check_package(Path("a.argosmodel"), code, "de")


def test_metadata():
    today = datetime.date.today()
    assert package_metadata("en", "xyz") == {
        "package_version": today.strftime("%Y.%m.%d"),
        "argos_version": "1.9.0",
        "from_code": "en",
        "from_name": "English",
        "to_code": "xyz",
        "to_name": "xyz",
        "type": "translate",
    }
