"""How much memory it takes to run an ONNX model, found out before it is loaded.

A file of a kilobyte can ask for a terabyte: Expand, Tile, Range and ConstantOfShape make tensors of any size, and the
program that runs a model makes constant ones while it loads it. So the size of every value is bounded first, for the number
of rows that is asked at once. Where onnx finds a shape without looking at values, that is the size. Elsewhere the operator
tells: what Reshape makes is as large as what it takes, and a product is at most as large as the products of its factors'
sizes. An operator that tells nothing is refused by name, and so is one that takes room of its own beside its values, which
may be any size: Einsum, ConvTranspose and Conv over four directions unfold what they take, support vectors meet every row.
Only operators that are known to take none are run.
"""

from __future__ import annotations

import math
import os
import re
from os import PathLike
from typing import Any

from planted.io._memory import current_budget
from planted.outcomes import FileFormatError

__all__ = ["check_answers", "rows_at_once"]

ROWS = (4096, 256, 16, 1)
# A model gets the most rows whose values fit; fixed, so that answers never depend on the budget.
WORKING_BYTES = 256 * 2**20
LARGEST_SIZE = 2**62
# Of a number that is answered: as the model has it, collected, in double precision, and checked.
ANSWER_BYTES = 40
VALUE_BYTES, TEXT_BYTES = 8, 64  # the largest number, and about what onnxruntime takes for a text
# What these make has at most as many numbers as the first thing they take.
_AT_MOST_FIRST = re.compile(
    "Abs|ArgMax|ArgMin|BatchNormalization|Cast|Ceil|Celu|Clip|CumSum|Dropout|Elu|Erf|Exp|Flatten|Floor|Gelu|"
    "HardSigmoid|HardSwish|Identity|InstanceNormalization|IsInf|IsNaN|LayerNormalization|LeakyRelu|Log|"
    "LogSoftmax|LpNormalization|Mish|Neg|Not|Reciprocal|ReduceL1|ReduceL2|ReduceMax|ReduceMean|ReduceMin|"
    "ReduceProd|ReduceSum|ReduceSumSquare|Relu|Reshape|Round|Selu|Shape|Sigmoid|Sign|Size|Slice|Softmax|"
    "Softplus|Softsign|Split|Sqrt|Squeeze|Tanh|ThresholdedRelu|TopK|Transpose|Unsqueeze"
)
# What these make is, side by side, as long as the longest of what they take.
_ELEMENTWISE = re.compile(
    "Add|And|Div|Equal|Greater|GreaterOrEqual|Less|LessOrEqual|Max|Mean|Min|Mod|Mul|Or|PRelu|Pow|Sub|Sum|Where|Xor"
)
# The size of what these make is known where onnx finds their shape, and onnxruntime takes no other room for them.
_OF_A_SHAPE = re.compile(
    "Acos|Acosh|Asin|Asinh|Atan|Atanh|AveragePool|BitShift|Bitwise(And|Not|Or|Xor)|CastLike|Concat|Constant|"
    "ConstantOfShape|Conv|Cos|Cosh|DepthToSpace|DequantizeLinear|Det|DynamicQuantizeLinear|Expand|EyeLike|Gather|"
    "GatherElements|GatherND|Gemm|Global(Average|Lp|Max)Pool|GroupNormalization|Hardmax|LRN|LpPool|MatMul|"
    "MatMulInteger|MaxPool|MeanVarianceNormalization|OneHot|Pad|QLinearMatMul|QuantizeLinear|Range|ReduceLogSum|"
    "ReduceLogSumExp|Resize|Scatter|ScatterElements|ScatterND|Shrink|Sin|Sinh|SpaceToDepth|Tan|Tile|Trilu|Upsample"
)
_LEARNED = re.compile(  # of the domain ai.onnx.ml
    "ArrayFeatureExtractor|Binarizer|Cast|FeatureVectorizer|Imputer|LabelEncoder|LinearClassifier|LinearRegressor|"
    "Normalizer|OneHotEncoder|Scaler|TreeEnsemble(Classifier|Regressor)"
)
LARGEST_CONV = 5  # dimensions of the weights of a Conv: outputs, inputs and three directions


def rows_at_once(model: Any, path: str | PathLike[str], n_features: int | None = None) -> int:
    """Return how many rows of inputs a model may be given at once; refuse one that takes more memory than the budget.

    `model`: as `read_onnx_model` returns it; `n_features`: the width of the inputs, where the model does not tell it. A
    model that wants a certain number of rows is only checked. Raises `FileFormatError` or `BadInputError`.
    """
    import onnx

    draft = onnx.ModelProto()
    draft.CopyFrom(model)
    try:
        for rows in ROWS:
            n_bytes = _bytes_of_a_run(draft, model, rows, n_features or 1)
            if n_bytes <= WORKING_BYTES:
                break
    except FileFormatError as error:
        raise FileFormatError(f"{os.fspath(path)}: {error}") from error
    what = f"{os.fspath(path)}: running it with {rows} row{'s' if rows > 1 else ''} of inputs"
    current_budget().require(
        n_bytes, what, instead="Give a larger budget, or check where the model comes from."
    )
    return rows


def check_answers(n_numbers: int, path: str | PathLike[str]) -> None:
    """Refuse answers of so many numbers if they take more memory than the budget."""
    what = f"{os.fspath(path)}: collecting its {n_numbers:,} answers"
    current_budget().require(
        ANSWER_BYTES * n_numbers, what, instead="Ask fewer questions at once, or check the model."
    )


def _bytes_of_a_run(draft: Any, model: Any, rows: int, n_features: int) -> int:
    """Return a bound on the bytes of all values that a run with so many rows makes."""
    from onnx import TensorProto, shape_inference

    constants = {item.name: math.prod(item.dims) for item in model.graph.initializer}
    for given, item in zip(model.graph.input, draft.graph.input, strict=True):
        sides = item.type.tensor_type.shape.dim
        for place, side in enumerate(given.type.tensor_type.shape.dim):
            if side.dim_value <= 0 and given.name not in constants:
                sides[place].dim_value = rows if place == 0 else n_features
    del draft.graph.value_info[:]  # what the file says of its own values is not asked
    for item in draft.graph.output:
        item.type.tensor_type.ClearField("shape")
    try:  # values are not followed (data_prop): onnx would make a Range of any length to do so
        graph = shape_inference.infer_shapes(draft).graph
    except Exception as error:  # what onnx and protobuf raise has no common base
        raise FileFormatError(f"the shapes of its values cannot be found: {error}") from error
    known = {item.name: item.type.tensor_type for item in (*graph.input, *graph.value_info, *graph.output)}
    sizes: dict[str, int] = {
        name: found for name, kind in known.items() if (found := _size_of(kind)) is not None
    } | constants
    asked = [item.name for item in model.graph.input if item.name not in constants]
    total: int = 2 * VALUE_BYTES * sum(sizes.get(name, 0) for name in asked)
    ranks = {item.name: len(item.dims) for item in model.graph.initializer}
    for node in model.graph.node:
        _refuse_room(node, ranks)
        for name in filter(None, node.output):
            if name not in sizes:
                sizes[name] = _bound(node, sizes)
            is_text = name not in known or known[name].elem_type == TensorProto.STRING
            total += sizes[name] * (TEXT_BYTES if is_text and node.domain else VALUE_BYTES)
    return total + ANSWER_BYTES * sum(sizes.get(item.name, 0) for item in model.graph.output)


def _size_of(kind: Any) -> int | None:
    """Return how many numbers a value of this type has, if all its sides are known."""
    sides = kind.shape.dim
    if not kind.HasField("shape") or any(
        side.WhichOneof("value") != "dim_value" or side.dim_value < 0 for side in sides
    ):
        return None
    return math.prod(int(side.dim_value) for side in sides)


def _refuse_room(node: Any, ranks: dict[str, int]) -> None:
    """Refuse an operator that may take room beside its values; `ranks`: numbers of sides of the constants."""
    known = (_LEARNED,) if node.domain == "ai.onnx.ml" else (_AT_MOST_FIRST, _ELEMENTWISE, _OF_A_SHAPE)
    is_known = any(kinds.fullmatch(node.op_type) for kinds in known)
    if not is_known or (node.op_type == "Conv" and ranks.get(node.input[1], LARGEST_CONV + 1) > LARGEST_CONV):
        raise _of_any_size(node)


def _of_any_size(node: Any) -> FileFormatError:
    return FileFormatError(
        f"how much {node.op_type!r:.60} makes is decided while it runs and may be any size; such models are not run"
    )


def _bound(node: Any, sizes: dict[str, int]) -> int:
    """Return how many numbers what a node makes has at most, from the sizes of what it takes."""
    taken = [max(sizes[name], 1) for name in node.input if name in sizes]
    if node.domain == "ai.onnx.ml" and taken:  # rows, times outputs that its attributes list or count
        return min(taken[0] * max([1, *map(_largest_number, node.attribute)]), LARGEST_SIZE)
    if _AT_MOST_FIRST.fullmatch(node.op_type) and taken:
        return taken[0]
    if node.op_type == "Concat":
        return sum(taken)
    if _ELEMENTWISE.fullmatch(node.op_type):
        taken = [max(sizes[name], 1) for name in set(node.input) if name in sizes]
    elif node.op_type not in ("Gather", "Gemm", "MatMul"):
        raise _of_any_size(node)
    return min(math.prod(taken), LARGEST_SIZE)  # a chain of products would be a number of endless digits


def _largest_number(attribute: Any) -> int:
    """Return how many items an attribute lists, or the number it says."""
    lists = (attribute.ints, attribute.floats, attribute.strings)
    return max(abs(int(attribute.i)), *map(len, lists))
