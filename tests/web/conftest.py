"""The page that `serve` starts, of a trained model."""

import pytest
from web_server import served


@pytest.fixture(scope="session")
def address(translator):
    with served(translator) as address:
        yield address
