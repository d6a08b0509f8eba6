import pytest

from keras_transformer.export.saved_model.saved_model_options import (
    check_kit,
    check_signatures,
)
from keras_transformer.support.errors import InputError


def test_names_of_signatures():
    check_signatures(["score", "serving_default"])
    for names in (["score"], ["serving_default", "scores"]):
        with pytest.raises(InputError, match="must contain serving_default"):
            check_signatures(names)


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("models/en-de/one", "named by a version number"),
        ("en de/1", "must consist of letters, digits"),
        ("schläft/1", "must consist of letters, digits"),
    ],
)
def test_names_of_a_serving_kit(path, message):
    check_kit("models/en-de/1")
    with pytest.raises(InputError, match=message):
        check_kit(path)
