r"""Laws of labels, given the outputs of a network: classes and counts.

A network gives predictors η = f(x), one for each output. What is observed follows

- ``logistic``, ``multinomial``: class j of K with probability :math:`p_j \propto e^{\eta_j}`, where :math:`\eta_0 = 0`: the
  outputs are the log-odds of the classes 1 to K - 1 against the first. The log-odds fix what softmax leaves free.
- ``poisson``: counts with means :math:`e^{\eta}`, independent for each output.

Both links are canonical, so that the score of a row is :math:`J^\top (y - \mu)` and its Fisher information
:math:`J^\top V J` with the covariance V of y, where J is the Jacobian of the outputs. For classes
:math:`V = D^{1/2} (I - s s^\top) D^{1/2}` with D = diag(p) and :math:`s = \sqrt p`, and a root of it is
:math:`(I - s s^\top / (1 + \sqrt{p_0}))\, D^{1/2}` (1): no decomposition is needed, and it stays right where
probabilities underflow.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import expit, logsumexp, xlogy

from planted._typing import Array, as_array
from planted.outcomes import BadInputError

__all__ = ["CLASSES", "LIKELIHOODS", "Likelihood", "find_likelihood"]

LIKELIHOODS = ("gaussian", "logistic", "multinomial", "poisson")
CLASSES = ("logistic", "multinomial")  # those whose labels are classes


@dataclass(frozen=True, slots=True)
class Likelihood:
    """The law of labels given the outputs of a network; here of classes."""

    name: str

    @property
    def is_of_classes(self) -> bool:
        """Whether labels are classes."""
        return self.name in CLASSES

    def means(self, eta: Array) -> Array:
        """Return the means of the encoded labels: probabilities of all classes but the first; (n, m)."""
        if eta.shape[1] == 1:
            return as_array(expit(eta))
        shift = np.maximum(eta.max(axis=1, keepdims=True), 0.0)
        sizes = np.exp(eta - shift)
        return as_array(sizes / (np.exp(-shift) + sizes.sum(axis=1, keepdims=True)))

    def probabilities(self, eta: Array) -> Array:
        """Return the probabilities of all classes; (n, m + 1)."""
        zero = np.zeros((len(eta), 1))
        return as_array(np.exp(np.hstack([zero, eta]) - _log_total(eta)[:, None]))

    def roots(self, eta: Array) -> Array:
        """Return matrices R with R'R the covariance of a row's labels, by (1); (n, m, m)."""
        p = self.means(eta)
        if p.shape[1] == 1:
            return as_array(np.sqrt(p * (1 - p))[:, :, None])
        s = np.sqrt(p)
        first = np.exp(-_log_total(eta))  # the probability of the first class
        inner = np.eye(p.shape[1]) - np.einsum("ni,nj->nij", s, s) / (1 + np.sqrt(first))[:, None, None]
        return as_array(inner * s[:, None, :])

    def losses(self, Y: Array, eta: Array) -> Array:
        """Return half the deviance of every row, here minus the logarithm of the probability of its label; (n,)."""
        return as_array(_log_total(eta) - (Y * eta).sum(axis=1))

    def start(self, means: Array) -> Array:
        """Return the outputs of a constant network with these means of the labels; (m,)."""
        first = 1 - means.sum()
        return as_array(np.log(means) - np.log(first))


class _Counts(Likelihood):
    """Poisson counts."""

    def means(self, eta: Array) -> Array:
        """Return the means; (n, m)."""
        return as_array(np.exp(eta))

    def roots(self, eta: Array) -> Array:
        """Return diagonal matrices of the standard deviations; (n, m, m)."""
        return as_array(np.exp(eta / 2)[:, :, None] * np.eye(eta.shape[1]))

    def losses(self, Y: Array, eta: Array) -> Array:
        """Return half the deviance of every row, zero where the means are the counts; (n,)."""
        return as_array((np.exp(eta) - Y * eta + xlogy(Y, Y) - Y).sum(axis=1))

    def start(self, means: Array) -> Array:
        """Return the outputs of a constant network with these means of the labels; (m,)."""
        return as_array(np.log(means))


def find_likelihood(name: str) -> Likelihood:
    """Return the law of a name."""
    if name in CLASSES:
        return Likelihood(name)
    if name == "poisson":
        return _Counts(name)
    raise BadInputError(f"likelihood={name!r}; expected one of {', '.join(map(repr, LIKELIHOODS))}")


def _log_total(eta: Array) -> Array:
    """The logarithm of one plus the sum of exponentials; (n,)."""
    return as_array(
        np.logaddexp(0.0, eta[:, 0]) if eta.shape[1] == 1 else np.logaddexp(0.0, logsumexp(eta, axis=1))
    )
