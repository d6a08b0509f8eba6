"""Bodies of requests to TensorFlow Serving's REST API, and of answers."""

import json

import pytest
from rest_signatures import SIGNATURES

import keras_transformer as kt
from keras_transformer.serving.rest_json import predict_json


def nested(depth, value="dog"):
    for _ in range(depth):
        value = [value]
    return value


def answer(body):
    """Returns the answer to a request; `serving_default` doubles texts."""
    signatures = {**SIGNATURES, "serving_default": SIGNATURES["double"]}
    return predict_json(json.dumps(body).encode(), signatures, 100)


@pytest.mark.parametrize(
    ("name", "given", "expected"),
    [
        # A single output has no name.
        ("double", {"instances": ["a", "b"]}, {"predictions": ["aa", "bb"]}),
        ("double", {"inputs": ["a", "b"]}, {"outputs": ["aa", "bb"]}),
        ("total", {"inputs": ["a", "b"]}, {"outputs": 2}),
        ("flags", {"inputs": [True, False]}, {"outputs": [True, False]}),
        (
            "two",
            {"instances": [{"text": "a", "other": "b"}]},
            {"predictions": [{"joined": "ab", "y": "b"}]},
        ),
        (
            "options",
            {"inputs": {"text": ["ä"], "count": 2, "factor": 3}},
            {
                "outputs": {
                    "texts": [["ä", "ä"]],
                    "factors": [3.0],
                    "sources": ["ä"],
                }
            },
        ),
    ],
)
def test_formats(name, given, expected):
    assert json.loads(answer({"signature_name": name, **given})) == expected


def test_infinity_is_written_as_tensorflow_serving_does():
    body = {"signature_name": "infinite", "instances": ["a"]}
    assert answer(body) == '{"predictions": [-Infinity]}'


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({}, 'not one of "instances" and "inputs": []'),
        (
            {"instances": [], "inputs": []},
            'not one of "instances" and "inputs"',
        ),
        # As TensorFlow Serving: its tensorflow_serving/util/json_tensor.cc.
        ({"instances": "dog"}, "a list with values. Received: 'dog'"),
        ({"instances": []}, "instances must be a list with values. Received: "),
        ({"instances": ["a", {"text": "b"}]}, "must all be objects with text"),
        ({"instances": [{"text": "a", "x": "b"}]}, "text and nothing else"),
        (
            {"inputs": {"other": ["dog"]}},
            "inputs must have a value for each of",
        ),
        (
            {"instances": [{"x": "a"}]},
            "instances[0] must have a value for each",
        ),
        ({"instances": [1]}, "text must be of type string. Received: 1"),
        ({"instances": [None]}, "text must be of type string. Received: None"),
        (
            {"inputs": ["a", ["b"]]},
            "text must be of type string, or lists of the same length. Receiv",
        ),
        ({"inputs": "dog"}, "text must be of rank 1. Received: rank 0"),
        ({"inputs": [["dog"]]}, "text must be of rank 1. Received: rank 2"),
        *[
            ({key: nested(depth)}, "of rank 1. Received: rank ")
            for depth in (32, 33, 40, 63, 64, 65, 900)
            for key in ("inputs", "instances")
        ],
        ({"instances": [{"b64": "eA=="}]}, "instances[0] must have a value"),
        ({"instances": ["\ud800"]}, "text must be valid Unicode. Received: '"),
        (
            {"instances": ["ok", "x" * 101]},
            "at most 100 characters. Received: 1",
        ),
        (
            {"inputs": ["x"] * 33},
            "at most 32 texts. Received: 33 values of text",
        ),
        (
            {"signature_name": "x", "instances": []},
            "serving_default. Received: 'x'",
        ),
        (
            {"signature_name": 1, "instances": []},
            "must be one of options, doub",
        ),
        (
            {"signature_name": "total", "instances": ["a"]},
            'not one per instance. Ask with "inputs"',
        ),
        (
            {
                "signature_name": "options",
                "instances": [{"text": "a", "count": 1, "factor": 1}],
            },
            "count must be of rank 0. Received: rank 1",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 1.5, "factor": 1},
            },
            "count must be of type int32. Received: 1.5",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 2**40, "factor": 1},
            },
            "count must have values of int32",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 1, "factor": 1e39},
            },
            "factor must have values of float32. Received: 1e+39",
        ),
        (
            {
                "signature_name": "options",
                "inputs": {"text": ["a"], "count": 1, "factor": True},
            },
            "factor must be of type float32. Received: True",
        ),
        (
            {"signature_name": "flags", "inputs": [1]},
            "flag must be of type bool. Received: 1",
        ),
    ],
)
def test_bad_requests_get_a_message(body, message):
    with pytest.raises(kt.InputError) as error:
        answer(body)
    assert message in str(error.value) and len(str(error.value)) < 350


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "invalid JSON: "),
        (b"{", "invalid JSON: "),
        (b"\xff", "invalid JSON: "),
        (b"[" * 30_000, "invalid JSON: "),
        (b'["dog"]', "than an object: ['dog']"),
    ],
)
def test_bodies_that_are_no_json_object(content, message):
    with pytest.raises(kt.InputError, match="^A request must be") as error:
        predict_json(content, SIGNATURES, 100)
    assert message in str(error.value)
