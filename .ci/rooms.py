"""Prints the lines of Python per room. Fails above the limits of the table."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def lines_per_room(root, table):
    """Returns `{room: (lines, limit)}`; a file counts in the innermost room."""
    rows = re.findall(r"^\| `(.+?)` \| ([\d,]+) \|$", table, re.M)
    limits = {room: int(limit.replace(",", "")) for room, limit in rows}
    lines = dict.fromkeys(limits, 0)
    for top in {room.partition("/")[0] for room in limits}:
        for path in (root / top).rglob("*.py*"):
            if path.suffix not in (".py", ".pyi"):
                continue
            parents = path.relative_to(root).parents
            room = next(str(x) for x in parents if str(x) in limits)
            lines[room] += len(path.read_text("utf-8").splitlines())
    return {room: (lines[room], limit) for room, limit in limits.items()}


if __name__ == "__main__":
    found = lines_per_room(ROOT, (ROOT / "CONTRIBUTING.md").read_text("utf-8"))
    for room, (lines, limit) in found.items():
        print(f"{room:30}{lines:7,} of {limit:,}")
    if full := [x for x, (lines, limit) in found.items() if lines > limit]:
        sys.exit(f"above the limit: {', '.join(full)}")
