"""Properties of networks in VNN-LIB: reading them and deciding them."""

from planted.verification.properties._decide import Verdict, verify
from planted.verification.properties._vnnlib import Property, read_vnnlib

__all__ = ["Property", "Verdict", "read_vnnlib", "verify"]
