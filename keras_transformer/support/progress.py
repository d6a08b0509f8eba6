"""Progress bars on standard error, if it is a terminal."""

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from tqdm import tqdm


def progress_bar(
    iterable: Iterable | None = None, is_shown: bool = True, **options: Any
) -> "tqdm":
    """Returns a bar of tqdm. The variable `TQDM_DISABLE` hides all bars."""
    from tqdm import tqdm

    is_hidden = not is_shown or bool(os.environ.get("TQDM_DISABLE"))
    return tqdm(iterable, disable=is_hidden or None, **options)
