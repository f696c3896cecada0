"""Distances against geoopt and against the formulas with 75 digits; gradients from 1e-15 to the boundary."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from mpmath import mp  # type: ignore[import-untyped]
from torch import Tensor

from latentgraph import Euclidean, InputError, PoincareBall, Product, Sphere
from latentgraph.geometry import Geometry
from spaces import SPACES, Space, every_dtype, every_space

fixed = settings(derandomize=True, deadline=None, max_examples=30, database=None)
seeds = st.integers(0, 2**32 - 1)
dims = st.integers(2, 9)
radii = st.floats(-3, math.log10(0.99)).map(lambda power: 10.0**power)
curvatures = st.floats(-2, 2).map(lambda power: 10.0**power)
EPS = {torch.float32: 1e-5, torch.float64: 1e-10}  # distance to the boundary of the ball at which points are clipped


def rounding(dtype: torch.dtype, relative_radius: float = 0.0) -> float:
    """Relative error of a distance that rounding explains: 1 - c|x|^2 keeps fewer digits near the boundary."""
    return 16 * torch.finfo(dtype).eps * (1 + 1 / (1 - relative_radius**2))


def exact(space: Space, x: Tensor, y: Tensor, c: float) -> float:
    return float(space.exact([mp.mpf(v) for v in x.tolist()], [mp.mpf(v) for v in y.tolist()], mp.mpf(c)))


@every_space
@every_dtype
def test_distance_equals_geoopt(space: Space, dtype: torch.dtype) -> None:
    """A wrong formula. Where geoopt clamps (close or antipodal points), the 75-digit formula decides instead."""
    pairs = decided_by_geoopt = 0

    @fixed
    @given(seeds, dims, radii, curvatures)
    def check(seed: int, dim: int, radius: float, c: float) -> None:
        nonlocal pairs, decided_by_geoopt
        x, y = (space.points(48, dim, radius, c, dtype, seed + i) for i in (0, 1))
        ours = space.geometry(c).sq_dist(x, y)
        assert ours.dtype == dtype
        assert ours.shape == (48,)
        # The oracle wants unit vectors to double precision; this moves no point of the other spaces.
        x64, y64 = (space.geometry(c).project(v.double()) for v in (x, y))
        ours, theirs = ours.double().sqrt(), space.oracle(c).dist2(x64, y64).sqrt()
        agree = (ours - theirs).abs() <= (rounding(dtype, radius) + 1e-9) * theirs
        for i in (~agree).nonzero()[:, 0].tolist():
            truth = exact(space, x64[i], y64[i], c) ** 0.5
            assert float(ours[i]) == pytest.approx(truth, rel=rounding(dtype, radius), abs=torch.finfo(dtype).eps)
        pairs += len(agree)
        decided_by_geoopt += int(agree.sum())

    check()
    assert pairs >= 1000
    assert decided_by_geoopt >= 1000


@every_space
@every_dtype
@fixed
@given(seed=seeds, dim=dims, radius=radii, c=curvatures)
def test_all_pairs_equal_row_by_row(
    space: Space, dtype: torch.dtype, seed: int, dim: int, radius: float, c: float
) -> None:
    """A sampler (all pairs) and the log-probabilities of its edges (row by row) that disagree."""
    geometry = space.geometry(c)
    x, y = space.points(7, dim, radius, c, dtype, seed), space.points(5, dim, radius, c, dtype, seed + 1)
    all_pairs = geometry.sq_cdist(x, y)
    assert all_pairs.shape == (7, 5)
    torch.testing.assert_close(
        geometry.sq_dist(x[:, None], y[None, :]), all_pairs, rtol=2 * rounding(dtype, radius), atol=0
    )
    for j in range(5):
        torch.testing.assert_close(geometry.sq_dist(x, y[j]), all_pairs[:, j], rtol=2 * rounding(dtype, radius), atol=0)


@every_space
@every_dtype
@fixed
@given(seed=seeds, dim=dims, radius=radii, c=curvatures)
def test_metric(space: Space, dtype: torch.dtype, seed: int, dim: int, radius: float, c: float) -> None:
    """Not a metric: asymmetric, negative, nonzero for coincident points, zero for others, or with shortcuts."""
    geometry = space.geometry(c)
    x, y, z = (space.points(20, dim, radius, c, dtype, seed + i) for i in range(3))
    xy = geometry.sq_dist(x, y)
    assert torch.equal(xy, geometry.sq_dist(y, x))
    # To the bit, but for angles: at the end of a row one is computed alone, the others eight or sixteen at a time.
    rtol = 4 * torch.finfo(dtype).eps if space.name in ("sphere", "product") else 0
    torch.testing.assert_close(geometry.sq_cdist(x, y), geometry.sq_cdist(y, x).T, rtol=rtol, atol=0)
    assert bool((xy > 0).all())
    assert torch.equal(geometry.sq_dist(x, x.clone()), torch.zeros(20, dtype=dtype))
    assert torch.equal(geometry.sq_cdist(x, x.clone()).diagonal(), torch.zeros(20, dtype=dtype))
    longest = (xy.double().sqrt() + geometry.sq_dist(y, z).double().sqrt()) * (1 + rounding(dtype, radius))
    assert bool((geometry.sq_dist(x, z).double().sqrt() <= longest).all())


def stretch(space: Space, x: Tensor, c: float) -> float:
    """How much longer a short step is in the space than in coordinates: 2 / (1 - c|x|^2) in the ball, else 1."""
    step = mp.mpf(10) ** -25
    start = [mp.mpf(a) for a in x.tolist()]
    steps = ([a + step * (i == j) for j, a in enumerate(start)] for i in range(len(start)))
    return max(float(mp.sqrt(space.exact(start, end, mp.mpf(c))) / step) for end in steps)


def exact_slope(space: Space, x: Tensor, y: Tensor, along: Tensor, c: float) -> float:
    step = mp.mpf(10) ** -25
    ends = ([mp.mpf(a) + h * mp.mpf(b) for a, b in zip(x.tolist(), along.tolist(), strict=True)] for h in (step, -step))
    ahead, behind = (space.exact(end, [mp.mpf(b) for b in y.tolist()], mp.mpf(c)) for end in ends)
    return float((ahead - behind) / (2 * step))


@every_space
@every_dtype
@pytest.mark.parametrize("c", [0.25, 9.0])
def test_value_and_slope_have_their_digits(space: Space, dtype: torch.dtype, c: float) -> None:
    """Lost digits: distances and gradients against 75 digits, near and far, from the origin to the boundary."""
    geometry, eps = space.geometry(c), torch.finfo(dtype).eps
    directions = torch.randn(3, space.width or 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    u, v, w = directions.unbind()
    for norm in (0.0, 1e-15, 1e-10, 1e-5, 0.1, 0.7, 0.99, 1 - 1e-4, 1 - 1e-7, 1.0):
        for separation in (1e-15, 1e-12, 1e-8, 1e-4, 0.1, 2.0):
            x = geometry.project((norm / c**0.5 * u / u.norm()).to(dtype))
            y = geometry.project(x + (separation / c**0.5 * v / v.norm()).to(dtype))
            truth = exact(space, x, y, c)
            # The sources of error: rounding; 1 - c|x|^2 near the boundary; unit vectors that are off the sphere.
            rel = 64 * eps * (stretch(space, x, c) + stretch(space, y, c))
            off = space.off * eps
            x.requires_grad_()
            along = torch.func.jvp(geometry.project, (x.detach(),), (w.to(dtype),))[1]  # w in the tangent space
            where = f"{norm=} {separation=}"
            for distance in (geometry.sq_dist(x, y), geometry.sq_cdist(x[None], y[None])[0, 0]):
                (slope,) = torch.autograd.grad(distance, x)
                assert distance.item() == pytest.approx(truth, rel=rel, abs=off**2), where
                bound = (rel * float(slope.double().norm()) + off + 1e-30) * float(along.double().norm())
                true_slope = exact_slope(space, x.detach(), y, along, c)
                assert float(slope.double() @ along.double()) == pytest.approx(true_slope, rel=0, abs=bound), where


def test_slope_error_of_the_step_is_below_the_checked_digits() -> None:
    """The oracle itself: its difference quotient against the derivative 4 artanh(r) / (1 - r^2) * 2 of d(0, r)^2."""
    ball = next(space for space in SPACES if space.name == "ball")
    for r in (1e-15, 1e-3, 0.5, 1 - 1e-10):
        x, zero, one = torch.tensor([r, 0.0], dtype=torch.float64), torch.zeros(2), torch.tensor([1.0, 0.0])
        by_hand = 8 * mp.atanh(mp.mpf(r)) / (1 - mp.mpf(r) ** 2)
        assert exact_slope(ball, x, zero, one, 1.0) == pytest.approx(float(by_hand), rel=1e-14)
        assert exact(ball, x, zero, 1.0) == pytest.approx(float(4 * mp.atanh(mp.mpf(r)) ** 2), rel=1e-14)


@every_space
@pytest.mark.parametrize("c", [0.5, 2.0])
def test_gradcheck(space: Space, c: float) -> None:
    """A wrong backward pass, for one argument or the other: at the origin, at coincident and at ordinary points."""
    geometry = space.geometry(c)
    x = space.points(4, 3, 0.8, c, torch.float64, seed=3)
    origin = geometry.project(torch.zeros_like(x[:1]))
    x = torch.cat([x, origin, origin]).requires_grad_()
    y = torch.cat([x.detach()[[1, 1, 3, 2]], origin, x.detach()[:1]]).requires_grad_()
    assert torch.autograd.gradcheck(geometry.sq_dist, (x, y))
    assert torch.autograd.gradcheck(geometry.sq_cdist, (x, y))
    assert torch.autograd.gradcheck(lambda x: geometry.sq_cdist(x, x), (x,))
    outside = (3 / c**0.5 * torch.cat([x.detach()[:4] + 0.1, -x.detach()[:4]])).requires_grad_()
    assert torch.autograd.gradcheck(geometry.project, (outside,))


@every_space
@every_dtype
@pytest.mark.parametrize("c", [0.1, 1.0, 10.0])
def test_gradients_are_finite_everywhere(space: Space, dtype: torch.dtype, c: float) -> None:
    """A nan in training: zero vectors, coincident, opposite, tiny and huge ones, alone and in every combination."""
    geometry = space.geometry(c)
    direction = torch.randn(space.width or 4, generator=torch.Generator().manual_seed(5), dtype=dtype)
    largest = 1e30 if space.name == "ball" or space.name == "sphere" else 1e15  # else dist^2 itself overflows
    sizes = [0.0, 1e-30, 1e-15, 1e-7, 0.1, 1 - EPS[dtype], 1.0, 1 + 1e-6, 10.0, largest]
    vectors = torch.stack([sign * size * direction / c**0.5 for size in sizes for sign in (1, -1)])
    for all_pairs in (True, False):
        x, y = vectors.clone().requires_grad_(), vectors.clone().requires_grad_()
        px, py = geometry.project(x), geometry.project(y)
        sq_dist = geometry.sq_cdist(px, py) if all_pairs else geometry.sq_dist(px[:, None], py[None, :])
        assert bool(sq_dist.isfinite().all())
        assert bool((sq_dist >= 0).all())
        sq_dist.sum().backward()
        assert x.grad is not None
        assert y.grad is not None
        assert bool(x.grad.isfinite().all())
        assert bool(y.grad.isfinite().all())


@every_space
@every_dtype
@pytest.mark.parametrize("shape", [(), (3,), (2, 3)])
def test_project_for_every_shape_and_size(space: Space, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    """Projected points that are not finite, not fixed under a second projection, or computed over the wrong axis."""
    geometry = space.geometry(2.0)
    x = torch.randn(*shape, space.width or 4, generator=torch.Generator().manual_seed(6), dtype=dtype)
    for size in (0.0, 1e-30, 1e-3, 1.0, 1e3, 1e30):
        before = size * x
        after = geometry.project(before.clone())
        assert after.shape == before.shape
        assert after.dtype == dtype
        assert bool(after.isfinite().all())
        torch.testing.assert_close(geometry.project(after), after, rtol=8 * torch.finfo(dtype).eps, atol=0)
        flat = torch.stack([geometry.project(row) for row in before.reshape(-1, x.shape[-1])])
        assert torch.equal(after.reshape(flat.shape), flat)


@every_dtype
@pytest.mark.parametrize("c", [1e-2, 1.0, 7.0, 1e2])
@pytest.mark.parametrize("dim", [1, 2, 5, 64])
def test_ball_leaves_points_inside_alone(dtype: torch.dtype, c: float, dim: int) -> None:
    """Points of the ball moved, if only by rounding, or their gradient scaled."""
    ball = PoincareBall(c)
    limit = (1 - EPS[dtype]) / c**0.5
    directions = torch.randn(200, dim, generator=torch.Generator().manual_seed(7), dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    inside = 1 - 4 * torch.finfo(dtype).eps
    sizes = torch.tensor([0.0, 1e-40, 1e-30, 1e-15, 1e-3, 0.5, 0.99, inside], dtype=torch.float64)
    x = (directions * limit * sizes.repeat(25)[:, None]).to(dtype).requires_grad_()
    projected = ball.project(x)
    assert torch.equal(projected, x)
    weights = torch.randn(x.shape, generator=torch.Generator().manual_seed(8), dtype=dtype)
    (gradient,) = torch.autograd.grad((projected * weights).sum(), x)
    assert torch.equal(gradient, weights)


@every_dtype
@pytest.mark.parametrize("c", [1e-2, 1.0, 7.0, 1e2])
@pytest.mark.parametrize("dim", [1, 2, 5, 64])
def test_ball_clips_points_outside(dtype: torch.dtype, c: float, dim: int) -> None:
    """Points at infinity, beyond the boundary, turned away from their direction, or clipped too far inside."""
    eps = torch.finfo(dtype).eps
    directions = torch.randn(60, dim, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    sizes = torch.tensor([1 - EPS[dtype] / 2, 1.0, 1 + 1e-6, 2.0, 1e10, 1e30], dtype=torch.float64).repeat(10)
    projected = PoincareBall(c).project((directions * sizes[:, None] / c**0.5).to(dtype)).double()
    relative_norm = projected.norm(dim=1) * c**0.5
    torch.testing.assert_close(relative_norm, torch.full_like(relative_norm, 1 - EPS[dtype]), rtol=0, atol=4 * eps)
    assert bool((relative_norm < 1).all())
    torch.testing.assert_close(projected * c**0.5, directions * (1 - EPS[dtype]), rtol=0, atol=4 * eps)


@every_dtype
def test_sphere_project(dtype: torch.dtype) -> None:
    """Points off the sphere, also from vectors whose squares over- or underflow; zero without a direction."""
    sphere = Sphere()
    directions = torch.randn(50, 3, generator=torch.Generator().manual_seed(10), dtype=torch.float64)
    directions /= directions.norm(dim=1, keepdim=True)
    for size in (1e-30, 1e-6, 1.0, 1e6, 1e30):
        projected = sphere.project((size * directions).to(dtype)).double()
        torch.testing.assert_close(projected, directions, rtol=0, atol=4 * torch.finfo(dtype).eps)
    pole = torch.tensor([1.0, 0.0, 0.0], dtype=dtype)
    assert torch.equal(sphere.project(torch.zeros(2, 3, dtype=dtype)), pole.expand(2, 3))
    assert torch.equal(sphere.project(-torch.zeros(3, dtype=dtype)), pole)
    assert torch.equal(sphere.project(torch.tensor([-5.0], dtype=dtype)), -pole[:1])


@every_dtype
def test_sphere_project_below_the_normal_numbers(dtype: torch.dtype) -> None:
    """A vector of subnormal numbers has too few digits to be a direction; it must still land on the sphere."""
    x = (torch.tensor([0.3, -0.2, 0.1], dtype=dtype) * torch.finfo(dtype).tiny).requires_grad_()
    projected = Sphere().project(x)
    assert float(projected.detach().norm()) == pytest.approx(1.0)
    (gradient,) = torch.autograd.grad(projected.sum(), x)
    assert bool(gradient.isfinite().all())


def test_sphere_gradient_stays_on_the_sphere() -> None:
    """A gradient that pushes along x, where the projection cannot follow."""
    x = torch.randn(20, 4, generator=torch.Generator().manual_seed(11), dtype=torch.float64).requires_grad_()
    y = Sphere().project(torch.randn(20, 4, generator=torch.Generator().manual_seed(12), dtype=torch.float64))
    (gradient,) = torch.autograd.grad(Sphere().sq_dist(Sphere().project(x), y).sum(), x)
    assert bool((gradient.norm(dim=1) > 0.1).all())
    assert float((gradient * x.detach()).sum(1).abs().max()) < 1e-12


@every_dtype
def test_sphere_by_hand(dtype: torch.dtype) -> None:
    """Right angles, antipodes (also of long decimals) and the smallest angles."""
    axes = torch.eye(3, dtype=dtype)
    right = torch.full((3, 3), math.pi / 2, dtype=dtype).fill_diagonal_(0.0)
    torch.testing.assert_close(Sphere().sq_cdist(axes, axes).sqrt(), right)
    torch.testing.assert_close(Sphere().sq_cdist(axes, -axes).sqrt().diagonal(), torch.full((3,), math.pi, dtype=dtype))
    x = Sphere().project(torch.tensor([0.1, 0.2, -0.7], dtype=dtype))
    assert Sphere().sq_dist(x, -x).item() == pytest.approx(math.pi**2)
    close = torch.tensor([1.0, 1e-12, 0.0], dtype=dtype)
    assert Sphere().sq_dist(axes[0], close).item() == pytest.approx(1e-24, rel=1e-5)


@pytest.mark.parametrize("c", [0.01, 0.3, 1.0, 50.0])
def test_ball_by_hand(c: float) -> None:
    """The role of the curvature: d(0, x) = 2 artanh(sqrt(c) |x|) / sqrt(c), and a change of units."""
    radii = torch.tensor([1e-9, 0.01, 0.5, 0.9, 0.999999], dtype=torch.float64)
    x = torch.stack([radii / c**0.5, torch.zeros(5)], 1)
    expected = (2 / c**0.5 * radii.atanh()).square()
    torch.testing.assert_close(PoincareBall(c).sq_dist(x, torch.zeros(2)), expected, rtol=1e-9, atol=0)
    y = torch.tensor([0.1, -0.3], dtype=torch.float64) / c**0.5
    in_unit_ball = PoincareBall(1.0).sq_dist(x * c**0.5, y * c**0.5)
    torch.testing.assert_close(PoincareBall(c).sq_dist(x, y) * c, in_unit_ball, rtol=1e-9, atol=0)


def test_ball_of_no_curvature_is_flat() -> None:
    """The limit c -> 0: twice the distance of the plane."""
    x, y = torch.randn(2, 10, 3, generator=torch.Generator().manual_seed(13), dtype=torch.float64)
    torch.testing.assert_close(PoincareBall(1e-12).sq_dist(x, y), 4 * Euclidean().sq_dist(x, y))


@pytest.mark.parametrize("curvature", [0.0, -1.0, math.nan, math.inf])
def test_ball_refuses_other_curvatures(curvature: float) -> None:
    with pytest.raises(InputError, match=rf"curvature={curvature} .* positive"):
        PoincareBall(curvature)


@every_dtype
def test_product_splits_and_adds(dtype: torch.dtype) -> None:
    """A factor that reads its neighbour's coordinates, or a square root before the sum."""
    parts: list[tuple[Geometry, int]] = [(Sphere(), 3), (Euclidean(), 1), (PoincareBall(2.0), 2), (Euclidean(), 2)]
    space = Product(parts)
    x, y = 2 * torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(14), dtype=dtype)
    edges = [(0, 3), (3, 4), (4, 6), (6, 8)]
    by_hand = torch.cat([g.project(x[:, a:b]) for (g, _), (a, b) in zip(parts, edges, strict=True)], 1)
    assert torch.equal(space.project(x), by_hand)
    px, py = space.project(x), space.project(y)
    added = torch.zeros(6, 6, dtype=dtype)
    for (g, _), (a, b) in zip(parts, edges, strict=True):
        added += g.sq_cdist(px[:, a:b], py[:, a:b])
    torch.testing.assert_close(space.sq_cdist(px, py), added)
    torch.testing.assert_close(space.sq_dist(px, py), added.diagonal(), rtol=1e-4, atol=0)
    torch.testing.assert_close(Product([(space, 8)]).sq_cdist(px, py), added)


def test_product_refuses_a_wrong_width() -> None:
    """Coordinates silently dropped; every method must say how many came and how many there should be."""
    space = Product([(Euclidean(), 2), (Sphere(), 3)])
    right, wrong = torch.ones(4, 5), torch.ones(4, 6)
    message = r"6 coordinates .* 2\+3 = 5"
    with pytest.raises(InputError, match=message):
        space.project(wrong)
    for x, y in ((right, wrong), (wrong, right)):
        with pytest.raises(InputError, match=message):
            space.sq_dist(x, y)
        with pytest.raises(InputError, match=message):
            space.sq_cdist(x, y)


@pytest.mark.parametrize("factors", [[], [(Euclidean(), 0)], [(Sphere(), 2), (Euclidean(), -1)]])
def test_product_refuses_empty_factors(factors: list[tuple[Geometry, int]]) -> None:
    with pytest.raises(InputError, match=r"at least one .* dim >= 1"):
        Product(factors)


def test_geometries_are_values() -> None:
    """Equal settings that are not equal objects: a saved model would not match itself."""
    assert PoincareBall(2.0) == PoincareBall(2.0) != PoincareBall(1.0)
    factors: list[tuple[Geometry, int]] = [(Euclidean(), 2), (Sphere(), 3)]
    assert Product(factors) == Product(tuple(factors)) != Product(factors[::-1])
    assert len({Product(factors), Product(factors), Euclidean(), Euclidean()}) == 2
