"""Held-out classes of ImageNet: the loader, the scores, the table and the pictures end to end."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from latentgraph.cli import main
from latentgraph.datasets.zero_shot import ImageNetClasses, imagenet_classes
from latentgraph.errors import InputError
from latentgraph.experiments import zero_shot as experiment
from latentgraph.experiments.results import Results
from latentgraph.experiments.zero_shot_figures import trained_module, write
from latentgraph.zero_shot.scores import hits

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "zeroshot").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with zeroshot/",
)


@pytest.fixture(scope="module")
def data() -> ImageNetClasses:
    return imagenet_classes()


@pytest.mark.data
@needs_data
def test_classes_and_their_tree(data: ImageNetClasses) -> None:
    """The thousand keep their numbers, the others are moved with their edges; the classifiers fit the images."""
    assert data.rows.shape == data.images.shape == (1000, 1281)
    assert hits(data.rows, data.images, torch.arange(1000), 1) == pytest.approx(0.776)
    assert data.has_vector[1000 : data.num_candidates].all()
    assert not data.x[~data.has_vector].any()
    assert {data.names[i] for i in data.animals} >= {"sheep", "dolphin", "giraffe"}
    child, parent = data.parent_edges.numpy()
    pairs = {(data.names[a], data.names[b]) for a, b in zip(child, parent, strict=True)}
    assert {("tench", "cyprinid"), ("goldfish", "cyprinid"), ("plantation", "estate")} <= pairs
    roots = np.setdiff1d(np.arange(len(data.x)), child)
    assert [data.names[i] for i in roots] == ["entity"]


@pytest.mark.data
@needs_data
def test_problems_differ_by_seed(data: ImageNetClasses) -> None:
    first, order = experiment.problem(data, 0)
    _, other = experiment.problem(data, 1)
    assert set(order[-200:].tolist()) != set(other[-200:].tolist())
    assert (first.learn, first.stop, first.wanted) == (700, 100, 200)


@pytest.mark.data
@needs_data
def test_scores_of_the_true_rows(data: ImageNetClasses) -> None:
    held_out = experiment.problem(data, 0)[1][-200:]
    measured = experiment.scores(data.rows[held_out], data, held_out)
    assert measured["nearest"] == 1.0
    assert measured["top1"] > measured["top1_all"] > 0.7
    shuffled = experiment.scores(data.rows[held_out].roll(1, 0), data, held_out)
    assert shuffled["top1"] < 0.05


@pytest.mark.data
@needs_data
def test_table_runs_end_to_end(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for method in ("true classifiers", "ridge", "SGCN", "dDGM, best"):
        assert main(["reproduce", "zeroshot", "--quick", "--out", str(tmp_path), "--only", method]) == 0
    rows = {row["method"]: row for row in map(json.loads, (tmp_path / "zeroshot-quick.jsonl").read_text().splitlines())}
    assert rows["true classifiers"]["top1"] > rows["ridge"]["top1"] > 0.05
    assert rows["SGCN"]["steps"] == experiment.QUICK_STEPS
    out = capsys.readouterr().out
    assert "proxy" in out
    assert "74.7" in out


@pytest.mark.data
@needs_data
def test_pictures(data: ImageNetClasses, tmp_path: Path) -> None:
    paths = write(data, trained_module(data, steps=1, hidden=8), tmp_path)
    assert [path.name for path in paths] == ["zero_shot_wordnet.png", "zero_shot_learned.png", "zero_shot_hops.png"]
    assert all(path.stat().st_size > 10_000 for path in paths)


def test_table_of_a_few_cells(tmp_path: Path) -> None:
    """The best first, missing methods left out, fewer runs in brackets, and who sees WordNet."""
    results = Results(tmp_path / "zeroshot.jsonl", experiment.KEY)
    others = dict.fromkeys(("top5", "top1_all", "top5_all", "nearest"), 0.5)
    results.add({"method": "ridge", "seed": 0, "top1": 0.1, **others})
    results.add({"method": "DGP", "seed": 0, "top1": 0.3, **others})
    results.add({"method": "DGP", "seed": 1, "top1": 0.2, **others})
    ours, paper = experiment.tables(results)
    assert [row[:3] for row in ours.rows] == [["DGP", "yes", "25.0 ± 5.0"], ["ridge (1)", "no", "10.0"]]
    assert ["dDGM", "74.7"] in paper.rows
    assert "proxy" in ours.title


def test_missing_data(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="effnetlite0"):
        imagenet_classes(tmp_path)
