r"""Backend "keops": the near points of a row by KeOps, all others as one thinned Poisson process. Exact.

The values log p_ij + G_ij, in decreasing order, are minus the logarithms of the arrival times of a race in which j
arrives at rate exp(-cost_ij), cost_ij = t dist^2; the k best are the first k to arrive. A row runs it in three steps:

- near: KeOps finds the points nearest to the row. Each of them gets an arrival time of its own;
- far: the near ones imply a cost `low` that none of the others undercuts. A Poisson process of rate n exp(-low)
  dominates them: give each of its arrivals to a random j, and keep it with probability exp(low - cost_ij). Only
  arrivals before the k-th best so far matter. Mostly there are none, or they soon fill the list;
- direct: a row that has seen many arrivals in vain stops, and gives every far point left an arrival time of its own.
  The race has no memory: who has not arrived by now needs as long from now on as it needed from the start.

Random numbers are addressed by the key of the row and the number of a near point, of an arrival or of a far point:
which other rows are asked for changes nothing. KeOps compares distances in the precision of the points, so its order
is wrong by rounding, for which `low` has a margin. Costs and times are in double precision.
"""

from __future__ import annotations

import fcntl
import math
import sys
import threading
from collections.abc import Iterator
from contextlib import redirect_stdout
from dataclasses import dataclass, fields
from io import StringIO
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

with redirect_stdout(StringIO()):  # at import it prints whether there is a GPU
    import pykeops
    from pykeops.torch import LazyTensor

from latentgraph.errors import InputError
from latentgraph.geometry import Euclidean, Geometry, PoincareBall, Product, Sphere
from latentgraph.sampling.blocked import blocked_top_k
from latentgraph.sampling.noise import exponential_noise
from latentgraph.sampling.population import Population

NEAR = 64  # near points of a row: KeOps finds them about as fast as five, and few arrivals are left to the others
MOST_NEAR = 512  # KeOps keeps them in order by insertion: for more of them the plain backend is faster
FIRST_ROUND = 16  # arrivals of the first round; each round has twice those of the one before
VAIN = 0.25  # a row that has seen this share of its candidates arrive in vain is finished directly
HELD = 1 << 22  # coordinates of pairs held at a time: 32 MB
PATIENCE = 2.0  # seconds after which a compilation is announced

# Where the columns of the random numbers of arrivals and of far points begin; those of near points begin at 0.
_ARRIVALS, _DIRECT = 1 << 40, 1 << 41


def keops_top_k(population: Population, k: int, temperature: float, seed: int | None) -> Tensor:
    """For each of the rows, the k candidates with the largest log p + Gumbel noise, largest first: (r, k).

    `seed=None` leaves the noise out: the k nearest neighbours.
    """
    _check_geometry(population.geometry)
    rows, batch, points = population.rows, population.batch, population.points
    if batch is None:
        sizes, graph = torch.tensor([len(points)], device=rows.device), torch.zeros_like(rows)
    else:
        _, graphs, sizes = torch.unique_consecutive(batch, return_inverse=True, return_counts=True)
        graph = graphs.index_select(0, rows)
    near = max(NEAR, 1 << (2 * k - 1).bit_length())  # a power of two: KeOps compiles for every number anew
    if near > MOST_NEAR or int(sizes.max()) <= near or not points.shape[1] or not len(rows):  # nothing to gain
        return blocked_top_k(population, k, temperature, seed)

    space = _Space(population, temperature)
    starts = sizes.cumsum(0) - sizes
    chosen = torch.empty(len(rows), k, dtype=torch.long, device=rows.device)
    for part in space.parts(graph.argsort(stable=True), near):
        own = graph.index_select(0, part)
        start, size = starts.index_select(0, own), sizes.index_select(0, own)
        chosen[part] = _race(space, rows.index_select(0, part), start, size, near, k, seed)
    return chosen


# The race


@dataclass
class _Rows:
    """Where some rows are in their race. Time runs such that cost `base` has rate 1; a value is -log(time)."""

    row: Tensor  # (r,) their numbers
    key: Tensor  # (r,) their names to the noise
    start: Tensor  # (r,) their candidates are the points [start, start + size)
    size: Tensor
    known: Tensor  # (r, near or near + 1) who is not far: the near points and the row itself; or -1
    base: Tensor  # (r,) what their nearest point costs
    low: Tensor  # (r,) what a far point costs at least
    log_rate: Tensor  # (r,) of the process that dominates the far points: log(size exp(base - low))
    elapsed: Tensor  # (r,) how much of that process has been looked at, in expected arrivals
    best: Tensor  # (r, k) the k best values so far, best first
    chosen: Tensor  # (r, k) who they belong to

    def take(self, part: Tensor) -> _Rows:
        return _Rows(*(getattr(self, field.name).index_select(0, part) for field in fields(self)))

    def put(self, part: Tensor, rows: _Rows) -> None:
        """Write back what changes."""
        self.elapsed[part], self.best[part], self.chosen[part] = rows.elapsed, rows.best, rows.chosen

    def limit(self) -> Tensor:
        """What `elapsed` is when the k-th best so far arrives."""
        return (self.log_rate - self.best[:, -1]).exp()

    def not_far(self) -> Tensor:
        """Who cannot arrive from afar (any more): (r, c), -1 for nobody."""
        return torch.cat([self.known, self.chosen], 1)

    def merge(self, value: Tensor, index: Tensor) -> None:
        """Let points `index` (r, c) arrive; those of value -inf do not."""
        top = torch.cat([self.best, value], 1).topk(self.best.shape[1], dim=1)
        self.best, self.chosen = top.values, torch.cat([self.chosen, index], 1).gather(1, top.indices)


def _race(space: _Space, row: Tensor, start: Tensor, size: Tensor, near: int, k: int, seed: int | None) -> Tensor:
    """What some rows choose among the points [start, start + size); rows of one graph come together."""
    column = torch.arange(near, device=row.device)
    missing = column >= size[:, None]  # a small graph has no more
    index = space.nearest(row, start, size, near).masked_fill_(missing, -1)
    barred = missing | (index == row[:, None]) if space.skip_self else missing
    cost = space.cost(row[:, None], index.clamp_min(0))
    base = cost.masked_fill(barred, torch.inf).amin(1)  # counted from here, values keep the digits of the noise
    value = base[:, None] - cost
    key = space.keys.index_select(0, row)
    if seed is not None:
        value -= exponential_noise(seed, key, column, value.dtype).log_()
    top = value.masked_fill_(barred, -torch.inf).topk(k, dim=1)
    best, chosen = top.values, index.gather(1, top.indices)
    if not bool(best.isfinite().all()):
        raise space.overflow()
    if seed is None:
        return chosen

    low = space.least_cost_beyond(cost.masked_fill_(missing, 0.0).amax(1))
    log_rate = (size.double().log() + base - low).masked_fill_(size <= near, -torch.inf)
    if space.skip_self:  # among equals a row may be missing from its own neighbours
        index = torch.cat([index, row[:, None]], 1)
    rows = _Rows(row, key, start, size, index, base, low, log_rate, torch.zeros_like(base), best, chosen)
    left, seen, count = (rows.limit() > 0).nonzero()[:, 0], 0, FIRST_ROUND
    while len(left):
        for part in space.parts(left, count):
            some = rows.take(part)
            _let_next_arrive(space, some, seed, seen, count)
            rows.put(part, some)
        seen, count = seen + count, 2 * count
        left = left[(rows.elapsed < rows.limit())[left]]
        in_vain = seen > VAIN * size[left]
        for part in space.parts(left[in_vain], int(size.max())):
            some = rows.take(part)
            _let_all_arrive(space, some, seed)
            rows.put(part, some)
        left = left[~in_vain]
    return rows.chosen


def _let_next_arrive(space: _Space, rows: _Rows, seed: int, seen: int, count: int) -> None:
    """The arrivals [seen, seen + count) of the process that dominates the far points, thinned."""
    number = torch.arange(seen, seen + count, device=rows.row.device)
    columns = torch.cat([_ARRIVALS + 3 * number + use for use in range(3)])
    gap, whose, patience = exponential_noise(seed, rows.key, columns, torch.float64).chunk(3, dim=1)
    time = rows.elapsed[:, None] + gap.cumsum(1)
    r, a = (time < rows.limit()[:, None]).nonzero(as_tuple=True)
    rows.elapsed = time[:, -1]
    size = rows.size[r]
    j = rows.start[r] + torch.minimum((-(-whose[r, a]).expm1() * size).long(), size - 1)  # 1 - exp(-E) is uniform
    kept = patience[r, a] >= space.cost(rows.row[r], j) - rows.low[r]  # P(E >= c) = exp(-c)
    r, a, j = r[kept], a[kept], j[kept]
    new = (rows.not_far()[r] != j[:, None]).all(1)
    r, a, j = r[new], a[new], j[new]

    # Who arrives twice has arrived the first time: a stable sort by pairs leaves that in front.
    pair, order = (r * len(space.points) + j).sort(stable=True)
    order = order[pair.diff(prepend=pair.new_tensor([-1])) > 0]
    r, a, j = r[order], a[order], j[order]
    arrivals = r.bincount(minlength=len(time))
    slot = torch.arange(len(r), device=r.device) - (arrivals.cumsum(0) - arrivals)[r]
    value = time.new_full((len(time), int(arrivals.max())), -torch.inf)
    index = torch.zeros_like(value, dtype=torch.long)
    value[r, slot], index[r, slot] = rows.log_rate[r] - time[r, a].log(), j
    rows.merge(value, index)


def _let_all_arrive(space: _Space, rows: _Rows, seed: int) -> None:
    """Give every far point that has not arrived yet a time of its own, counted from now on."""
    column = torch.arange(int(rows.size.max()), device=rows.row.device)
    inside = column < rows.size[:, None]
    index = (rows.start[:, None] + column).masked_fill_(~inside, 0)
    not_far = rows.not_far()
    place = torch.where(not_far < 0, len(column), not_far - rows.start[:, None])
    far = torch.nn.functional.pad(inside, (0, 1)).scatter_(1, place, False)[:, :-1]
    wait = exponential_noise(seed, rows.key, _DIRECT + column, torch.float64).log_()
    wait += space.cost(rows.row[:, None], index) - rows.base[:, None]
    now = rows.elapsed.log() - rows.log_rate
    value = -torch.logaddexp(now[:, None], wait)
    rows.merge(value.masked_fill_(~far, -torch.inf), index)


# The space, as KeOps sees it


class _Space:
    """The points of a population: for KeOps in their own precision, for all else in double precision."""

    def __init__(self, population: Population, temperature: float) -> None:
        self.geometry, self.temperature = population.geometry, temperature
        self.keys, self.skip_self = population.keys, population.skip_self
        self.x_hat, self.points = population.x_hat.double(), population.points.double()
        d = self.points.shape[1]
        self.reach = max(float(x.abs().max()) for x in (self.x_hat, self.points))
        if (largest := 4.0 * d * self.reach * self.reach) > 1e290:
            raise self.overflow()
        # KeOps keeps numbers of points as floats: single precision has 2^24 of them.
        single = population.x_hat.dtype == torch.float32 and largest < 1e30 and len(self.points) < 1 << 24
        self.dtype = torch.float32 if single else torch.float64

        # A point may be nearer by these margins than one that KeOps takes for nearer: rounding of sums and functions
        # (more on a GPU than on a CPU), squares that underflow, and arsinh written with a logarithm.
        info = torch.finfo(self.dtype)
        self.relative = (d + 32) * info.eps
        self.absolute = 1e7 * math.sqrt(info.tiny) + 32 * info.eps * _largest_radius(self.geometry)

    def parts(self, rows: Tensor, candidates: int) -> Iterator[Tensor]:
        """Cut a list of rows such that each part fits into memory with so many candidates for each row."""
        if len(rows):
            yield from rows.split(max(1, HELD // (candidates * self.points.shape[1])))

    def cost(self, row: Tensor, index: Tensor) -> Tensor:
        """t dist^2 between rows and points, by their numbers, with broadcasting."""
        return self.temperature * self.geometry.sq_dist(self.x_hat[row], self.points[index])

    def least_cost_beyond(self, cost: Tensor) -> Tensor:
        """The least that a point can cost which KeOps does not take for nearer than one of this cost."""
        dist = (cost / self.temperature).sqrt()
        if isinstance(self.geometry, Sphere):  # by chords, which hardly grow any more near the antipode
            dist = 2 * ((dist / 2).sin() * (1 - self.relative)).asin()
        return self.temperature * (dist * (1 - self.relative) - self.absolute).clamp_min(0.0).square()

    def nearest(self, row: Tensor, start: Tensor, size: Tensor, near: int) -> Tensor:
        """The `near` nearest of the points [start, start + size), or all of them followed by zeros: (r, near)."""
        start, count = torch.unique_consecutive(start, return_counts=True)
        stop = count.cumsum(0)
        columns = torch.stack([start, start + size.index_select(0, stop - 1)], 1)
        ranges = torch.stack([stop - count, stop], 1), torch.arange(1, len(stop) + 1, device=row.device), columns
        x = self.x_hat.index_select(0, row)
        _compile_once(self.geometry, x, self.dtype, near)
        return _arg_k_min(self.geometry, x, self.points, self.dtype, near, ranges)

    def overflow(self) -> InputError:
        return InputError(
            f"log p = -t dist^2 overflows to -inf with temperature={self.temperature} and coordinates up to "
            f"{self.reach:.3g}. Scale one of them down, and check the training for divergence."
        )


def _arg_k_min(
    geometry: Geometry, x: Tensor, y: Tensor, dtype: torch.dtype, near: int, ranges: tuple[Tensor, Tensor, Tensor]
) -> Tensor:
    """Numbers of the `near` nearest y for each x, block by block: rows, last column block, columns of each range."""
    match geometry:  # within a row a single space is ordered as its chords are
        case Euclidean() | Sphere():
            order = _sq_chord(x, y, dtype)
        case PoincareBall():
            order = _sq_chord(x, y, dtype) * _lazy((1 / _gap(geometry, y))[None], dtype)
        case _:
            order = _lazy_sq_dist(geometry, x, y, dtype)
    rows, slices, columns = ranges
    order.ranges = rows, slices, columns, columns, slices, rows  # the second half is for sums over rows
    return order.argKmin(near, dim=1)


def _lazy_sq_dist(geometry: Geometry, x: Tensor, y: Tensor, dtype: torch.dtype) -> Any:
    """All squared distances, as a formula: what `sq_cdist` of the geometry computes."""
    match geometry:
        case Sphere():
            return (2 * _sq_chord(x, y, dtype).sqrt().atan2(_sq_chord(x, -y, dtype).sqrt())).square()
        case PoincareBall(curvature=c):
            gaps = _lazy(_gap(geometry, x)[:, None], dtype) * _lazy(_gap(geometry, y)[None], dtype)
            z = c * _sq_chord(x, y, dtype) / gaps
            return (4 / c) * (z.sqrt() + (z + 1).sqrt()).log().square()  # arsinh(sqrt(z))
        case Product(factors=factors):
            dims = [dim for _, dim in factors]
            parts = zip(factors, x.split(dims, 1), y.split(dims, 1), strict=True)
            return sum(_lazy_sq_dist(factor, px, py, dtype) for (factor, _), px, py in parts)
        case _:
            return _sq_chord(x, y, dtype)


def _sq_chord(x: Tensor, y: Tensor, dtype: torch.dtype) -> Any:
    return _lazy(x[:, None], dtype).sqdist(_lazy(y[None], dtype))


def _gap(ball: PoincareBall, x: Tensor) -> Tensor:
    """1 - c |x|^2 of points of the ball: (n, 1)."""
    return 1 - ball.curvature * x.square().sum(1, keepdim=True)


def _lazy(x: Tensor, dtype: torch.dtype) -> Any:
    return LazyTensor(x.to(dtype).contiguous())


def _check_geometry(geometry: Geometry) -> None:
    match geometry:
        case Euclidean() | Sphere(curvature=1.0) | PoincareBall():
            pass
        case Product(factors=factors):
            for factor, _ in factors:
                _check_geometry(factor)
        case _:
            raise InputError(f'backend="keops" has no formula for {geometry!r}. Use backend="torch" or "auto".')


def _largest_radius(geometry: Geometry) -> float:
    """Of the balls of a geometry; 0 if there are none."""
    match geometry:
        case PoincareBall(curvature=c):
            return 1 / math.sqrt(c)
        case Product(factors=factors):
            return sum(_largest_radius(factor) for factor, _ in factors)
        case _:
            return 0.0


_compiled: set[tuple[str, int, torch.dtype, int, str]] = set()


def _compile_once(geometry: Geometry, x: Tensor, dtype: torch.dtype, near: int) -> None:
    """Have KeOps compile a formula, unless it has one from before, and tell the user if it takes long.

    One process at a time: KeOps takes a library for ready that another process is still writing.
    """
    formula = (repr(geometry), x.shape[1], dtype, near, x.device.type)
    if formula in _compiled:
        return
    pykeops.set_verbose(False)
    message = "latentgraph: KeOps compiles a formula, once for this machine (about ten seconds) ..."
    timer = threading.Timer(PATIENCE, lambda: print(message, file=sys.stderr, flush=True))
    timer.daemon = True
    timer.start()
    # Two rows: KeOps takes a single one for a parameter, and compiles another formula.
    two, rows = x[:1].expand(2, -1).contiguous(), torch.tensor([[0, 2]], device=x.device)
    try:
        with open(Path(pykeops.get_build_folder()) / "latentgraph.lock", "w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            _arg_k_min(geometry, two, two, dtype, near, (rows, torch.ones(1, dtype=torch.long, device=x.device), rows))
    except ImportError:
        raise InputError(
            'backend="keops" could not compile its formula: it needs a C++ compiler (g++, or the one that the '
            'environment variable CXX names) and the headers of Python. Install them, or use backend="torch".'
        ) from None
    finally:
        timer.cancel()
    _compiled.add(formula)
