"""Executes notebooks in place: python .ci/notebooks.py FILE..."""

import re
import sys
from pathlib import Path

import nbclient
import nbformat

_LOGGED = re.compile(
    r"^(WARNING: All log messages before absl|[IWE]0000 00:00:).*\n", re.M
)


def execute(notebook, folder):
    """Executes a notebook in a folder.

    Joins the 100-byte parts that a cell in bash prints, and drops the log of
    TensorFlow's import.
    """
    nbclient.NotebookClient(
        notebook,
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
