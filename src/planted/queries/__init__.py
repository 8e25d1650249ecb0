"""Query access: read a network back by asking it, and compare black boxes."""

from planted.queries._compare import Comparison, compare
from planted.queries._identify import identify
from planted.queries._oracles import Oracle, as_oracle
from planted.queries._session import OracleError

__all__ = ["Comparison", "Oracle", "OracleError", "as_oracle", "compare", "identify"]
