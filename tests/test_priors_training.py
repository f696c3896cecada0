"""Priors and annealing in training: what is wished for comes, and nothing else changes."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from latentgraph import ContinuousDGM, DGMNet, DiscreteDGM, InputError, LatentGraph
from latentgraph.checkpoint import Checkpoint
from latentgraph.datasets.synthetic import class_tree
from latentgraph.distributed.group import Team
from latentgraph.distributed.partition import Partition
from latentgraph.distributed.working import Shards
from latentgraph.gradients import Softmax
from latentgraph.priors import (
    Anneal,
    Connectivity,
    Degrees,
    Entropy,
    Prior,
    Smoothness,
    Sparsity,
    TreeLike,
    power_law,
)
from latentgraph.priors.law import Law, in_degrees
from latentgraph.stacks import gcn, mlp
from latentgraph.training import History, NodeSet, TrainState, fit
from latentgraph.zero_shot.classes import Classes, arrange
from latentgraph.zero_shot.learned_graph import BestDGM

N, K = 60, 3


def nodes() -> NodeSet:
    """Three clouds far apart, with a few rows far out."""
    generator = torch.Generator().manual_seed(0)
    y = torch.arange(N) % 3
    x = torch.randn(N, 4, generator=generator)
    x[::10] *= 3
    return NodeSet(x + 4 * y[:, None], y)


def network(kind: Callable[..., nn.Module] = DiscreteDGM, **options: Any) -> DGMNet:
    torch.manual_seed(1)
    if kind is DiscreteDGM:
        options = {"k": K, **options}
    return DGMNet([(kind(mlp([4, 16, 3]), **options), gcn([4, 3]))], detach=True)


def seen(net: DGMNet) -> tuple[LatentGraph, Tensor]:
    out, (graph,) = net(nodes().x, generator=torch.Generator().manual_seed(3))
    return graph, out


def perplexity(graph: LatentGraph) -> float:
    return float(Entropy("low", rows=None)(graph, graph.x_hat, graph.x_hat).detach().exp())


# What is wished for, the graph that it is about, and its value afterwards as a share of that without the wish.
WISHES: dict[str, tuple[Prior, Callable[..., nn.Module], float]] = {
    "sure": (Entropy("low"), DiscreteDGM, 0.8),
    "perplexity": (Entropy(20.0), DiscreteDGM, 0.5),
    "perplexity of weights": (Entropy(5.0), ContinuousDGM, 0.5),
    "no hubs": (Degrees(), DiscreteDGM, 0.6),
    "no hubs among weights": (Degrees(), ContinuousDGM, 0.6),
    "hubs": (Degrees(power_law(3.0)), DiscreteDGM, 0.6),
    "connected": (Connectivity(), DiscreteDGM, 0.6),
    "connected by weights": (Connectivity(), ContinuousDGM, 0.6),
    "smooth output": (Smoothness(), DiscreteDGM, 0.6),
    "smooth features": (Smoothness("x"), DiscreteDGM, 0.8),
    "few weights": (Sparsity(), ContinuousDGM, 0.6),
    "a degree": (Sparsity(4.0), ContinuousDGM, 0.3),
    "few sampled": (Sparsity(1.3), DiscreteDGM, 0.5),
    "a tree": (TreeLike(), DiscreteDGM, 0.6),
}


@pytest.mark.parametrize("wish", WISHES)
def test_what_is_wished_for_comes(wish: str) -> None:
    """Against the same training with weight zero."""
    prior, kind, share = WISHES[wish]
    after = {}
    for weight in (0.0, 20.0):
        net = network(kind)
        prior.weight = weight
        history = fit(net, nodes(), priors=[prior], steps=60, lr=0.02)
        assert len(history.column(prior.name)) == 60
        graph, out = seen(net)
        generator = torch.Generator().manual_seed(4)
        after[weight] = float(prior(graph, nodes().x, out, generator=generator).detach())
    assert after[20.0] < share * after[0.0], after


def test_quantities_go_where_they_should() -> None:
    """Not the number that is minimised, but what it is about."""
    plain, sure, unsure, no_hubs = (network() for _ in range(4))
    for net, priors in ((plain, []), (sure, [Entropy("low")]), (unsure, [Entropy("high")]), (no_hubs, [Degrees()])):
        fit(net, nodes(), priors=priors, steps=60, lr=0.02)
    assert perplexity(seen(sure)[0]) < 0.7 * perplexity(seen(plain)[0])
    assert perplexity(seen(unsure)[0]) > 1.5 * perplexity(seen(plain)[0])
    variance = [float(in_degrees(Law.of(seen(net)[0])).detach().var()) for net in (plain, no_hubs)]
    assert variance[1] < 0.5 * variance[0]


def test_all_together_and_every_graph() -> None:
    """Two graph modules: a prior is the sum over both."""
    torch.manual_seed(0)
    net = DGMNet([(DiscreteDGM(mlp([4, 3]), K), gcn([4, 4])), (DiscreteDGM(mlp([7, 3]), K), gcn([4, 3]))])
    priors = [Entropy(8.0), Degrees(), Connectivity(), Smoothness(), Smoothness("x"), Sparsity(), TreeLike()]
    caught: list[TrainState] = []
    history = fit(net, nodes(), priors=priors, steps=4, callbacks=[caught.append])
    names = [f"{name}_prior" for name in ("entropy", "degrees", "connectivity", "smoothness_out", "smoothness_x")]
    assert set(history.rows[0]) == {"step", "loss", *names, "sparsity_prior", "treelike_prior"}
    first, second = caught[0].graphs
    both = Degrees()(first, first.x_hat, first.x_hat) + Degrees()(second, second.x_hat, second.x_hat)
    assert caught[0].values["degrees_prior"] == pytest.approx(float(both.detach()))


def weights_of(net: nn.Module) -> list[Tensor]:
    return list(net.state_dict().values())


def test_a_wish_of_no_weight_changes_nothing() -> None:
    """Those that draw nothing leave the noise of the samples as it was."""
    nets = network(), network()
    fit(nets[0], nodes(), gradient=Softmax(), steps=5)
    fit(nets[1], nodes(), gradient=Softmax(), priors=[Entropy(weight=0.0), Degrees(weight=0.0)], steps=5)
    assert all(torch.equal(a, b) for a, b in zip(*map(weights_of, nets), strict=True))


# Interrupted


def wishful(**more: Any) -> tuple[DGMNet, History]:
    """Priors that draw nodes, a schedule of a temperature that is learned too, early stopping."""
    net = network()
    priors = [Degrees(nodes=20), Entropy(5.0, rows=15), TreeLike(30, weight=0.3), Connectivity(nodes=20)]
    options = {"priors": priors, "anneal": Anneal(0.2, 2.0, 7, learn=True), "gradient": Softmax(), **more}
    return net, fit(net, nodes(), validation=nodes(), eval_every=3, steps=9, **options)


def test_an_interrupted_training_goes_on_to_the_same_bits(tmp_path: Path) -> None:
    whole, history = wishful()
    kept = Checkpoint(tmp_path, seconds=0)
    for stop in (1, 4, 8):

        def cut(state: TrainState, stop: int = stop) -> None:
            if state.step == stop:
                raise InterruptedError

        with pytest.raises(InterruptedError):
            wishful(checkpoint=kept, callbacks=[cut])
    again, continued = wishful(checkpoint=kept)
    assert vars(continued) == vars(history)
    assert all(torch.equal(a, b) for a, b in zip(weights_of(again), weights_of(whole), strict=True))


def test_other_wishes_are_another_training(tmp_path: Path) -> None:
    kept = Checkpoint(tmp_path, seconds=0)
    fit(network(), nodes(), priors=[Degrees()], steps=2, checkpoint=kept)
    with pytest.raises(InputError, match=r"priors=\['Degrees\(weight=1\.0.*anneal=None there, 'Anneal\(start=0\.5"):
        fit(network(), nodes(), priors=[Degrees(weight=2.0)], anneal=Anneal(0.5, 1, 2), steps=2, checkpoint=kept)


# Annealing


@pytest.mark.parametrize("kind", [DiscreteDGM, ContinuousDGM])
def test_the_temperature_follows_the_schedule(kind: Callable[..., nn.Module]) -> None:
    """By a factor on what was set from the data, from the first step on; it is not learned."""
    net, calibrated = network(kind), network(kind)
    expected = float(seen(calibrated)[0].temperature.detach())
    found: list[float] = []
    anneal = Anneal(0.1, 4.0, 5)
    fit(
        net, nodes(), anneal=anneal, steps=7, callbacks=[lambda state: found.append(float(state.graphs[0].temperature))]
    )
    factors = [0.1 * 40 ** (min(step, 4) / 4) for step in range(7)]
    assert found == pytest.approx([expected * factor for factor in factors], rel=1e-4)
    assert float(seen(net)[0].temperature) == pytest.approx(4 * expected, rel=1e-4)


def test_a_schedule_beside_learning() -> None:
    """A factor of one changes nothing: neither what is set from the data, nor the noise, nor what is learned."""
    nets = network(), network()
    fit(nets[0], nodes(), gradient=Softmax(), steps=5)
    fit(nets[1], nodes(), gradient=Softmax(), steps=5, anneal=Anneal(1.0, 1.0, 3, learn=True))
    assert all(torch.equal(a, b) for a, b in zip(*map(weights_of, nets), strict=True))
    fixed = network(temperature=0.7)
    fit(fixed, nodes(), gradient=Softmax(), steps=5, anneal=Anneal(1.0, 1.0, 3))
    assert float(seen(fixed)[0].temperature) == pytest.approx(0.7)
    assert not torch.equal(weights_of(fixed)[-1], weights_of(nets[0])[-1])


def test_the_kept_weights_have_the_temperature_of_their_step() -> None:
    net = network(temperature=1.0)
    history = fit(net, nodes(), validation=nodes(), eval_every=2, steps=6, lr=0.5, anneal=Anneal(1.0, 32.0, 6))
    assert float(seen(net)[0].temperature) == pytest.approx(2.0 ** (history.best_step - 1), rel=1e-4)
    last = network(temperature=1.0)
    fit(last, nodes(), steps=3, anneal=Anneal(1.0, 32.0, 6))
    assert float(seen(last)[0].temperature) == pytest.approx(4, rel=1e-4)


def test_factors() -> None:
    assert Anneal(3.0, 5.0, 1).factor(1) == pytest.approx(5)
    for wrong in ({"start": 0.0}, {"end": -1.0}, {"steps": 0}, {"end": float("inf")}):
        with pytest.raises(InputError, match="positive and finite"):
            Anneal(**{"start": 1.0, "end": 1.0, "steps": 5, **wrong})  # type: ignore[arg-type]


# What is refused


def test_processes_that_share_a_training_are_refused() -> None:
    team = Team(0, 2)
    for sharing in (Partition.of(N, team), Shards(team)):
        for wish in ({"priors": [TreeLike()]}, {"anneal": Anneal(1.0, 2.0, 3)}):
            with pytest.raises(InputError, match="whole graphs in one process, but several share this training"):
                fit(network(), nodes(), steps=1, sharing=sharing, **wish)


def test_networks_without_a_graph_are_refused() -> None:
    plain = DGMNet([(None, nn.Linear(4, 3))])
    with pytest.raises(InputError, match="the network has returned none"):
        fit(plain, nodes(), priors=[TreeLike()], steps=1)
    with pytest.raises(InputError, match="no graph module whose temperature"):
        fit(plain, nodes(), anneal=Anneal(1.0, 2.0, 3), steps=1)


# The class graph of zero-shot learning


class TreeDGM(BestDGM):
    weight = 0.0

    def training(self, classes: Classes) -> dict[str, Any]:
        return {**super().training(classes), "priors": [TreeLike(500, weight=self.weight)]}


def test_a_class_graph_becomes_more_tree_like() -> None:
    classes, _ = arrange(*class_tree(3, 3), stop=5, wanted=6, seed=0)
    found = []
    for weight in (0.0, 5.0):
        method = TreeDGM(steps=20)
        method.weight, method.hidden, method.embed_dim, method.lr = weight, 16, 8, 0.03
        found.append(method.fit(classes).history.column("treelike_prior")[-1])
    assert found[1] < 0.8 * found[0], found
