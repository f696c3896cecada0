"""The figure of clouds: what is coloured, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from latentgraph.errors import InputError
from latentgraph.explorer.cloud_figures import closeness, cloud_figure
from latentgraph.graph import LatentGraph
from latentgraph.layers import ContinuousDGM, DiscreteDGM

pytest.importorskip("matplotlib")
X = torch.randn(12, 3, generator=torch.Generator().manual_seed(0))


def graph(noise: bool = True) -> LatentGraph:
    found: LatentGraph = DiscreteDGM(nn.Identity(), k=3, temperature=0.7, noise=noise)(X)
    return found


def test_closeness_is_the_probability_or_falls_with_the_distance() -> None:
    """Broken: nearest neighbours, which have no temperature, are shown as if they were sampled."""
    distance = (X - X[4]).norm(dim=1).double().numpy()
    np.testing.assert_allclose(closeness(graph(), 4), np.exp(-0.7 * distance**2), rtol=1e-4)
    np.testing.assert_allclose(closeness(graph(noise=False), 4), np.exp(-distance), rtol=1e-4, atol=1e-4)
    continuous = ContinuousDGM(nn.Identity(), temperature=2.0, threshold=1.0)(X)
    np.testing.assert_allclose(closeness(continuous, 4), 1 / (1 + np.exp(2 * (distance**2 - 1))), rtol=1e-4)


def test_every_node_has_a_row_and_every_graph_a_column() -> None:
    figure = cloud_figure(X.numpy(), [4, 7], {"sampled": graph(), "nearest": graph(noise=False)})
    panels = figure.axes[:4]  # then comes the scale
    assert [axes.get_title() for axes in panels] == ["sampled", "nearest", "", ""]
    for axes, node, noise in zip(panels, (4, 4, 7, 7), (True, False, True, False), strict=True):
        cloud, chosen = (np.asarray(drawn.get_offsets()) for drawn in axes.collections)
        assert (len(cloud), len(chosen)) == (11, 1)
        assert not (cloud == chosen).all(1).any()
        values = axes.collections[0].get_array()
        assert values is not None
        np.testing.assert_allclose(np.sort(np.delete(closeness(graph(noise), node), node)), values)


def test_an_eye_straight_in_front_sees_width_and_height() -> None:
    figure = cloud_figure(X.numpy(), [0], {"sampled": graph()}, turn=0, tilt=0)
    cloud = np.asarray(figure.axes[0].collections[1].get_offsets())
    np.testing.assert_allclose(cloud, X[:1, :2].numpy(), rtol=1e-6)


def test_what_cannot_be_drawn() -> None:
    with pytest.raises(InputError, match=r"\(n, 3\)"):
        cloud_figure(X[:, :2].numpy(), [0], {"sampled": graph()})
    with pytest.raises(InputError, match="0 graphs"):
        cloud_figure(X.numpy(), [0], {})
