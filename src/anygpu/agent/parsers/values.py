"""Recognise numbers and metric names in the form in which training scripts print them."""

from __future__ import annotations

import re

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

NUMBER = (
    r"[-+]?(?:(?:\d{1,40}(?:\.\d{0,40})?|\.\d{1,40})(?:[eE][-+]?\d{1,4})?"
    r"|[nN][aA][nN]|[iI][nN][fF](?:inity)?)"
)
# What may follow a number: not a letter (30ms), a colon (10:30), a slash (3/10) or another point (10.0.0.1).
NUMBER_ENDS = r"(?=$|[\s,;|)\]}%>('\"]|\.(?:\s|$))"

_SPLIT = r"(?:train(?:ing)?|val(?:id(?:ation)?)?|test(?:ing)?|eval(?:uation)?|dev)"
_QUALIFIER = r"(?:avg\.?|average|mean|total|running|best|learning|grad(?:ient)?|lm)"
_SCALAR = r"(?:(?:tensor|np\.float(?:16|32|64)|array)\(\[?)?"

_PAIR = re.compile(
    r"(?<![\w@./?&-])(?:(?P<split>%s)(?:[ _]|:\s))?(?P<qualifier>%s[ _])?"
    r"(?P<name>[A-Za-z_][\w@./-]{0,79}(?:\(\w{1,12}\))?)['\"]?"
    r"\s{0,3}[:=]\s{0,8}['\"]?%s(?P<number>%s)%s" % (_SPLIT, _QUALIFIER, _SCALAR, NUMBER, NUMBER_ENDS),
    re.IGNORECASE,
)
_SPACED_PAIR = re.compile(
    r"(?<![\w@./?&-])(?:(?P<split>%s)[ _])?(?P<name>[A-Za-z_][\w@]{0,40})\s{1,4}(?P<number>%s)%s"
    % (_SPLIT, NUMBER, NUMBER_ENDS),
    re.IGNORECASE,
)


def _words(*lines: str) -> frozenset[str]:
    return frozenset(" ".join(lines).split())


_METRIC_WORDS = _words(
    "loss acc accuracy err error mse rmse mae mape auc auroc f1 precision recall map iou miou dice bleu "
    "rouge perplexity ppl reward score kl elbo nll bpb bpc psnr ssim fid wer cer r2 entropy logloss ndcg mrr "
    "inertia objective sensitivity specificity top1 top5 mfu"
)
_SETTING_WORDS = _words("lr learning_rate norm grad_norm momentum wd weight_decay")
_NOT_METRICS = _words(
    "time eta elapsed duration remaining sec secs seconds ms date data_time timestamp clock port pid ppid "
    "rank local_rank gpu gpus cuda device seed version v_num line id uid size batch_size num_workers workers "
    "world_size mem memory max_mem epoch epochs step steps iter iters iteration iterations global_step batch "
    "batches round total progress percent pct speed throughput samples exit_code code status http level"
)
_NOT_METRIC_ENDS = (
    "_time",
    "_seconds",
    "_sec",
    "_ms",
    "/time",
    "_id",
    ".py",
    ".cc",
    ".cpp",
    ".cu",
    ".c",
    ".h",
)
_FIRST_WORD = re.compile(r"\w")
_LETTERS = re.compile(r"[a-z]+")
_WORDS = re.compile(r"[a-z][a-z0-9]*|[0-9]+")


class Pair:
    """A name and its value, found in a line of text."""

    __slots__ = ("end", "literal", "name", "split", "start")

    def __init__(self, name: str, split: str, literal: str, start: int, end: int) -> None:
        self.name, self.split, self.literal, self.start, self.end = name, split, literal, start, end

    @property
    def value(self) -> float:
        return float(self.literal)

    @property
    def is_whole_number(self) -> bool:
        return self.literal.lstrip("+-").isdigit()

    @property
    def is_metric(self) -> bool:
        return is_metric(self.name)

    @property
    def is_surely_metric(self) -> bool:
        """Whether the name is certainly a metric: true for `val_loss`, false for the setting `loss_weight`."""
        words = [word for word in _LETTERS.findall(self.name.lower()) if len(word) > 1] or [""]
        return not self.is_whole_number and any(
            word in _METRIC_WORDS for word in (words[-1], self.name.lower().rpartition("_")[2])
        )


def pairs(text: str) -> list[Pair]:
    """Return the `name=value` and `name: value` pairs in a line, except times, sizes and counters.

    In `train loss: 0.2 acc: 0.9 | val loss: 0.3 acc: 0.8`, each `acc` belongs to the split (train, val)
    before it.
    """
    return list(_inherit_split(_find_pairs(text)))


def spaced_pairs(text: str) -> list[Pair]:
    """Return pairs of a well-known name and a value, such as `loss 2.4` in `iter 10: loss 2.4, time 30ms`."""
    return list(_inherit_split(_find_spaced_pairs(text)))


def starts_with_pair(text: str) -> bool:
    start = _FIRST_WORD.search(text)
    return bool(start and _PAIR.match(text, start.start()))


def is_metric(name: str) -> bool:
    words = _WORDS.findall(name.lower())
    return any(word in _METRIC_WORDS or word.rstrip("0123456789") in _METRIC_WORDS for word in words)


def is_setting(name: str) -> bool:
    return name.lower() in _SETTING_WORDS


def is_noise(name: str) -> bool:
    lowered = name.lower().strip("_")
    return lowered in _NOT_METRICS or lowered.endswith(_NOT_METRIC_ENDS)


def normalize_name(name: str) -> str:
    """Convert names like `Loss`, `Train Loss` and `LR` to lower case; keep mixed case such as `mAP50`."""
    name = "_".join(name.split())
    plain = all(word.islower() or word.isupper() or word.istitle() for word in re.findall(r"[A-Za-z]+", name))
    return name.lower() if plain else name


def _find_pairs(text: str) -> Iterator[Pair]:
    for match in _PAIR.finditer(text):
        name = normalize_name((match["qualifier"] or "").replace(".", "") + match["name"])
        if not is_noise(name):
            split = (match["split"] or "").lower()
            yield Pair(name, split, match["number"], match.start(), match.end())


def _find_spaced_pairs(text: str) -> Iterator[Pair]:
    for match in _SPACED_PAIR.finditer(text):
        name = normalize_name(match["name"])
        if is_metric(name) or is_setting(name):
            yield Pair(name, (match["split"] or "").lower(), match["number"], match.start(), match.end())


def _inherit_split(found: Iterator[Pair]) -> Iterator[Pair]:
    split = ""
    for pair in found:
        split = pair.split or split
        if split and (pair.split or pair.is_metric):
            pair.name = f"{split}_{pair.name}"
        yield pair
