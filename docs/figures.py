"""Lists measured figures that are older than what they measure.

    python docs/figures.py

`figures.ini` has a section per group of figures. A group is never wrong for
being listed: the change may not matter. The list says what to measure again.
"""

import ast
import configparser
import functools
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]


def groups() -> dict[str, configparser.SectionProxy]:
    """Returns the groups of `figures.ini`, by page and section."""
    parser = configparser.ConfigParser()
    parser.read_string((ROOT / "docs/figures.ini").read_text("utf-8"))
    return {name: parser[name] for name in parser.sections()}


def git(*arguments: str) -> list[str] | None:
    """Returns the lines that git prints, or None if it fails."""
    try:
        found = subprocess.run(
            ["git", *arguments], cwd=ROOT, capture_output=True, text=True
        )
    except FileNotFoundError:
        return None
    return None if found.returncode else found.stdout.splitlines()


def changed_files(commit: str, paths: str) -> list[str] | None:
    """Returns the files whose code differs from that of a commit.

    Comments, docstrings and the messages of errors do not count. None without
    the commit: a shallow clone or a source distribution.
    """
    names = git(
        "diff", "--name-only", "--no-renames", commit, "HEAD", "--",
        *paths.split(),
    )  # fmt: skip
    return names and [x for x in names if _code(commit, x) != _code("HEAD", x)]


@functools.cache
def _code(commit: str, name: str) -> str | None:
    """Returns what a file computes, as text; None if it does not exist."""
    lines = git("show", f"{commit}:{name}")
    if lines is None or not name.endswith(".py"):
        return lines and "\n".join(lines)
    tree = ast.parse("\n".join(lines))
    for node in ast.walk(tree):
        if isinstance(node, ast.Raise):
            node.exc = node.cause = None
        elif isinstance(node, ast.Expr) and isinstance(
            node.value, ast.Constant
        ):
            node.value = ast.Constant(None)
    return ast.dump(tree)


def report() -> str:
    """Returns the groups whose code has changed since, two lines each."""
    lines, unknown, current = [], [], 0
    measured = {n: g for n, g in groups().items() if "recorded" in g}
    for name, group in measured.items():
        found = changed_files(group["recorded"], group["paths"])
        if found is None:
            unknown.append(name)
        elif found:
            more = f" and {len(found) - 3} more" if len(found) > 3 else ""
            lines += [
                f"{name}: recorded at {group['recorded']}; since then changed: "
                f"{', '.join(found[:3])}{more}",
                f"    {group['command']}",
            ]
        else:
            current += 1
    if unknown:
        lines.append(
            f"Not checked, since the history lacks their commits (a shallow "
            f"clone or no clone): {', '.join(unknown)}"
        )
    return "\n".join([*lines, f"{current} of {len(measured)} are current."])


if __name__ == "__main__":
    print(report())
