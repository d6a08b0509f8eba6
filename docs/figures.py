"""Lists measured figures that are older than what they measure.

    python docs/figures.py

`figures.ini` has a section per group of figures. A group is never wrong for
being listed: the change may not matter. The list says what to measure again.
"""

import configparser
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


def changes(commit: str, paths: str) -> list[str] | None:
    """Returns the commits after one that change paths, newest first.

    None without the commit: a shallow clone or a source distribution.
    """
    return git(
        "log", "--no-merges", "--format=%h", f"{commit}..HEAD", "--",
        *paths.split(),
    )  # fmt: skip


def report() -> str:
    """Returns the groups whose code has changed since, a line or two each."""
    lines, unknown, current = [], [], 0
    measured = {n: g for n, g in groups().items() if "recorded" in g}
    for name, group in measured.items():
        found = changes(group["recorded"], group["paths"])
        if found is None:
            unknown.append(name)
        elif found:
            lines += [
                f"{name}: recorded at {group['recorded']}, {len(found)} "
                f"changes since, the last {found[0]}",
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
