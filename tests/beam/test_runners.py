"""What is reported when a pipeline does not succeed."""

import types

import pytest

from keras_transformer.beam.runners import make_pipeline, run_pipeline
from keras_transformer.support.errors import InputError


@pytest.mark.parametrize(
    ("reason", "expected"),
    [
        ("trace\nValueError: a\n\n", "Received: ValueError: a. Start the same"),
        ("trace\nx.InputError: bad line", "Received: x.InputError: bad line$"),
        ("", "Received: Failure. Start"),
    ],
)
def test_a_failure_of_any_class_is_reported(reason, expected):
    class Failure(Exception):
        pass

    def run():
        raise Failure(reason)

    with pytest.raises(InputError, match=f"The pipeline failed. {expected}"):
        run_pipeline(types.SimpleNamespace(run=run))


def test_a_job_that_was_cancelled_is_no_success():
    result = types.SimpleNamespace(wait_until_finish=lambda: "CANCELLED")
    pipeline = types.SimpleNamespace(run=lambda: result)
    with pytest.raises(InputError, match="ended. Received: CANCELLED. Start"):
        run_pipeline(pipeline)


def test_another_runner_has_the_options_that_are_given():
    pipeline = make_pipeline(["--runner=PortableRunner", "--job_name=mine"])
    assert type(pipeline.runner).__name__ == "PortableRunner"
    options = pipeline.options.get_all_options(drop_default=True)
    assert options["job_name"] == "mine"
    assert "direct_num_workers" not in options
