"""Folders of models: described, found, saved; their checkpoints."""
