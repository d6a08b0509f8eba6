"""What Argos Translate knows of a package: two languages, and a version.

Without TensorFlow: the command line checks both before it is imported.
"""

import datetime
import re
from pathlib import Path

from keras_transformer.support.errors import InputError

# What the programs call a language; others by their codes.
_LANGUAGES = """
ar Arabic, bg Bulgarian, ca Catalan, cs Czech, da Danish, de German, el Greek,
en English, es Spanish, et Estonian, fi Finnish, fr French, he Hebrew,
hi Hindi, hu Hungarian, id Indonesian, it Italian, ja Japanese, ko Korean,
lt Lithuanian, lv Latvian, nl Dutch, pl Polish, pt Portuguese, ro Romanian,
ru Russian, sk Slovak, sl Slovenian, sv Swedish, tr Turkish, uk Ukrainian,
vi Vietnamese, zh Chinese
"""
_NAMES = dict(entry.split() for entry in _LANGUAGES.split(","))
_CODE = re.compile("[A-Za-z]{2,3}([_-][A-Za-z0-9]+)*")  # such as en, pt_BR


def check_package(path: Path, source: str | None, target: str | None) -> None:
    """Checks the suffix of a package, and the codes of its two languages."""
    if path.suffix != ".argosmodel":
        raise InputError(
            "A package for Argos Translate is a file whose name ends in "
            f".argosmodel. Received: {path}"
        )
    if not all(code and _CODE.fullmatch(code) for code in (source, target)):
        raise InputError(
            "Argos Translate chooses a model by two language codes, such as en "
            f"and de. Received: source={source!r}, target={target!r}. Train or "
            "import the model with --source and --target."
        )


def package_metadata(source: str, target: str) -> dict[str, str]:
    """Returns the content of a package's metadata.json."""
    return {
        # No version of the packages that Argos Translate downloads is as high:
        # they never replace this one.
        "package_version": f"{datetime.date.today():%Y.%m.%d}",
        "argos_version": "1.9.0",  # the oldest one that the format is for
        "from_code": source,
        "from_name": _NAMES.get(source, source),
        "to_code": target,
        "to_name": _NAMES.get(target, target),
        "type": "translate",
    }
