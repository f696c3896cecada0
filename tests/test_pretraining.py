"""Training f before the task: what is drawn, each loss, and that f is better for it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import combinations
from pathlib import Path

import numpy as np
import pytest
import torch
from scipy import stats
from sklearn.datasets import load_wine
from sklearn.metrics import roc_auc_score
from torch import Tensor, nn

from latentgraph import ContinuousDGM, DGMClassifier, DGMNet, DGMRegressor, DiscreteDGM, Euclidean, InputError, Sphere
from latentgraph.cli import main
from latentgraph.curvature import LearnedCurvature
from latentgraph.datasets.synthetic import planted_partition
from latentgraph.geometry import Geometry
from latentgraph.graph import LatentGraph, neighbors_to_edges, on_graph
from latentgraph.presets import citation_net
from latentgraph.pretraining import METHODS, Contrastive, Denoising, Links, Method, by_name, pretrain
from latentgraph.pretraining.contrastive import info_nce
from latentgraph.pretraining.denoising import denoising_loss
from latentgraph.pretraining.embedding import embedding_of
from latentgraph.pretraining.links import _LinkLoss, area_under_curve, link_loss
from latentgraph.pretraining.pairs import codes_of, draw_non_edges, edge_codes, pairs_of
from latentgraph.pretraining.rows import draw_hidden, hide, rows_of, with_rows
from latentgraph.probability import edge_log_p
from latentgraph.sampling import nearest
from latentgraph.sparse_linear import SparseLinear
from latentgraph.stacks import Stack, gcn, mlp
from spaces import Space, every_space


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def blocks() -> tuple[Tensor, Tensor, Tensor]:
    """120 rows of four hidden blocks: 12 features that tell of the block, 12 that do not, and a noisy graph."""
    x, y, edge_index = planted_partition(120, homophily=0.8, signal=0.8, features=12, seed=0)
    assert edge_index is not None
    return torch.cat([x, torch.randn(120, 12, generator=seeded(5))], 1), y, edge_index


def agreement(f: nn.Module, geometry: Geometry, x: Tensor, y: Tensor, edge_index: Tensor | None) -> float:
    """Share of the five nearest in the embedding that are of the same block."""
    with torch.no_grad():
        x_hat = geometry.project(on_graph(f, x, edge_index))
    near = nearest(x_hat, 5, geometry=geometry, backend="torch")
    return float((y[near] == y[:, None]).float().mean())


# What is drawn


def test_non_edges_are_drawn_uniformly() -> None:
    n, draws = 5, 20_000
    edge_index = torch.tensor([[0, 1, 1, 3, 2], [1, 0, 2, 3, 4]])  # 0-1 twice, 1-2, a loop, 2-4
    edges = edge_codes(edge_index, n)
    assert pairs_of(edges, n).T.tolist() == [[0, 1], [1, 2], [2, 4]]
    free = [pair for pair in combinations(range(n), 2) if pair not in ((0, 1), (1, 2), (2, 4))]
    drawn = pairs_of(draw_non_edges(edges, n, draws, seeded()), n).T
    counts = [int((drawn == torch.tensor(pair)).all(1).sum()) for pair in free]
    assert sum(counts) == draws
    assert stats.chisquare(counts).pvalue > 1e-3
    whole = edge_codes(torch.tensor(list(combinations(range(4), 2))).T, 4)
    with pytest.raises(InputError, match="joins all pairs"):
        draw_non_edges(whole, 4, 1, seeded())
    last = draw_non_edges(whole[whole != 7], 4, 50, seeded())  # one pair is left: 1-3
    assert (last == 7).all()


def test_hidden_features_come_from_random_rows() -> None:
    """Column c of the table holds 10 c + row: every value tells where it came from."""
    table = torch.arange(4.0)[:, None] + 10 * torch.arange(3.0)
    rows = table[[2]].expand(6000, 3)
    generator = seeded()
    hidden = draw_hidden(6000, table, 0.3, generator)
    assert stats.binomtest(int(hidden.sum()), hidden.numel(), 0.3).pvalue > 1e-3
    changed = hide(rows, hidden, table, generator)
    assert torch.equal(changed[~hidden], rows[~hidden])
    assert torch.equal(changed // 10, rows // 10)
    for column in range(3):
        givers = (changed[hidden[:, column], column] % 10).long().bincount(minlength=4)
        assert stats.chisquare(givers.numpy()).pvalue > 1e-3


def test_rows_of_sparse_features() -> None:
    """Broken: a row of a CSR tensor is cut out, hidden or put back in the wrong place."""
    dense = torch.randn(7, 5, generator=seeded()) * (torch.rand(7, 5, generator=seeded(1)) < 0.5)
    dense[3] = 0
    x, rows = dense.to_sparse_csr(), torch.tensor([4, 3, 0])
    part = rows_of(x, rows)
    assert part.layout is torch.sparse_csr
    assert torch.equal(part.to_dense(), rows_of(dense, rows))
    hidden = torch.rand(3, 5, generator=seeded(2)) < 0.5
    changed = hide(part, hidden, x, seeded())
    assert torch.equal(changed.to_dense(), rows_of(dense, rows).masked_fill(hidden, 0.0))
    assert torch.equal(with_rows(x, rows, changed).to_dense(), with_rows(dense, rows, changed.to_dense()))


# Losses


def test_area_under_curve_by_sklearn() -> None:
    positive, negative = torch.randn(40, generator=seeded()).round(decimals=1), torch.randn(60, generator=seeded(1))
    negative = negative.round(decimals=1)
    known = roc_auc_score([1] * 40 + [0] * 60, torch.cat([positive, negative]).numpy())
    assert area_under_curve(positive, negative) == pytest.approx(known)


def width(space: Space) -> int:
    return space.width or 3


def scattered(space: Space, n: int, seed: int) -> Tensor:
    x = 0.3 * torch.randn(n, width(space), dtype=torch.float64, generator=seeded(seed))
    return space.geometry(1.0).project(x).requires_grad_()


def numbers(*values: float) -> list[Tensor]:
    return [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in values]


@every_space
def test_link_loss_by_hand_and_by_differences(space: Space) -> None:
    geometry, x_hat = space.geometry(1.0), scattered(space, 5, 0)
    edges, others = torch.tensor([[0, 1], [2, 3]]), torch.tensor([[0, 0, 4], [1, 4, 2]])
    t, threshold = numbers(1.7, 0.4)

    def a(pairs: Tensor) -> Tensor:
        return torch.stack([torch.sigmoid(t * (threshold - geometry.sq_dist(x_hat[i], x_hat[j]))) for i, j in pairs.T])

    by_hand = -(a(edges).log().mean() + (1 - a(others)).log().mean()) / 2
    torch.testing.assert_close(link_loss(x_hat, edges, others, t, threshold, geometry), by_hand)
    assert torch.autograd.gradcheck(
        lambda x, t, threshold: link_loss(geometry.project(x), edges, others, t, threshold, geometry),
        (x_hat.detach().mul(0.9).requires_grad_(), t, threshold),
    )


@every_space
def test_info_nce_by_hand_and_by_differences(space: Space) -> None:
    geometry, first, second = space.geometry(1.0), scattered(space, 4, 0), scattered(space, 4, 1)
    (t,) = numbers(1.3)
    p = (-t * geometry.sq_cdist(first, second)).exp()
    by_hand = -((p.diag() / p.sum(1)).log() + (p.diag() / p.sum(0)).log()).mean() / 2
    torch.testing.assert_close(info_nce(first, second, t, geometry), by_hand)
    starts = [x.detach().mul(0.9).requires_grad_() for x in (first, second)]
    assert torch.autograd.gradcheck(
        lambda a, b, t: info_nce(geometry.project(a), geometry.project(b), t, geometry), (*starts, t)
    )


@every_space
def test_denoising_loss_by_hand_and_by_differences(space: Space) -> None:
    geometry, x_hat = space.geometry(1.0), scattered(space, 4, 0)
    (t,) = numbers(2.1)
    neighbors = torch.tensor([[1, 2], [3, 0], [0, 1], [2, 1]])
    x = torch.randn(4, 3, dtype=torch.float64, generator=seeded(1))
    hidden = torch.rand(4, 3, generator=seeded(2)) < 0.5

    def loss(x_hat: Tensor, t: Tensor) -> Tensor:
        x_hat = geometry.project(x_hat)
        log_p = edge_log_p(x_hat, neighbors_to_edges(neighbors), t, geometry)
        return denoising_loss(LatentGraph(x_hat, t, geometry, neighbors=neighbors, log_p=log_p), x, hidden)

    errors = []
    for i, c in hidden.nonzero().tolist():
        p = torch.stack([(-t * geometry.sq_dist(x_hat[i], x_hat[j])).exp() for j in neighbors[i]])
        errors.append((x[i, c] - (p / p.sum() * x[neighbors[i], c]).sum()) ** 2)
    torch.testing.assert_close(loss(x_hat, t), torch.stack(errors).mean())
    assert torch.autograd.gradcheck(loss, (x_hat.detach().mul(0.9).requires_grad_(), t))


# What becomes of f


@pytest.mark.parametrize("build", [mlp, gcn])
@pytest.mark.parametrize("name", METHODS)
def test_f_finds_hidden_blocks(name: str, build: Callable[[list[int]], nn.Module]) -> None:
    """The loss falls, and nearest neighbours are of the same block more often than in the untrained embedding."""
    x, y, given = blocks()
    edge_index = given if name == "links" or build is gcn else None
    torch.manual_seed(1)
    dgm = DiscreteDGM(build([24, 16, 4]), 5)
    before = agreement(dgm.embed, dgm.geometry, x, y, edge_index)
    history = pretrain(dgm, x, edge_index, method=name, steps=60)
    loss = history.column("loss")
    assert len(loss) == 60
    assert np.mean(loss[-10:]) < np.mean(loss[:10])
    assert agreement(dgm.embed, dgm.geometry, x, y, edge_index) > before + 0.05
    assert not dgm.calibrated  # its temperature will be set by the trained embedding
    if name == "links":
        auc = history.column("auc")
        assert max(auc) > auc[0] + 0.05
        assert history.best_score == pytest.approx(1 - max(auc))
        steps = [int(row["step"]) for row in history.rows if "auc" in row]
        assert steps == [0, 10, 20, 30, 40, 50, 60]


@pytest.mark.parametrize("name", METHODS)
@every_space
def test_every_geometry(name: str, space: Space) -> None:
    """f alone in any space: the loss is finite and f moves."""
    x, _, edge_index = blocks()
    torch.manual_seed(0)
    f = nn.Linear(24, width(space))
    before = f.weight.clone()
    history = pretrain(
        f, x, edge_index if name == "links" else None, method=name, geometry=space.geometry(1.0), steps=8
    )
    assert np.isfinite(history.column("loss")).all()
    assert f.weight.isfinite().all()
    if name != "links" or history.best_step:
        assert not torch.equal(before, f.weight)


@pytest.mark.parametrize("name", METHODS)
def test_sparse_features(name: str) -> None:
    """Words of documents, in a network whose first layer takes them sparse; that layer is trained, too."""
    generator = seeded(3)
    y = torch.arange(60) % 3
    rate = torch.where(torch.arange(30) % 3 == torch.arange(3)[:, None], 0.4, 0.05)  # each kind has words of its own
    x = (torch.rand(60, 30, generator=generator) < rate[y]).float().to_sparse_csr()
    pairs = torch.tensor([(i, j) for i in range(60) for j in range(60) if i != j and y[i] == y[j]]).T
    torch.manual_seed(0)
    net = citation_net(30, 3, k=3, f=mlp)
    dgm = net.dgms[0]
    assert isinstance(dgm, DiscreteDGM)
    before = [p.clone() for p in net.pre.parameters()]
    f = Stack(net.pre, dgm.embed)
    at_first = agreement(f, Euclidean(), x, y, None)
    history = pretrain(net, x, pairs if name == "links" else None, method=name, steps=60)
    assert np.mean(history.column("loss")[-10:]) < np.mean(history.column("loss")[:10])
    assert not any(torch.equal(a, b) for a, b in zip(before, net.pre.parameters(), strict=True))
    assert agreement(f, Euclidean(), x, y, None) > at_first


def test_sparse_features_on_a_graph() -> None:
    x, _, edge_index = blocks()
    sparse = (x * (x > 0)).to_sparse_csr()
    f = Stack(SparseLinear(24, 8), gcn([8, 2]))
    for name in METHODS:
        method = {"contrastive": Contrastive(batch_size=40), "denoising": Denoising(batch_size=40)}.get(name, Links())
        assert np.isfinite(pretrain(f, sparse, edge_index, method=method, steps=3).column("loss")).all()


def weights_after(seed: int, method: Method | str = "contrastive") -> tuple[list[float], Tensor]:
    x, _, edge_index = blocks()
    torch.manual_seed(7)
    f = mlp([24, 8, 2], dropout=0.3)
    history = pretrain(f, x, edge_index, method=method, steps=5, seed=seed)
    return history.column("loss"), torch.cat([p.detach().reshape(-1) for p in f.parameters()])


@pytest.mark.parametrize("name", METHODS)
def test_the_seed_decides(name: str) -> None:
    """Dropout, too; and the global random state stays as it was."""
    loss, weights = weights_after(0, name)
    state = torch.random.get_rng_state()
    torch.manual_seed(7)
    mlp([24, 8, 2])
    expected = torch.random.get_rng_state()
    again, same = weights_after(0, name)
    assert torch.equal(torch.random.get_rng_state(), expected)
    torch.random.set_rng_state(state)
    assert loss == again
    assert torch.equal(weights, same)
    assert loss != weights_after(1, name)[0]


def test_batches_are_parts_of_the_rows() -> None:
    seen: list[int] = []

    class Counting(nn.Linear):
        def forward(self, x: Tensor) -> Tensor:
            seen.append(len(x))
            return super().forward(x)

    x, _, _ = blocks()
    pretrain(Counting(24, 2), x, method=Contrastive(batch_size=32), steps=2)
    assert seen == [32] * 4
    pretrain(Counting(24, 2), x, method=Denoising(batch_size=50), steps=2)
    assert seen[4:] == [50] * 2


def test_f_does_not_see_what_it_is_asked_for() -> None:
    """Broken: held-out edges, or those of the step, or their other directions, are in the graph that f works on."""
    x, _, edge_index = blocks()
    n, seen = len(x), []

    class Watching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = nn.Linear(24, 2)

        def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
            seen.append(codes_of(edge_index, n))
            h: Tensor = self.linear(x)
            return h

    embedding = embedding_of(Watching(), None)
    objective = Links(held_out=0.25, asked=0.5).begin(embedding, x, edge_index, seeded())
    assert isinstance(objective, _LinkLoss)
    pairs = len(edge_codes(edge_index, n))
    held = codes_of(objective.held, n)
    assert len(held) == round(0.25 * pairs)
    objective(seeded())
    objective.measure()
    step, measured = (codes.unique() for codes in seen)
    assert not torch.isin(held, torch.cat(seen)).any()
    assert len(measured) == pairs - len(held)
    assert len(step) == len(measured) - round(0.5 * len(measured))


def test_training_mode_and_patience() -> None:
    x, _, edge_index = blocks()
    f = nn.Sequential(nn.Linear(24, 4), nn.Dropout(0.5), nn.Linear(4, 2))
    f[1].eval()  # frozen by its owner
    history = pretrain(f, x, edge_index, method="links", steps=100, lr=1e-12, eval_every=1, patience=3)
    assert len(history.column("loss")) < 100
    assert f.training
    assert not f[1].training


def test_graph_modules_keep_their_temperature() -> None:
    x, _, _ = blocks()
    dgm = ContinuousDGM(nn.Linear(24, 2), temperature=3.0, threshold=0.5, geometry=Sphere())
    pretrain(dgm, x, steps=3)
    assert float(dgm.temperature.detach()) == pytest.approx(3.0)
    assert float(dgm.threshold.detach()) == 0.5


# What is refused


@pytest.mark.parametrize(
    ("refused", "words"),
    [
        (lambda x, e: pretrain(nn.Linear(24, 2), x, method="magic"), "method='magic' is not known"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x, method="links"), "needs an input graph"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x, torch.tensor([[0], [0]]), method="links"), "joins 0 pairs"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x, torch.tensor([[0], [999]]), method="links"), "nodes 0 to 999"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x, steps=0), "steps=0"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x, lr=-1.0), "lr=-1.0"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x[:2]), "at least 3 rows"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x[0]), "shape"),
        (lambda x, e: pretrain(nn.Identity(), x), "no weights to train"),
        (lambda x, e: pretrain(DiscreteDGM(nn.Linear(24, 2)), x, geometry=Sphere()), "has its own"),
        (lambda x, e: pretrain(DGMNet([(None, nn.Linear(24, 2))]), x), "no graph module"),
        (lambda x, e: pretrain(nn.Linear(24, 2), x * torch.nan), "NaN"),
        (lambda x, e: Links(held_out=1.0), "held_out=1.0; it must be a share from 0 to below 1"),
        (lambda x, e: Links(asked=0.0), "asked=0.0; it must be a share above 0"),
        (lambda x, e: Contrastive(share=0.0), "share=0.0"),
        (lambda x, e: Contrastive(batch_size=1), "batch_size=1; it must be at least 2"),
        (lambda x, e: Denoising(k=1), "k=1; it must be at least 2"),
    ],
)
def test_what_is_refused(refused: Callable[[Tensor, Tensor], object], words: str) -> None:
    x, _, edge_index = blocks()
    with pytest.raises(InputError, match=words):
        refused(x, edge_index)


def test_names() -> None:
    assert {name: type(by_name(name)) for name in METHODS} == {
        "links": Links,
        "contrastive": Contrastive,
        "denoising": Denoising,
    }


# At the estimators


@pytest.mark.parametrize("name", ["none", *METHODS])
def test_estimators_take_names(name: str, tmp_path: Path) -> None:
    """The model learns, and is kept with what happened before."""
    x, y = load_wine(return_X_y=True)
    x, y = x[::2], y[::2]
    edge_index = None
    if name == "links":
        edge_index = np.array([(i, j) for i in range(len(y)) for j in range(len(y)) if 0 < abs(i - j) < 4]).T
    model = DGMClassifier(pretrain=name, random_state=0, steps=10, samples=2, trees=0, hidden=8, k=4)
    model.fit(x, y, edge_index)
    assert (model.transduction_ == y).mean() > 0.7  # chance: 0.4
    model.save(tmp_path / "model")
    kept = DGMClassifier.load(tmp_path / "model")
    assert kept.pretrain == name
    if name == "none":
        assert model.pretraining_ is None
        assert kept.pretraining_ is None
    else:
        assert model.pretraining_ is not None
        assert kept.pretraining_ is not None
        assert len(model.pretraining_.column("loss")) == 10
        assert kept.pretraining_.rows == model.pretraining_.rows
    np.testing.assert_array_equal(kept.transduction_, model.transduction_)


def test_estimators_refuse() -> None:
    x = np.random.default_rng(0).normal(size=(20, 3))
    with pytest.raises(InputError, match="pretrain='links' learns an input graph"):
        DGMRegressor(pretrain="links", steps=1).fit(x, x[:, 0])
    with pytest.raises(ValueError, match="'pretrain' parameter"):
        DGMRegressor(pretrain="magic", steps=1).fit(x, x[:, 0])


@pytest.mark.parametrize(("name", "words"), [("magic", "'pretrain'"), ("links", "a table has none")])
def test_wrong_names_on_the_command_line(
    name: str, words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t.csv").write_text("a,b,kind\n" + "1,2,x\n3,5,y\n" * 10)
    command = ["fit", str(tmp_path / "t.csv"), "--target", "kind", "--out", str(tmp_path / "run")]
    assert main([*command, "--pretrain", name]) == 2
    assert words in capsys.readouterr().err


def test_pretrain_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("a,b,kind\n" + "".join(f"{i % 7},{i},{'xy'[i % 2]}\n" for i in range(24)))
    command = ["fit", str(tmp_path / "t.csv"), "--target", "kind", "--out", str(tmp_path / "run")]
    quick = ["--steps", "4", "--samples", "1", "--trees", "0", "--test_fraction", "0", "--k", "3"]
    assert main([*command, *quick, "--pretrain", "denoising"]) == 0
    assert 'pretrain: "denoising"' in (tmp_path / "run" / "config.yaml").read_text()


@pytest.mark.parametrize("method", ["contrastive", "denoising"])
def test_a_learned_curvature_waits_for_the_task(method: str) -> None:
    """Broken: the second step goes through the graph of the first one."""
    torch.manual_seed(0)
    dgm = DiscreteDGM(mlp([4, 3]), k=3, geometry=LearnedCurvature(Sphere()))
    before = [weight.detach().clone() for weight in dgm.embed.parameters()]
    history = pretrain(dgm, torch.randn(30, 4), method=method, steps=3)
    assert len(history.column("loss")) == 3
    assert dgm.geometry.detached() == Sphere()
    assert not torch.equal(before[0], next(dgm.embed.parameters()))
