"""Point clouds: together in one call, varied in training, scored by intersection over union."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import Tensor

from latentgraph.baselines.nearest_points import NearestPoints
from latentgraph.checkpoint import Checkpoint
from latentgraph.clouds import (
    Cloud,
    augmented,
    in_portions,
    in_unit_sphere,
    jittered,
    random_batches,
    shifted,
    some_points,
    stretched,
    together,
)
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph
from latentgraph.layers import DiscreteDGM
from latentgraph.loss import SampleMeanBaseline
from latentgraph.model import consensus
from latentgraph.presets import PointCloudNet, point_cloud_net, point_net
from latentgraph.segmentation import likeliest_part, mean_iou, shape_iou
from latentgraph.training import NodeSet, TrainState, evaluate, fit


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def cloud(n: int, category: int = 0, seed: int = 0) -> Cloud:
    points = torch.randn(n, 3, generator=seeded(seed))
    return Cloud(points, (points[:, 0] > 0).long() + 2 * category, category)


def small_net(learned: bool = True) -> PointCloudNet:
    with torch.random.fork_rng():
        torch.manual_seed(0)
        return point_cloud_net(k=3, num_parts=4, num_categories=2, embed_dim=2, learned=learned)


CLOUDS = [cloud(12, 0, seed=1), cloud(7, 1, seed=2), cloud(20, 0, seed=3)]


def test_together_keeps_every_point_of_every_cloud() -> None:
    nodes = together(CLOUDS)
    assert nodes.batch is not None
    assert nodes.category is not None
    assert nodes.category.tolist() == [0, 1, 0]
    for number, one in enumerate(CLOUDS):
        assert torch.equal(nodes.x[nodes.batch == number], one.points)
        assert torch.equal(nodes.y[nodes.batch == number], one.part)
    portions = in_portions(CLOUDS, 2)
    assert [len(part.x) for part in portions] == [19, 20]
    assert torch.equal(torch.cat([part.x for part in portions]), nodes.x)
    with pytest.raises(InputError, match="no cloud"):
        together([])


def nearly_certain() -> PointCloudNet:
    """A learned graph whose temperature leaves nothing to chance: a cloud alone and in a batch meets other noise."""
    net = small_net()
    for dgm in net.backbone.dgms:
        assert isinstance(dgm, DiscreteDGM)
        dgm.calibrated.fill_(True)
        with torch.no_grad():
            dgm.log_temperature.fill_(20.0)
    return net


@pytest.mark.parametrize(
    "make", [nearly_certain, lambda: small_net(learned=False), lambda: point_net(3, 4, num_categories=2)]
)
def test_a_batch_of_different_sizes_is_one_cloud_at_a_time(make: Callable[[], PointCloudNet]) -> None:
    """Broken: clouds see each other, through neighbours, the whole's feature, its category or the normalisation."""
    net, nodes = make(), together(CLOUDS)
    for _ in range(3):  # statistics that are not those of these clouds one by one
        net(nodes.x + 1, batch=nodes.batch, category=nodes.category)
    mean, _ = consensus(net, nodes.x, batch=nodes.batch, category=nodes.category)
    alone = [consensus(net, one.points, category=torch.tensor([one.category]))[0] for one in CLOUDS]
    torch.testing.assert_close(mean, torch.cat(alone), rtol=1e-4, atol=1e-5)


class Told(torch.nn.Module):
    """A network that writes down what it was told."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(3, 4)
        self.categories: list[list[int]] = []

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor | None = None,
        batch: Tensor | None = None,
        *,
        category: Tensor,
        generator: torch.Generator | None = None,
    ) -> tuple[Tensor, list[LatentGraph]]:
        self.categories.append(category.tolist())
        return self.linear(x), []


def test_the_category_reaches_the_network_in_training_validation_and_consensus() -> None:
    net, nodes = Told(), together(CLOUDS)
    fit(net, nodes, validation=in_portions(CLOUDS, 2), steps=1, eval_samples=1)
    evaluate(net, nodes, samples=1)
    consensus(net, nodes.x, batch=nodes.batch, category=nodes.category, samples=1)
    assert net.categories == [[0, 1, 0], [0, 1], [0], [0, 1, 0], [0, 1, 0]]


def test_evaluation_in_portions_is_that_of_the_whole() -> None:
    """Broken: small portions count as much as large ones."""
    net = small_net(learned=False)
    whole, parts = evaluate(net, together(CLOUDS)), evaluate(net, in_portions(CLOUDS, 2))
    assert whole["accuracy"] == pytest.approx(parts["accuracy"], abs=1e-6)
    assert whole["validation"] == pytest.approx(parts["validation"], abs=1e-4)
    with pytest.raises(InputError, match="no labelled node to evaluate"):
        evaluate(net, [])
    with pytest.raises(InputError, match="validation set has no labelled node"):
        fit(net, together(CLOUDS), validation=[NodeSet(torch.zeros(2, 3), torch.tensor([-1, -1]))], steps=1)


@pytest.mark.parametrize("category", [[0, 1], [0, 1, 2], [0, 1, -1]])
def test_categories_that_do_not_fit_are_refused(category: list[int]) -> None:
    """Broken: too few categories leave the last clouds without one, silently."""
    nodes = together(CLOUDS)
    with pytest.raises(InputError, match="one number for each, 0 to 1"):
        small_net()(nodes.x, batch=nodes.batch, category=torch.tensor(category))


def test_training_on_other_clouds_in_every_step_learns_and_continues_bit_for_bit(tmp_path: Path) -> None:
    """Broken: the category, the batches or the baseline are lost when an interrupted training goes on."""
    train = random_batches(CLOUDS, 2, augmented)
    whole, broken = small_net(), small_net()

    def stop(state: TrainState) -> None:
        if state.step == 3:
            raise KeyboardInterrupt

    def go(net: PointCloudNet, checkpoint: Checkpoint | None, stops: bool = False) -> list[float]:
        return fit(
            net,
            train,
            validation=in_portions(CLOUDS, 2),
            baseline=SampleMeanBaseline(),
            samples=2,
            steps=5,
            eval_every=2,
            eval_samples=1,
            checkpoint=checkpoint,
            callbacks=[stop] if stops else [],
        ).column("loss")

    losses = go(whole, None)
    with pytest.raises(KeyboardInterrupt):
        go(broken, Checkpoint(tmp_path / "kept", seconds=0), stops=True)
    again = small_net()
    assert go(again, Checkpoint(tmp_path / "kept", seconds=0)) == losses
    assert all(torch.equal(again.state_dict()[name], value) for name, value in whole.state_dict().items())


# Augmentation


def test_points_go_into_the_unit_sphere() -> None:
    inside = in_unit_sphere(5 * cloud(50).points + 3)
    assert float(inside.norm(dim=1).max()) == pytest.approx(1, abs=1e-6)
    torch.testing.assert_close(inside.mean(0), torch.zeros(3), atol=1e-6, rtol=0)
    assert torch.equal(in_unit_sphere(torch.full((4, 3), 7.0)), torch.zeros(4, 3))


def test_stretching_has_one_factor_for_each_axis_within_its_bounds() -> None:
    points = torch.ones(5, 3)
    factors = torch.stack([stretched(points, seeded(seed))[0] for seed in range(400)])
    assert all(torch.equal(row, stretched(points, seeded(0))[0]) for row in stretched(points, seeded(0)))
    assert float(factors.min()) == pytest.approx(2 / 3, abs=0.01)
    assert float(factors.max()) == pytest.approx(1.5, abs=0.01)
    assert float(factors.std(1).min()) > 0  # three factors, not one


def test_a_shift_moves_all_points_alike() -> None:
    moved = torch.stack([shifted(cloud(6).points, seeded(seed)) - cloud(6).points for seed in range(400)])
    torch.testing.assert_close(moved, moved[:, :1].expand_as(moved), atol=1e-6, rtol=0)
    assert float(moved.abs().max()) == pytest.approx(0.2, abs=0.01)
    assert abs(float(moved.mean())) < 0.02


def test_jitter_has_its_deviation_and_its_bound() -> None:
    noise = jittered(torch.zeros(20_000, 3), seeded(), deviation=0.02, most=0.03)
    assert float(noise.abs().max()) == pytest.approx(0.03)
    within = noise.abs() < 0.03
    assert float(within.float().mean()) == pytest.approx(math.erf(1.5 / math.sqrt(2)), abs=0.01)
    assert float(jittered(torch.zeros(20_000, 3), seeded()).std()) == pytest.approx(0.01, rel=0.02)


def test_some_points_are_there_once_with_their_parts() -> None:
    one = cloud(30)
    few = some_points(one, 8, seeded())
    rows = [int((one.points == point).all(1).nonzero()) for point in few.points]
    assert len(set(rows)) == 8
    assert torch.equal(few.part, one.part[rows])
    assert len(some_points(one, 99).points) == 30


def test_batches_differ_by_step_and_repeat_by_generator() -> None:
    draw = random_batches(CLOUDS, 2, augmented)
    generator = seeded(1)
    first, second = draw(1, generator), draw(2, generator)
    assert not torch.equal(first.x[:5], second.x[:5])
    assert torch.equal(draw(1, seeded(1)).x, first.x)
    with pytest.raises(InputError, match="choose 1 to 3"):
        random_batches(CLOUDS, 4)


# Scores


def test_iou_by_hand() -> None:
    """Parts 4, 5, 6: 4 is right in 1 of 3 points, 5 in 2 of 4, and 6 is nowhere, which counts one."""
    predicted, true = torch.tensor([4, 4, 5, 5, 5]), torch.tensor([4, 5, 5, 5, 4])
    assert shape_iou(predicted, true, [4, 5]) == pytest.approx((1 / 3 + 2 / 4) / 2)
    assert shape_iou(predicted, true, [4, 5, 6]) == pytest.approx((1 / 3 + 2 / 4 + 1) / 3)
    assert shape_iou(torch.tensor([6, 4]), torch.tensor([4, 4]), [4, 6]) == pytest.approx((1 / 2 + 0) / 2)
    with pytest.raises(InputError, match="2 predictions for 5 points"):
        shape_iou(predicted[:2], true, [4])


def test_means_over_shapes_and_over_categories() -> None:
    """Two shapes of one category and one of another: the first mean counts shapes, the second categories."""
    found = mean_iou([0.2, 0.4, 0.9], [5, 5, 2])
    assert found.instance == pytest.approx(0.5)
    assert found.category == pytest.approx((0.3 + 0.9) / 2)
    assert found.of_category == pytest.approx({5: 0.3, 2: 0.9})


def test_only_parts_of_the_category_are_predicted() -> None:
    scores = torch.tensor([[5.0, 0.0, 1.0, 2.0], [5.0, 3.0, 4.0, 0.0]])
    assert likeliest_part(scores, range(1, 3)).tolist() == [2, 2]
    assert likeliest_part(scores, [0, 3]).tolist() == [0, 0]


def test_the_nearest_labelled_points_of_the_category_vote() -> None:
    """Points of another category, however near, have no say; the majority wins over the nearest."""
    line = torch.tensor([[0.0, 0, 0], [0.2, 0, 0], [0.3, 0, 0], [5.0, 0, 0]])
    known = [Cloud(line, torch.tensor([1, 2, 2, 1]), 0), Cloud(torch.zeros(1, 3), torch.tensor([9]), 1)]
    asked = Cloud(torch.tensor([[0.05, 0, 0], [4.0, 0, 0]]), torch.zeros(2, dtype=torch.long), 0)
    assert NearestPoints(1).fit(known).predict(asked).tolist() == [1, 1]
    assert NearestPoints(3).fit(known).predict(asked).tolist() == [2, 2]
    assert NearestPoints(50).fit(known).predict(asked._replace(category=1)).tolist() == [9, 9]
    with pytest.raises(InputError, match="no cloud of category 7"):
        NearestPoints().fit(known).predict(asked._replace(category=7))
