"""Folders of models: finds, reads and writes runs and their checkpoints."""
