"""Variants of pairs, which their numbers and a seed determine."""

import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Iterable, Iterator

from keras_transformer.support.errors import InputError
from keras_transformer.tasks import Task
from keras_transformer.text.tags import TAG
from keras_transformer.train.data.filters import Examined
from keras_transformer.train.recipe import Recipe


@dataclasses.dataclass(frozen=True)
class Augmentation:
    """How many variants are added to the pairs that are kept."""

    augment: float = 0.0  # share of the pairs with one in another case
    typing_errors: float = 0.0  # share of the pairs with one with errors
    seed: int = 0

    @classmethod
    def from_recipe(cls, recipe: Recipe) -> "Augmentation":
        """Returns that of a recipe; without variants its seed is no matter."""
        shares = recipe.augment, recipe.typing_errors
        return cls(*shares, recipe.seed) if any(shares) else OFF

    def check(self, task: Task) -> None:
        """Raises InputError if the targets of a task have no variants."""
        if not task.targets_are_text and self != OFF:
            raise InputError(
                "augment and typing_errors are for translation; a tree has the "
                f"words of its sentence. Received: {self} for {task.name}"
            )

    def add_variants(self, pairs: Iterable[Examined]) -> Iterator[Examined]:
        """Yields pairs, those without a reason with variants of their sources.

        A pair in capitals has a translation in capitals. Title case and lower
        case are of the source alone: few languages write titles so, and whoever
        types without capitals wants a proper translation.
        """
        if self == OFF:
            yield from pairs
            return
        numbers = itertools.count()
        for source, target, reason in pairs:
            yield source, target, reason
            if reason:
                continue
            draw = random.Random(f"{self.seed} {next(numbers)}").random
            tags = re.match(rf"({TAG}\s+)*", source)[0]
            text, variants = source[len(tags) :], []
            if draw() < self.augment:
                cases = (
                    (text.upper(), target.upper()),
                    (capitalize_words(text), target),
                    (text.lower(), target),
                )
                variants.append(cases[int(3 * draw())])
            if draw() < self.typing_errors:
                variants.append((misspell(text, draw), target))
            for variant in variants:
                if variant[0] != text:
                    yield tags + variant[0], variant[1], ""


OFF = Augmentation()


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
