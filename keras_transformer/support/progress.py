"""Progress bars on standard error, which only a terminal shows."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


def progress_bar(
    iterable: Iterable | None = None, is_shown: bool = True, **options: Any
) -> "tqdm":
    """Returns a bar of tqdm, hidden if stderr is not a terminal.

    The environment variable `TQDM_DISABLE`, which `--quiet` sets, hides all.
    """
    from tqdm import tqdm

    is_hidden = not is_shown or bool(os.environ.get("TQDM_DISABLE"))
    return tqdm(iterable, disable=is_hidden or None, **options)
