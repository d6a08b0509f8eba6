import pytest

from keras_transformer.inference.records import Translation
from keras_transformer.tasks import ParsingTask, TranslationTask


@pytest.mark.parametrize(
    ("source", "output", "differ"),
    [
        ("1,299.99 dollars at 5 pm", "Um 5 Uhr 1.299,99 Dollar", False),
        ("030 123456", "030/12 34 56", False),
        ("030 123456", "035656", True),
        ("two", "2", True),
        ("It has 2.", "Es hat zwei.", True),
        ("11", "1", True),
        ("١٢ ３ m²", "12 3 m2", False),  # digits of any script
        (">>es_419<< <b1> 5", "5", False),
        ("", "", False),
    ],
)
def test_numbers_that_differ(source, output, differ):
    assert TranslationTask().numbers_differ(source, output) is differ
    assert ParsingTask().numbers_differ(source, output) is False


def test_columns_are_those_of_the_task():
    translation = Translation(["a", ""], [-1.0, -float("inf")], False, True)
    columns = {"scores": [-1.0]}
    columns |= {"source_truncated": False, "at_length_limit": True}
    found = TranslationTask().columns(translation)
    assert found == {"translations": ["a"], **columns, "numbers_differ": False}
    found = ParsingTask().columns(translation)
    assert found == {"trees": ["a"], **columns, "repaired": False}
