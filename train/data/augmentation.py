"""Variants of pairs, which their numbers and a seed determine."""

import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task
from keras_transformer.text.tags import TAG
from keras_transformer.train.data.filters import Examined
from keras_transformer.train.recipe import Recipe


def check_variants(recipe: Recipe, task: Task) -> None:
    """Raises InputError if the targets of a task have no variants."""
    if has_variants(recipe) and not task.targets_are_text:
        raise InputError(
            "augment and typing_errors are for translation; a tree has the "
            f"words of its sentence. Received: augment={recipe.augment}, "
            f"typing_errors={recipe.typing_errors} for {task.name}"
        )


def has_variants(recipe: Recipe) -> bool:
    """Returns whether a recipe asks for variants."""
    return recipe.augment > 0 or recipe.typing_errors > 0


def add_variants(
    pairs: Iterable[Examined], recipe: Recipe
) -> Iterator[Examined]:
    """Yields pairs, those without a reason with variants of their sources.

    A pair in capitals has a translation in capitals. Title case and lower case
    are of the source alone: few languages write titles so, and whoever types
    without capitals wants a proper translation.
    """
    if not has_variants(recipe):
        yield from pairs
        return
    numbers = itertools.count()
    for source, target, reason in pairs:
        yield source, target, reason
        if reason:
            continue
        draw = random.Random(f"{recipe.seed} {next(numbers)}").random
        tags = re.match(rf"({TAG}\s+)*", source)[0]
        text, variants = source[len(tags) :], []
        if draw() < recipe.augment:
            cases = (
                (text.upper(), target.upper()),
                (capitalize_words(text), target),
                (text.lower(), target),
            )
            variants.append(cases[int(3 * draw())])
        if draw() < recipe.typing_errors:
            variants.append((misspell(text, draw), target))
        for variant in variants:
            if variant[0] != text:
                yield tags + variant[0], variant[1], ""


def capitalize_words(text: str) -> str:
    """Returns a text with a capital at the start of each word."""
    return " ".join(word[:1].title() + word[1:] for word in text.split(" "))


def misspell(text: str, draw: Callable[[], float]) -> str:
    """Returns a text with a typing error, and one more for each 40 characters.

    Of two letters the first is missing or doubled, or they change places.
    `draw` returns random numbers in [0, 1).
    """
    for _ in range(1 + len(text) // 40):
        places = [n for n in range(len(text) - 1) if text[n : n + 2].isalpha()]
        if places:
            place = places[int(draw() * len(places))]
            first, second = text[place : place + 2]
            errors = second, first + first + second, second + first
            text = text[:place] + errors[int(3 * draw())] + text[place + 2 :]
    return text
