"""Executes notebooks in place: python tests/helpers/notebooks.py FILE..."""

import re
import sys
from pathlib import Path

import nbclient
import nbformat

_LOGGED = re.compile(
    r"^(WARNING: All log messages before absl|[IWE]0000 00:00:).*\n", re.M
)


def execute(notebook, folder, timeout=None):
    """Executes a notebook in a folder.

    What a cell prints is stored as one output: a cell in bash prints it in
    parts of 100 bytes, which would be shown as lines. What TensorFlow logs when
    it is imported is left out.
    """
    nbclient.NotebookClient(
        notebook,
        timeout=timeout,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": folder}},
    ).execute()
    for cell in notebook.cells:
        for output in cell.get("outputs", ())[:]:
            if output.output_type == "stream":
                output.text = _LOGGED.sub("", output.text)
                if not output.text:
                    cell.outputs.remove(output)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        notebook = nbformat.read(name, as_version=4)
        execute(notebook, Path(name).parent)
        nbformat.write(notebook, name)
