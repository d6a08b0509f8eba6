"""Scores of translations: BLEU, chrF, TER, and the paper's tokenized BLEU."""

import functools
import logging
import re
from collections.abc import Sequence
from typing import Any

import langcodes
from sacrebleu.metrics import BLEU, CHRF, TER

from keras_transformer.support.errors import InputError

_warn = functools.cache(logging.getLogger(__name__).warning)  # once

# SacreBLEU's tokenizers for languages without spaces between words. "char":
# it cannot find the words.
_TOKENIZERS = {
    **dict.fromkeys(("zh", "yue", "wuu", "nan", "hak", "gan", "lzh"), "zh"),
    "ja": "ja-mecab",
    "ko": "ko-mecab",
    **dict.fromkeys(("th", "lo", "km", "my", "bo", "dz"), "char"),
}
# A hyphen between two characters that are not spaces.
_COMPOUND = re.compile(r"(\S)-(\S)")


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    target: str,
    metrics: Sequence[str],
) -> dict[str, Any]:
    """Scores the translations of a corpus, as `Task.scores` does.

    BLEU, chrF and TER come from sacreBLEU, each with the signature
    (`bleu_signature` etc.) that makes it comparable. BLEU and chrF run from 0
    to 100; TER counts errors per 100 words: less is better.

    The target language, such as `"de"` or `"zh_Hant"`, chooses Moses'
    abbreviations or, without spaces between words, sacreBLEU's tokenizer,
    which may need a separate package. If there is none, BLEU compares
    characters.
    """
    language = resolve_language(target)
    tokenizer = _TOKENIZERS.get(language)
    if tokenizer == "char":
        _warn(
            f"sacreBLEU cannot split {language} into words: BLEU compares "
            "characters."
        )
    make = {"bleu": lambda: BLEU(tokenize=tokenizer), "chrf": CHRF, "ter": TER}
    try:
        scorers = {name: make[name]() for name in metrics if name in make}
    except (ImportError, RuntimeError) as error:
        raise InputError(
            "sacreBLEU needs a package to split this language into words. "
            f"Received: target={target!r}. Install it with: "
            f'pip install "sacrebleu[{language}]"'
        ) from error
    scores: dict[str, Any] = {}
    for name in metrics:
        if name == "tokenized_bleu":
            scores[name] = tokenized_bleu(hypotheses, references, target)
            prefix = f"tok:{tokenizer}, not " if tokenizer else ""
            scores[f"{name}_signature"] = f"{prefix}as in the paper"
        else:
            scorer = scorers[name]
            scores[name] = scorer.corpus_score(hypotheses, [references]).score
            # The signature is complete after the first score only.
            scores[f"{name}_signature"] = str(scorer.get_signature())
    return scores


def resolve_language(code: str) -> str:
    """Returns a language's main code: `"zh"` for `"zh_Hant"` and `"cmn"`.

    An unknown code is returned unchanged.
    """
    try:
        tag = langcodes.standardize_tag(code, macro=True)
    except langcodes.LanguageTagError:
        return code
    return langcodes.Language.get(tag).language or code


def tokenized_bleu(
    hypotheses: Sequence[str], references: Sequence[str], target: str = "de"
) -> float:
    """BLEU on Moses tokens with split compounds, as in the paper's Table 2.

    It often differs from sacreBLEU by one or two points. The steps are those
    of Tensor2Tensor's `get_ende_bleu` script, for both sides: Moses'
    `tokenizer.perl` for the target language (without splitting dashes; with
    English rules for an unknown language), or sacreBLEU's tokenizer for a
    language without spaces; then each hyphen inside a word becomes a token;
    then `multi-bleu.perl`: case-sensitive corpus BLEU, up to 4 words, without
    smoothing. A corpus without 4 correct words in a row scores 0.

    Quotation marks are kept: to reproduce the 27.3 and 28.4 of Table 2
    exactly, straighten them on both sides, as in the authors' reference.
    """
    # Takes half a second to import.
    from sacremoses import MosesTokenizer

    language = resolve_language(target)
    tokenizer = _TOKENIZERS.get(language)
    if tokenizer:
        tokenize = BLEU(tokenize=tokenizer).tokenizer
    else:
        moses = MosesTokenizer(lang=language)
        tokenize = functools.partial(moses.tokenize, return_str=True)

    def split(sentence: str) -> str:
        return split_compounds(tokenize(sentence))

    # `force` silences the advice against scoring tokenized text.
    bleu = BLEU(tokenize="none", smooth_method="none", force=True)
    references = [list(map(split, references))]
    return bleu.corpus_score(list(map(split, hypotheses)), references).score


def split_compounds(sentence: str) -> str:
    """Returns `"a rich-text box"` as `"a rich ##AT##-##AT## text box"`.

    As in the original script, `"a-b-c"` is split at the first hyphen only.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", sentence)
