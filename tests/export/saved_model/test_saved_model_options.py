import pytest

from keras_transformer.export.saved_model.saved_model_options import (
    SIGNATURE_INPUTS,
    check_kit,
    check_signatures,
    signature_names,
)
from keras_transformer.support.errors import InputError
from keras_transformer.tasks import ParsingTask, TranslationTask


def test_signatures_of_tasks():
    assert signature_names(TranslationTask()) == list(SIGNATURE_INPUTS)
    of_trees = signature_names(ParsingTask())
    missing = {"translate_prefix", "score", "detokenize"}
    assert set(SIGNATURE_INPUTS) - set(of_trees) == missing
    check_signatures(["greedy", "serving_default"], ParsingTask())
    for names in (["greedy"], ["serving_default", "score"]):
        with pytest.raises(InputError, match="must contain serving_default"):
            check_signatures(names, ParsingTask())


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
