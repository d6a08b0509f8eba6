"""Executes notebooks in place: python tests/support/notebooks.py FILE..."""

import sys
from pathlib import Path

import nbclient
import nbformat


def execute(notebook, folder, timeout=None):
    """Executes a notebook in a folder.

    What a cell prints is stored as one output: a cell in bash prints it in
    parts of 100 bytes, which would be shown as lines.
    """
    nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    ).execute()


if __name__ == "__main__":
    for name in sys.argv[1:]:
        notebook = nbformat.read(name, as_version=4)
        execute(notebook, Path(name).parent)
        nbformat.write(notebook, name)
