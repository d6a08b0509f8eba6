"""Greedy and beam search, shown step by step."""

from keras_transformer.showing.tracing.steps import Trace, trace
from keras_transformer.showing.tracing.writing import (
    check_trace_path,
    save_trace,
)

__all__ = ["Trace", "check_trace_path", "save_trace", "trace"]
