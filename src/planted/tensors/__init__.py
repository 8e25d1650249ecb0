"""Small dense algebra of symmetric matrices and tensors; knows nothing of networks."""

from planted.tensors.independent_components import IndependentComponents, independent_components
from planted.tensors.jennrich import RankOneTerms, decompose_shared_terms
from planted.tensors.joint_diagonalisation import JointDiagonalisation, diagonalise_by_congruence
from planted.tensors.khatri_rao import khatri_rao_values
from planted.tensors.products import smat, svec, svec_outer
from planted.tensors.symmetric_cp import SymmetricCP, decompose_symmetric

__all__ = [
    "IndependentComponents",
    "JointDiagonalisation",
    "RankOneTerms",
    "SymmetricCP",
    "decompose_shared_terms",
    "decompose_symmetric",
    "diagonalise_by_congruence",
    "independent_components",
    "khatri_rao_values",
    "smat",
    "svec",
    "svec_outer",
]
