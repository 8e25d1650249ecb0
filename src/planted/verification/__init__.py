"""Proved bounds: of the outputs of a network, and of the difference of two, on a set of inputs."""

from planted.verification._bracket import Bracket, bracket
from planted.verification._copies import KINDS, Match, Provenance, match_copies, rounded_copy, trace_copy
from planted.verification._exact import exact_differences, exact_outputs, rounded_down
from planted.verification._ranges import OutputBounds, SlopeBounds, bounds, slopes
from planted.verification._search import InputSet, as_input_set
from planted.verification._stages import Plain, as_plain

__all__ = [
    "KINDS",
    "Bracket",
    "InputSet",
    "Match",
    "OutputBounds",
    "Plain",
    "Provenance",
    "SlopeBounds",
    "as_input_set",
    "as_plain",
    "bounds",
    "bracket",
    "exact_differences",
    "exact_outputs",
    "match_copies",
    "rounded_copy",
    "rounded_down",
    "slopes",
    "trace_copy",
]
