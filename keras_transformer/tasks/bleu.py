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

# SacreBLEU's tokenizers of languages whose words spaces do not separate. Of
# those with "char" it knows no words.
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

    BLEU, chrF and TER come from sacreBLEU, with the signature that makes
    them comparable between systems and papers: it fixes the tokenization. It
    is returned as `bleu_signature` and the like. BLEU and chrF run from 0 to
    100; of TER, the errors per 100 words, less is better.

    The target language, such as `"de"` or `"zh_Hant"`, chooses the
    abbreviations that Moses keeps whole, or, where spaces do not separate
    words, sacreBLEU's tokenizer, which may need a package of its own. Where it
    has none, BLEU is of characters.
    """
    language = resolve_language(target)
    tokenizer = _TOKENIZERS.get(language)
    if tokenizer == "char":
        _warn(
            f"sacreBLEU does not know the words of {language}: BLEU is of "
            "characters."
        )
    make = {
        "bleu": lambda: BLEU(tokenize=tokenizer),
        "chrf": CHRF,
        "ter": TER,
    }
    try:
        scorers = {name: make[name]() for name in metrics if name in make}
    except (ImportError, RuntimeError) as error:
        raise InputError(
            "sacreBLEU needs another package to split this language into "
            f"words. Received: target={target!r}. Install it with: "
            f'pip install "sacrebleu[{language}]"'
        ) from error
    scores: dict[str, Any] = {}
    for name in metrics:
        if name == "tokenized_bleu":
            scores[name] = tokenized_bleu(hypotheses, references, target)
            scores[f"{name}_signature"] = (
                f"tok:{tokenizer}, not as in the paper"
                if tokenizer
                else "as in the paper"
            )
        else:
            scorer = scorers[name]
            scores[name] = scorer.corpus_score(hypotheses, [references]).score
            # A signature is known after the first score only.
            scores[f"{name}_signature"] = str(scorer.get_signature())
    return scores


def resolve_language(code: str) -> str:
    """Returns the code of a language: `"zh"` for `"zh_Hant"`, `"cmn"`, `"chi"`.

    A code that is none is returned as it is.
    """
    try:
        tag = langcodes.standardize_tag(code, macro=True)
    except langcodes.LanguageTagError:
        return code
    return langcodes.Language.get(tag).language or code


def tokenized_bleu(
    hypotheses: Sequence[str], references: Sequence[str], target: str = "de"
) -> float:
    """BLEU on Moses tokens with split compounds, as the paper computed it.

    The paper's Table 2 has it; it is often one or two points away from
    sacreBLEU on the same translations. The steps of Tensor2Tensor's
    `get_ende_bleu` script, applied to both sides: Moses' `tokenizer.perl` for
    the target language (without its option to split dashes; with the English
    rules for a language that it does not know), or sacreBLEU's tokenizer where
    spaces do not separate words, then every hyphen inside a word made a token
    of its own, then `multi-bleu.perl`: case-sensitive corpus BLEU over the
    tokens, up to 4 words, without smoothing.

    Unlike sacreBLEU, compounds count as several words, and a corpus in which
    no 4 words in a row are right scores 0. Quotation marks are left as they
    are: to repeat the 27.3 and 28.4 of Table 2 to the digit, straighten those
    of both sides first, as the authors' reference had them.
    """
    # Half a second to import, which translating and exporting do without.
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

    As in the original script, of two hyphens around a single character only
    the first is split.
    """
    return _COMPOUND.sub(r"\1 ##AT##-##AT## \2", sentence)
