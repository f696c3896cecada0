"""Several processes compute what one does: edges exactly, gradients and weights to 1e-6 in double precision.

Worlds of 1, 2 and 4 processes are started once, over loopback; each writes all that it has found (`world.py`).
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from latentgraph.distributed import group
from latentgraph.distributed.group import Team
from latentgraph.distributed.partition import Partition
from latentgraph.distributed.population import as_whole
from latentgraph.errors import InputError
from latentgraph.layers import ContinuousDGM
from latentgraph.training import NodeSet
from world import NETS, SIZES, Found

Worlds = dict[int, list[dict[str, Found]]]
BOTH_WAYS = [
    f"{name}, {word}"
    for word in ("all are gathered", "some are asked for")
    for name in ("gcn", "loops", "gat", "edge_conv", "input gcn")
]


def in_a_process(script: list[str]) -> subprocess.CompletedProcess[str]:
    """Run a script that forks: this process has threads."""
    path = os.pathsep.join([str(Path(__file__).parent), *sys.path])
    quiet = {"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "PYTHONWARNINGS": "ignore"}
    environment = {**os.environ, "PYTHONPATH": path, **quiet}
    return subprocess.run([sys.executable, *script], env=environment, capture_output=True, text=True, timeout=600)


@pytest.fixture(scope="module")
def worlds(tmp_path_factory: pytest.TempPathFactory) -> Worlds:
    """What each process of each world has found: a later world resumes what an earlier one has begun."""
    folder = tmp_path_factory.mktemp("worlds")
    done = in_a_process([str(Path(__file__).with_name("world.py")), str(folder)])
    assert done.returncode == 0, done.stderr
    return {size: [torch.load(folder / f"world-{size}-{rank}.pt") for rank in range(size)] for size in SIZES}


def complain(name: str) -> Callable[[str], str]:
    return lambda message: f"{name}: {message}"


def assert_alike(found: Found, expected: Found) -> None:
    assert found.keys() == expected.keys()
    for name, value in expected.items():
        if value.is_floating_point():
            scale = float(value.abs().max()) if value.numel() else 0.0
            tolerance = max(1e-6 * scale, 1e-8)  # what would be zero without rounding is not one part in a million
            torch.testing.assert_close(
                found[name], value, rtol=1e-6, atol=tolerance, equal_nan=True, msg=complain(name)
            )
        else:
            assert torch.equal(found[name], value), name


@pytest.mark.parametrize("size", SIZES[1:])
def test_gradients_of_collectives_are_those_of_finite_differences(worlds: Worlds, size: int) -> None:
    for found in worlds[size]:
        analytic, numeric = found["collectives"]["analytic"], found["collectives"]["numeric"]
        torch.testing.assert_close(analytic, numeric, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("name", [*NETS, "plackett_luce", *BOTH_WAYS])
def test_processes_that_share_rows_compute_what_one_does(worlds: Worlds, name: str, size: int) -> None:
    """Sampled edges, outputs, losses, gradients, running means."""
    (alone,) = worlds[1]
    assert any(key.startswith("edges") for key in alone[name])
    for found in worlds[size]:
        assert_alike(found[name], alone[name])


@pytest.mark.parametrize("size", SIZES[1:])
@pytest.mark.parametrize("name", ["fit", "fit numbers", "few labels", "small graphs"])
def test_trained_by_several_processes(worlds: Worlds, name: str, size: int) -> None:
    """History, scores, weights and expected rewards."""
    (alone,) = worlds[1]
    for found in worlds[size]:
        assert_alike(found[name], alone[name])


@pytest.mark.parametrize("size", SIZES[1:])
def test_all_processes_have_the_same_weights_bit_for_bit(worlds: Worlds, size: int) -> None:
    first, *others = worlds[size]
    for name in ("fit", "fit numbers", "small graphs", "sampled small graphs"):
        for other in others:
            for key, value in first[name].items():
                if key != "own edges":
                    assert torch.equal(other[name][key], value), (name, key)


@pytest.mark.parametrize("size", SIZES[1:])
def test_a_training_goes_on_with_another_number_of_processes(worlds: Worlds, size: int) -> None:
    """Begun by half as many, to the result of a training without interruption."""
    (alone,) = worlds[1]
    for found in worlds[size]:
        assert_alike(found["resumed"], alone["fit"])


@pytest.mark.parametrize("size", SIZES[1:])
def test_processes_with_graphs_of_their_own_have_noise_of_their_own(worlds: Worlds, size: int) -> None:
    """Their node sets hold the same points: the same noise would sample the same edges."""
    edges = [found["sampled small graphs"]["own edges"] for found in worlds[size]]
    assert not any(torch.equal(edges[0], other) for other in edges[1:])


def test_shares_differ_by_one_row_at_most() -> None:
    parts = [Partition.of(11, Team(rank, 4)) for rank in range(4)]
    assert [(part.start, part.stop) for part in parts] == [(0, 3), (3, 6), (6, 9), (9, 11)]
    with pytest.raises(InputError, match="3 rows cannot be shared by 4 processes"):
        Partition.of(3, Team(0, 4))


def test_what_cannot_be_shared_is_refused() -> None:
    partition = Partition.of(6, Team(0, 2))
    x, y = torch.zeros(6, 2), torch.zeros(6, dtype=torch.long)
    with pytest.raises(InputError, match=r"several\. Use Shards"):
        partition.part(NodeSet(x, y, batch=torch.tensor([0, 0, 0, 1, 1, 1])))
    with pytest.raises(InputError, match=r"pass x\.to_dense"):
        partition.part(NodeSet(x.to_sparse_csr(), y))
    with pytest.raises(InputError, match="all pairs"):
        ContinuousDGM(nn.Identity())(x[:3], partition=partition)
    with pytest.raises(InputError, match="AlphaDropout looks at all rows"), as_whole(nn.AlphaDropout(), partition):
        pass


def test_layers_are_as_before_afterwards() -> None:
    net = nn.Sequential(nn.Dropout(0.5), nn.BatchNorm1d(2))
    with as_whole(net, Partition.of(6, Team(0, 2))):
        assert all("forward" in vars(module) for module in net)
    assert not any("forward" in vars(module) for module in net)


def test_a_process_on_its_own_has_no_team() -> None:
    with group.joined() as team:
        assert team is None
        assert group.team() is None


def test_killed_and_silent_processes(tmp_path: Path) -> None:
    """The others end in time and say why; what is left goes on with another number of processes, to the same end."""
    script = Path(__file__).parent / "faults" / "killed_processes.py"
    done = in_a_process([str(script), str(tmp_path), "20"])
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["kills"] == 20
