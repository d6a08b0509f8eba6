"""Fixtures: traces of a search over tables by hand."""

import pytest
from tracing_fixtures import TABLE, TableTranslator

import keras_transformer as kt
from keras_transformer.plotting.tracing import trace


# Two hypotheses per step: a and b live on, then both end, b's end being too
# unlikely to be among the two best of step 2.
@pytest.fixture(scope="session")
def found():
    search = kt.BeamSearch(beam_size=2, alpha=1.0)
    return trace(TableTranslator(TABLE, search, 4), "<b>&")
