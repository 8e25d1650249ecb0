"""Query access: read a network back by asking it, compare black boxes, reduce networks."""

from planted.queries._compare import Comparison, compare
from planted.queries._identify import identify
from planted.queries._oracles import Oracle, as_oracle
from planted.queries._session import OracleError
from planted.queries._simplify import Simplification, simplify

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
