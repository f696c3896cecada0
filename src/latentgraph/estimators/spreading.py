r"""What the nearest labelled rows say of each row, if few have a label: labels that spread over alike rows.

Every row gives 95 % of what it has to its neighbours, again and again; a labelled row starts with one unit of its
class, divided by how many have that class. With S the symmetrically normalised graph of nearest rows,

.. math:: F = \sum_{s \ge 0} (\alpha S)^s Y, \qquad P_i \propto F_i.

Rows without a label are worth most where labels are few: they tell along which ways alike rows are alike. As the
forest judges a labelled row by trees that were grown without it, such a row is judged here without its own label,
which is exact and costs nothing: F is linear in Y.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray

from latentgraph.sampling import nearest

Array = NDArray[Any]

NEIGHBOURS = 5
GIVEN = 0.95  # alpha
ROUNDS = 60  # 0.95^60 = 5 %
DOUBT = 0.01  # share of "nothing is known" in every opinion


@dataclass(frozen=True)
class Spread:
    """The result on the rows of `fit`.

    Attributes
    ----------
    mass : (n, classes) what has arrived of each class, F
    prior : (classes,) shares of the classes among the labelled rows
    """

    mass: Array
    prior: Array

    @classmethod
    def over(cls, x: Array, y: Array, known: Array, classes: int) -> tuple[Self, Array]:
        """Spread the classes y of the rows `known` over the rows x; and the opinions (n, classes) of all rows."""
        rows = np.flatnonzero(known)
        label = np.eye(classes)[y[rows]]
        count = label.sum(0)
        label_shares = label / count.clip(1)
        arrived = _arrived(_normalised(x), rows)
        found = cls(arrived @ label_shares, count / len(rows))
        others = found.mass.copy()
        others[rows] -= arrived[rows, np.arange(len(rows)), None] * label_shares
        # Without it, one less shares the unit of its class.
        others[rows] *= np.where(label > 0, count / (count - 1).clip(1), 1)
        return found, found._opinion(others)

    def __call__(self, x: Array, population: Array) -> Array:
        """(m, classes) opinions of new rows x, by what their nearest rows of the population (n, d) have."""
        near = nearest(torch.as_tensor(x), min(NEIGHBOURS, len(population)), candidates=torch.as_tensor(population))
        return self._opinion(self.mass[near.numpy()].mean(1))

    def _opinion(self, mass: Array) -> Array:
        """Logarithms of probabilities: of the prior where nothing has arrived."""
        mass = mass.clip(0)  # what is left of a row's own may be below zero by rounding
        total = mass.sum(1, keepdims=True)
        share = np.divide(mass, total, out=np.broadcast_to(self.prior, mass.shape).copy(), where=total > 1e-12)
        # Clipped for a class of which all rows weigh nothing: its prior is zero.
        found: Array = np.log(((1 - DOUBT) * share + DOUBT * self.prior).clip(DOUBT / len(self.prior) / 10))
        return found


def _normalised(x: Array) -> sp.csr_array:
    """S = D^-1/2 W D^-1/2, (n, n): W joins each row with its nearest ones, and these with it."""
    n, k = len(x), min(NEIGHBOURS, len(x) - 1)
    near = nearest(torch.as_tensor(x), k).numpy()
    chosen = sp.csr_array((np.ones(n * k), near.ravel(), np.arange(0, n * k + 1, k)), shape=(n, n))
    joined = chosen.maximum(chosen.T)
    scale = sp.diags_array(1 / np.sqrt(joined.sum(1)))
    return sp.csr_array(scale @ joined @ scale)


def _arrived(joined: sp.csr_array, rows: Array) -> Array:
    """(n, m): what comes to each row of a unit that starts at each of the m `rows`."""
    moving = np.zeros((joined.shape[0], len(rows)))
    moving[rows, np.arange(len(rows))] = 1.0
    found = moving.copy()
    for _ in range(ROUNDS):
        moving = GIVEN * (joined @ moving)
        found += moving
    return found
