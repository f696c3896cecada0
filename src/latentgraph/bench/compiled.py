"""`python -m latentgraph.bench.compiled results/compiled.json`: whether torch.compile helps the torch backend.

It needs a C++ compiler.
Only the noise is compiled: a hash of some twenty elementwise steps, which is what a compiler can fuse. The rest of a
block is distances and top-k, of which torch has its own, and sizes that depend on the data.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any
from unittest.mock import patch

import torch

from latentgraph.bench.measure import machine, using_threads
from latentgraph.bench.regimes import points
from latentgraph.experiments.results import versions
from latentgraph.files import replacing
from latentgraph.sampling import blocked, gumbel_top_k


def processor_seconds(call: Callable[[], object], repeats: int = 5) -> float:
    found = []
    for _ in range(repeats):
        start = time.process_time()
        call()
        found.append(time.process_time() - start)
    return median(found)


def main(out: str) -> None:
    names = ("exponential_noise", "exponential_noise_of_pairs")
    compiled: dict[str, Any] = {name: torch.compile(getattr(blocked, name), dynamic=True) for name in names}
    rows = []
    for regime in ("flat", "gaussian"):
        for n in (2_000, 5_000):
            x_hat, t = points(regime, n, 4)

            def sample(x_hat: torch.Tensor = x_hat, t: float = t) -> None:
                gumbel_top_k(x_hat, 5, t, backend="torch")

            sample()
            plain = processor_seconds(sample)
            with patch.multiple(blocked, **compiled):
                start = time.perf_counter()
                sample()
                first = time.perf_counter() - start
                fast = processor_seconds(sample)
            rows.append({"points": regime, "n": n, "plain": plain, "compiled": fast, "first_call": first})
            print(rows[-1], flush=True)
    report = {"machine": machine(), "unit": "processor seconds, one thread", "versions": versions(), "rows": rows}
    with replacing(Path(out)) as file:
        json.dump(report, file, indent=1)


if __name__ == "__main__":
    with using_threads(1):
        main(*sys.argv[1:])
