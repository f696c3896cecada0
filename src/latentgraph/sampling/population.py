"""What a sampler samples from: who chooses, among whom, and under which name to the noise. Checked here, once."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from latentgraph.blocks import graph_sizes
from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry


@dataclass(frozen=True)
class Population:
    """Rows that choose, and points that are chosen from: mostly the same."""

    x_hat: Tensor  # (n, d) who chooses, on the geometry
    points: Tensor  # (m, d) who is chosen: x_hat itself, or other candidates
    geometry: Geometry
    skip_self: bool
    batch: Tensor | None  # (n,) ascending graph ids, if x_hat consists of several graphs
    rows: Tensor  # (r,) the rows of x_hat to sample for
    keys: Tensor  # (n,) their names to the noise


def check_temperature(temperature: float | Tensor) -> float:
    if isinstance(temperature, Tensor) and temperature.numel() != 1:
        raise InputError(f"temperature has shape {tuple(temperature.shape)}; it must be one number for all pairs.")
    t = float(temperature.detach() if isinstance(temperature, Tensor) else temperature)
    if not (math.isfinite(t) and t > 0):
        raise InputError(
            f"temperature={t} but it must be a positive, finite number: log p = -t dist^2 falls with the distance. "
            "Small values give nearly uniform neighbours, large values nearly the nearest ones."
        )
    return t


def check_population(
    x_hat: Tensor,
    k: int,
    geometry: Geometry | None,
    loop: bool,
    batch: Tensor | None,
    query: Tensor | None,
    candidates: Tensor | None,
    keys: Tensor | None,
) -> Population:
    """Refuse what cannot be sampled, in words; put the rest together, on its geometry."""
    geometry = (geometry or Euclidean()).detached()
    x_hat = geometry.project(_check_points("x_hat", x_hat))
    if candidates is None:
        points = x_hat
        _check_batch(batch, x_hat)
        _check_k(k, loop, batch, len(points))
    else:
        if batch is not None or loop:
            raise InputError("candidates are one graph, and nobody's own: leave out batch and loop.")
        points = geometry.project(_check_points("candidates", candidates).to(x_hat))
        if points.shape[1] != x_hat.shape[1]:
            raise InputError(
                f"candidates have {points.shape[1]} columns and x_hat has {x_hat.shape[1]}; they must agree."
            )
        _check_k(k, True, None, len(points))
    return Population(
        x_hat=x_hat,
        points=points,
        geometry=geometry,
        skip_self=candidates is None and not loop,
        batch=batch,
        rows=_check_query(query, x_hat),
        keys=_check_keys(keys, x_hat),
    )


def _check_points(name: str, x: Tensor) -> Tensor:
    if x.ndim != 2 or not x.is_floating_point():
        raise InputError(
            f"{name} is a {x.dtype} tensor of shape {tuple(x.shape)}; it must be floating point of shape "
            "(n, d_hat), one row for each node."
        )
    if x.dtype not in (torch.float32, torch.float64):
        x = x.float()
    x = x.detach()
    if x.numel() and not math.isfinite(float(x.abs().max())):  # faster than to ask every number
        finite = x.isfinite().all(1)
        bad = int((~finite).nonzero()[0, 0])
        raise InputError(
            f"{name} has {int((~finite).sum())} rows with NaN or infinite values, the first is row {bad}. Distances to "
            "them are undefined: check the features for missing values and the training for divergence."
        )
    return x


def _check_keys(keys: Tensor | None, x_hat: Tensor) -> Tensor:
    if keys is None:
        return torch.arange(len(x_hat), device=x_hat.device)
    if keys.shape != (len(x_hat),) or keys.is_floating_point() or keys.dtype == torch.bool:
        raise InputError(
            f"keys is a {keys.dtype} tensor of shape {tuple(keys.shape)}; it must hold one whole number for each of "
            f"the {len(x_hat)} rows of x_hat."
        )
    return keys.to(device=x_hat.device, dtype=torch.long)


def _check_batch(batch: Tensor | None, x_hat: Tensor) -> None:
    if batch is None:
        return
    if batch.shape != (len(x_hat),) or batch.is_floating_point():
        raise InputError(
            f"batch is a {batch.dtype} tensor of shape {tuple(batch.shape)}; it must hold one integer graph id for "
            f"each of the {len(x_hat)} rows of x_hat."
        )
    if bool((batch[1:] < batch[:-1]).any()):
        raise InputError("batch must be ascending, so that each graph is a run of rows. Sort the rows by graph first.")


def _check_k(k: int, loop: bool, batch: Tensor | None, num_nodes: int) -> None:
    if not hasattr(k, "__index__") or isinstance(k, bool) or k < 1:  # numpy's whole numbers have it too
        raise InputError(f"k={k!r} but it must be a whole number of neighbours, at least 1.")
    smallest = int(graph_sizes(batch, num_nodes).min()) if num_nodes else 0
    most = smallest if loop else max(smallest - 1, 0)
    if k > most:
        what = "the graph" if batch is None else "the smallest graph of the batch"
        advice = "Lower k or pass loop=True." if k == smallest and not loop and k > 1 else "Lower k."
        if most < 1:
            advice = "It needs more nodes."
        if batch is not None and not loop:
            advice += " DiscreteDGM(fill=True) takes small graphs as they are."
        raise InputError(f"k={k} but {what} has {smallest} nodes; k can be at most {most} with loop={loop}. {advice}")


def _check_query(query: Tensor | None, x_hat: Tensor) -> Tensor:
    n = len(x_hat)
    if query is None:
        return torch.arange(n, device=x_hat.device)
    if query.ndim != 1 or query.is_floating_point() or query.dtype == torch.bool:
        raise InputError(
            f"query is a {query.dtype} tensor of shape {tuple(query.shape)}; it must be a vector of row numbers. "
            "For a mask, pass mask.nonzero()[:, 0]."
        )
    if len(query) and (int(query.min()) < 0 or int(query.max()) >= n):
        raise InputError(
            f"query has row numbers from {int(query.min())} to {int(query.max())}; x_hat has rows 0 to {n - 1}."
        )
    return query.to(device=x_hat.device, dtype=torch.long)
