"""What a line of evidence is about, as a key that programs can ask for.

People read the text of a line, and the text may change; programs ask by key (`Recovery.find`). A key says what was
measured, not by whom: the residual of a sample has one key in a recovery, in an identification and in a memorised network.
The value of a member is what files hold.
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Check"]


class Check(Enum):
    """The key of a line of evidence."""

    NOTE = "note"  # a line without a key of its own, such as one that a user made

    # Shapes and counts
    SAMPLES = "samples"
    INPUTS = "inputs"
    OUTPUTS = "outputs"
    UNITS = "units"
    WIDTH = "width"
    FEATURES = "features"
    EQUATIONS = "equations"
    DISTINCT_ROWS = "distinct-rows"
    CONSTANT_COLUMNS = "constant-columns"
    ROWS_SEEN = "rows-seen"
    ROWS_SUMMED = "rows-summed"
    SUMMARY_MOMENTS = "summary-moments"
    ITERATIONS = "iterations"
    METHODS_TRIED = "methods-tried"
    PREDICTED_SAMPLES = "predicted-samples"
    PREDICTED_STEPS = "predicted-steps"

    # Ranks and conditioning
    OUTPUT_RANK = "output-rank"
    SIGNAL_RANK = "signal-rank"
    INPUT_RANK = "input-rank"
    JACOBIAN = "jacobian"
    NULL_SPACE = "null-space"
    NULL_SPACE_GAP = "null-space-gap"
    CONDITION_OF_W = "condition-of-w"
    CONDITION_OF_A = "condition-of-a"
    NORM_OF_A = "norm-of-a"
    INPUT_BOUND = "input-bound"
    RESIDUAL_BOUND = "residual-bound"
    KHATRI_RAO = "khatri-rao"
    KHATRI_RAO_PERTURBED = "khatri-rao-perturbed"
    DETECTOR_GAP = "detector-gap"
    DETECTOR_BOUND = "detector-bound"
    DISTINGUISHING_MATRIX = "distinguishing-matrix"
    AUGMENTED_MATRIX = "augmented-matrix"
    INDEPENDENT_SAMPLES = "independent-samples"
    INDEPENDENT_FEATURES = "independent-features"
    KERNEL = "kernel"
    LEVERAGE = "leverage"

    # Laws of inputs and of outputs
    SYMMETRIC_INPUTS = "symmetric-inputs"
    NORMAL_INPUTS = "normal-inputs"
    FOURTH_MOMENTS = "fourth-moments"
    CENTRED_INPUTS = "centred-inputs"
    CONTINUOUS_INPUTS = "continuous-inputs"
    GAUSSIAN_COEFFICIENT = "gaussian-coefficient"
    SIGN_OF_OUTPUTS = "sign-of-outputs"

    # The fit
    RESIDUAL = "residual"
    NOISE_LEVEL = "noise-level"
    NOISE_ACROSS_OUTPUTS = "noise-across-outputs"
    NOISE_VARIANCE = "noise-variance"
    NOISE_SPREAD = "noise-spread"
    NOISE_ORDER = "noise-order"
    NOISY_INPUTS = "noisy-inputs"
    CUT_LABELS = "cut-labels"
    LOST_LABELS = "lost-labels"
    COPIED_ROWS = "copied-rows"
    TAILS = "tails"
    HELD_OUT_ERROR = "held-out-error"
    HELD_OUT_SAMPLES = "held-out-samples"
    ERROR_BOUND = "error-bound"
    HIDDEN_ERROR = "hidden-error"
    LOSS = "loss"
    LOSS_VARIANCE = "loss-variance"
    LACK_OF_FIT = "lack-of-fit"
    LOCAL_MINIMUM = "local-minimum"
    RIDGE = "ridge"
    ROUNDING = "rounding"
    LINEAR_REST = "linear-rest"
    TRUNCATED_ROWS = "truncated-rows"
    STATIONARITY = "stationarity"
    SEPARATION = "separation"
    CURVATURE = "curvature"
    LANDSCAPE_BOUND = "landscape-bound"

    # Single units
    UNIT_ON = "unit-on"
    UNIT_OFF = "unit-off"
    RARER_SIDE = "rarer-side"
    WEAKEST_UNIT = "weakest-unit"
    DIRECTION_ERROR = "direction-error"
    SIZE_ERROR = "size-error"
    REFINED_ANGLE = "refined-angle"
    MISSING_UNIT = "missing-unit"
    NEEDLESS_UNIT = "needless-unit"
    SPLIT_UNIT = "split-unit"
    BEND = "bend"
    SMOOTH_BENDS = "smooth-bends"
    ROUNDED_KINKS = "rounded-kinks"
    HIDDEN_ANGLE = "hidden-angle"
    HIDDEN_PAIRS = "hidden-pairs"
    SCOPE = "scope"
    RIVAL_UNITS = "rival-units"
    GAP = "gap"
    PIECE = "piece"
    VISIBLE_UNITS = "visible-units"
    VISIBLE_BIAS = "visible-bias"
    INVISIBLE_UNITS = "invisible-units"
    UNITS_IN_SPACE = "units-in-space"
    UNITS_ALONE = "units-alone"
    ALONE_SAMPLES = "alone-samples"
    PARALLEL_OUTPUTS = "parallel-outputs"
    GROUP_RESIDUAL = "group-residual"
    DOUBLED_UNITS = "doubled-units"

    # Signs and patterns
    ORIENTATION = "orientation"
    SIGN_PATTERNS = "sign-patterns"
    LINEAR_PART = "linear-part"
    LEAK_SPREAD = "leak-spread"
    KNOWN_LINEAR_PART = "known-linear-part"
    LEAK = "leak"
    FURTHER_KINKS = "further-kinks"
    SHARP_KINKS = "sharp-kinks"
    SMOOTH_CURVE = "smooth-curve"
    NEIGHBOURS = "neighbours"
    ONE_COLUMN = "one-column"
    OBLIQUE_KINKS = "oblique-kinks"
    PREDICTED_PATTERNS = "predicted-patterns"
    EXAMINED_PATTERNS = "examined-patterns"
    UNDETERMINED_PATTERNS = "undetermined-patterns"
    GUESSES = "guesses"
    PRINTED_GUESSES = "printed-guesses"

    # Labels that are wrong or missing
    MISSING_LABELS = "missing-labels"
    WRONG_LABELS = "wrong-labels"
    WRONG_SAMPLES = "wrong-samples"
    RIGHT_SHARE = "right-share"
    LOW_RANK_SHARE = "low-rank-share"
    CONTRADICTED_LABELS = "contradicted-labels"
    WRONG_LABELS_IGNORE_INPUTS = "wrong-labels-ignore-inputs"
    WRONG_LABELS_APART = "wrong-labels-apart"
    UNIT_AMONG_OUTLIERS = "unit-among-outliers"

    # Questions to a black box
    QUESTIONS = "questions"
    QUESTIONS_PER_PARAMETER = "questions-per-parameter"
    FRESH_ANSWERS = "fresh-answers"
    COVERED_INPUTS = "covered-inputs"
    CLOSE_BREAKS = "close-breaks"
