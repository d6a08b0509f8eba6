"""Errors, described fields, files, imports and messages, for all parts."""
