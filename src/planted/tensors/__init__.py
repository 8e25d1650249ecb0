"""Small dense algebra of symmetric matrices and tensors; knows nothing of networks."""

from planted.tensors.independent_components import IndependentComponents, independent_components
from planted.tensors.joint_diagonalisation import JointDiagonalisation, diagonalise_by_congruence
from planted.tensors.products import smat, svec, svec_outer
from planted.tensors.symmetric_cp import SymmetricCP, decompose_symmetric

__all__ = [
    "IndependentComponents",
    "JointDiagonalisation",
    "SymmetricCP",
    "decompose_symmetric",
    "diagonalise_by_congruence",
    "independent_components",
    "smat",
    "svec",
    "svec_outer",
]
