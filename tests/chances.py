"""Counts of what was drawn, against the law it should have."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np
import pytest
from scipy import stats

T = TypeVar("T", bound=Hashable)


def p_value(found: Counter[T], law: Mapping[T, float]) -> float:
    """Of the chi-square test; outcomes expected less than ten times are counted together."""
    total = sum(found.values())
    assert sum(law.values()) == pytest.approx(1.0)
    assert not set(found) - {outcome for outcome, chance in law.items() if chance > 0}, "an impossible outcome"
    often = [outcome for outcome, chance in law.items() if chance * total >= 10]
    counts = np.array([found[o] for o in often] + [total - sum(found[o] for o in often)])
    expected = np.array([law[o] for o in often] + [1 - sum(law[o] for o in often)]) * total
    enough = expected > 1e-6 * total
    counts, expected = counts[enough], expected[enough]
    assert len(counts) > 1, "a law with one outcome tests nothing"
    return float(stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue)
