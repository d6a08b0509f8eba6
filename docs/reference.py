"""Prints the index of the API reference: signatures and first sentences.

python docs/reference.py > docs/api/README.md
"""

import inspect
import pkgutil
import re
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parent / "api"
HEAD = """# API reference

Signatures and first sentences, made by `python docs/reference.py`. `make docs`
builds the pages with everything, and `help(name)` prints it. `kt` is
`keras_transformer`.
"""


def page() -> str:
    """Returns the index as Markdown."""
    parts = [HEAD]
    for path in sorted(PAGES.glob("[a-z]*.md")):
        text = path.read_text("utf-8")
        parts.append(f"## [{text.splitlines()[0][2:]}]({path.name})\n")
        for name in re.findall("^::: (.*)$", text, re.M):
            parts += _entries(name, pkgutil.resolve_name(name))
        parts.append("")
    return "\n".join(parts).rstrip() + "\n"


def _entries(path: str, found: Any) -> list[str]:
    if not inspect.ismodule(found):
        return [_entry(path, found)]
    names = getattr(found, "__all__", None) or [
        name
        for name, member in vars(found).items()
        if getattr(member, "__module__", "") == path and name[0] != "_"
    ]
    members = {name: getattr(found, name) for name in sorted(names)}
    return [
        _entry(f"{path}.{name}", member)
        for name, member in members.items()
        # Not an alias of a type, which has neither signature nor docstring.
        if inspect.isclass(member) or inspect.isroutine(member)
    ]


def _entry(path: str, member: Any) -> str:
    try:
        parameters = inspect.signature(member).parameters.values()
    except ValueError:  # a subclass of str
        parameters = ()
    arguments = ", ".join(
        str(p.replace(annotation=p.empty, default=p.empty))
        + ("" if p.default is p.empty else "=" + _default(p.default))
        for p in parameters
    )
    first, _, _ = (inspect.getdoc(member) or "").partition("\n\n")
    sentence = re.split(r"(?<=\.)\s", " ".join(first.split()))[0]
    name = path.replace("keras_transformer", "kt")
    return f"- `{name}({arguments})`: {sentence}"


def _default(value: Any) -> str:
    plain = value is None or isinstance(value, bool | int | float | str)
    return repr(value) if plain else "..."


if __name__ == "__main__":
    print(page(), end="")
