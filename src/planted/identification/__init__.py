"""Black boxes: read a network back by asking it, compare two functions, and reduce a network to fewer units."""

from planted.identification._compare import Comparison, compare
from planted.identification._identify import identify
from planted.identification._oracles import Oracle, as_oracle
from planted.identification._session import OracleError
from planted.identification._simplify import Simplification, simplify

__all__ = [
    "Comparison",
    "Oracle",
    "OracleError",
    "Simplification",
    "as_oracle",
    "compare",
    "identify",
    "simplify",
]
