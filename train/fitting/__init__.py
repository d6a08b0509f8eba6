"""Fits the model of a run: the loop, its callbacks, the files they write."""
