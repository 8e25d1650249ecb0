"""How a recovery can end, and the errors and warnings built from it.

Every cause is an enum member that carries two texts: what it means and what to do about it. Reports,
exceptions and the command line print these texts; nothing else in the package words them again.
"""

from __future__ import annotations

import re
from enum import Enum

__all__ = [
    "BadInputError",
    "BadInputTypeError",
    "ClusterError",
    "DataWarning",
    "FileFormatError",
    "Guarantee",
    "Outcome",
    "PlantedError",
    "RecoveryError",
    "RecoveryWarning",
    "shown",
]

# What a terminal obeys instead of showing it: control characters, halves of characters, and marks for the direction of text.
_HIDDEN = re.compile("[\x00-\x1f\x7f-\x9f\ud800-\udfff\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff]")


class Outcome(Enum):
    """How a recovery ended; each member carries its meaning and an advice."""

    RECOVERED = (
        "This is the planted network; the certificate is in the evidence.",
        "Nothing to do. The evidence table shows what was checked and with which numbers.",
    )
    FITTED = (
        "A network that fits the data well, but nothing shows that it is the planted one.",
        "Use it for prediction. To claim the network itself, collect more samples, lower the noise, "
        "or check that the data come from a network of this kind.",
    )
    TOO_FEW_SAMPLES = (
        "There are fewer samples than the network has degrees of freedom to determine.",
        "Collect more samples (the evidence says how many are needed) or ask for fewer hidden units.",
    )
    NOT_IDENTIFIABLE = (
        "Several different networks produce exactly these data.",
        "Collect samples on which the named unit is sometimes on and sometimes off, "
        "or accept the network as a predictor on inputs like these.",
    )
    ASSUMPTION_FAILED = (
        "The data break an assumption of the method.",
        "Use a method that does not need it: `planted.methods()` lists what each one requires.",
    )
    ILL_CONDITIONED = (
        "The decisive numbers are too close to zero to tell signal from rounding or noise.",
        "Rescale or decorrelate the inputs, or collect more samples.",
    )
    STOPPED_EARLY = (
        "The search ended before it found a network that explains the data.",
        "Allow more restarts or time, or give the number of hidden units if you know it.",
    )
    SOLVER_FAILED = (
        "A numerical solver broke down.",
        "Please report the data shapes and the evidence; a different `random_state` may help.",
    )

    def __init__(self, meaning: str, advice: str) -> None:
        self.meaning = meaning
        self.advice = advice


class Guarantee(Enum):
    """What was proved for the conditions that were met; the value says it in words."""

    EXACT = (
        "exact: the noiseless samples determine the network, with samples to spare; the detail says whether uniqueness is "
        "proved among all networks of this width or among those nearby"
    )
    ASYMPTOTIC = (
        "asymptotic: consistent as samples grow; parameters follow the stated standard errors, and units too weak to show "
        "above the noise are not excluded"
    )
    HEURISTIC = "heuristic: judged by its fit and local checks alone"
    NONE = "none"


class PlantedError(Exception):
    """Base class of every error raised on purpose by planted."""


class BadInputError(PlantedError, ValueError):
    """Values or shapes the library cannot work with."""


class BadInputTypeError(PlantedError, TypeError):
    """Kinds of data the library refuses, such as strings, dates or sparse matrices."""


class FileFormatError(PlantedError, ValueError):
    """A file that is truncated, corrupted, unsafe or of an unknown format."""


class ClusterError(PlantedError, RuntimeError):
    """A cluster that lost its scheduler, or work on which its workers die."""


class RecoveryError(PlantedError, RuntimeError):
    """Raised by `fit` when there is no network to return."""

    def __init__(self, outcome: Outcome, detail: str = "") -> None:
        self.outcome = outcome
        self.detail = detail
        sentences = [f"{outcome.name}: {outcome.meaning}", detail, outcome.advice]
        super().__init__(" ".join(text for text in sentences if text))


class RecoveryWarning(UserWarning):
    """A network was returned, but it is not certified to be the planted one."""


class DataWarning(UserWarning):
    """The data have a property the user should know about, such as a constant column."""


def shown(text: object, *, keep: str = "", longest: int | None = None) -> str:
    r"""Write a name or a message so that every terminal and file can take it: what cannot be shown is escaped.

    `keep`: characters that stay as they are, such as the newline of a text of several lines; `longest`: characters after
    which the text is cut.
    """
    words = str(text)
    words = words if longest is None or len(words) <= longest else f"{words[:longest]} …"
    return _HIDDEN.sub(
        lambda found: found[0] if found[0] in keep else found[0].encode("unicode_escape").decode(), words
    )
