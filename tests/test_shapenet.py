"""ShapeNet part: its loaders, and the table end to end."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import Data
from torch_geometric.datasets import ShapeNet

from latentgraph.cli import main
from latentgraph.clouds import Cloud, augmented
from latentgraph.datasets.shapenet import CATEGORIES, PARTS, ShapeNetPart, from_pyg, shapenet_part, shapenet_subset
from latentgraph.errors import InputError
from latentgraph.experiments import shapenet, shapenet_networks
from latentgraph.experiments.results import Results
from latentgraph.experiments.running import cell_folder, run
from latentgraph.presets import PointCloudNet, point_cloud_net

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "shapenetpart").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with shapenetpart/",
)
SYNSETS = {name: ShapeNet.category_ids[name] for name in CATEGORIES}


def made_up(points: int, category: int, seed: int) -> Cloud:
    """A thing whose parts lie below each other."""
    where = torch.randn(points, 3, generator=torch.Generator().manual_seed(seed))
    height = where[:, 1].argsort().argsort() * len(PARTS[category]) // points
    return Cloud(where, PARTS[category].start + height, category)


def write_folder(folder: Path, sizes: tuple[int, ...] = (30, 41)) -> dict[str, list[Cloud]]:
    """ShapeNet part's layout, with a few clouds of every category in each part of the split."""
    (folder / "train_test_split").mkdir(parents=True)
    names = [f"{name}\t{synset}" for name, synset in SYNSETS.items()]
    (folder / "synsetoffset2category.txt").write_text("\n".join(names) + "\n")
    written: dict[str, list[Cloud]] = {}
    for split in ("train", "val", "test"):
        entries: list[str] = []
        written[split] = []
        for category, synset in enumerate(SYNSETS.values()):
            for size in sizes:
                cloud = made_up(size, category, seed=len(entries))
                (folder / synset).mkdir(exist_ok=True)
                shape = f"{split}{size}"
                columns = np.column_stack([cloud.points, np.zeros((size, 3)), cloud.part.double()])
                np.savetxt(folder / synset / f"{shape}.txt", columns, fmt="%.6f")
                entries.append(f"shape_data/{synset}/{shape}")
                written[split].append(cloud)
        (folder / "train_test_split" / f"shuffled_{split}_file_list.json").write_text(json.dumps(entries))
    return written


def test_parts_are_counted_through_the_categories() -> None:
    assert [part for parts in PARTS for part in parts] == list(range(50))
    assert len(CATEGORIES) == 16
    assert PARTS[CATEGORIES.index("Motorbike")] == range(30, 36)


def test_the_folder_as_it_is_distributed(tmp_path: Path) -> None:
    written = write_folder(tmp_path)
    found = shapenet_part(tmp_path)
    for split, clouds in zip(("train", "val", "test"), found, strict=True):
        assert len(clouds) == 32
        for cloud, original in zip(clouds, written[split], strict=True):
            assert cloud.category == original.category
            assert torch.equal(cloud.part, original.part)
            assert float(cloud.points.norm(dim=1).max()) == pytest.approx(1, abs=1e-6)
            centred = original.points - original.points.mean(0)
            torch.testing.assert_close(cloud.points * centred.norm(dim=1).max(), centred, atol=1e-5, rtol=0)


def spoil_list(folder: Path) -> None:
    (folder / "train_test_split" / "shuffled_val_file_list.json").unlink()


def spoil_shape(folder: Path) -> None:
    next((folder / SYNSETS["Bag"]).glob("*.txt")).unlink()


def spoil_columns(folder: Path) -> None:
    next((folder / SYNSETS["Bag"]).glob("*.txt")).write_text("1 2 3 4\n")


def spoil_text(folder: Path) -> None:
    next((folder / SYNSETS["Bag"]).glob("*.txt")).write_text("a b c d e f g\n")


def spoil_label(folder: Path) -> None:
    next((folder / SYNSETS["Bag"]).glob("*.txt")).write_text("0 0 0 0 0 0 0\n1 0 0 0 0 0 1\n")


def spoil_name(folder: Path) -> None:
    (folder / "synsetoffset2category.txt").write_text("Sofa\t00001000\n")


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (spoil_list, "shuffled_val_file_list.json does not exist. Register with ShapeNet"),
        (spoil_shape, "does not exist"),
        (spoil_columns, "seven numbers"),
        (spoil_text, "seven numbers"),
        (spoil_label, "a Bag has parts 4 to 5"),
        (spoil_name, "no category 'Sofa'"),
    ],
)
def test_a_folder_with_a_fault_is_refused(tmp_path: Path, spoil: Callable[[Path], None], words: str) -> None:
    write_folder(tmp_path)
    spoil(tmp_path)
    with pytest.raises(InputError, match=words):
        shapenet_part(tmp_path)


def test_from_pyg() -> None:
    """Broken: where only some categories were loaded, PyG counts those alone."""
    mug, table = CATEGORIES.index("Mug"), CATEGORIES.index("Table")
    clouds = [made_up(20, mug, 0), made_up(9, table, 1)]
    data = [Data(pos=c.points, y=c.part, category=torch.tensor([c.category])) for c in clouds]
    assert [c.category for c in from_pyg(data)] == [mug, table]
    renumbered = [Data(pos=c.points, y=c.part, category=torch.tensor([i])) for i, c in enumerate(clouds)]
    found = from_pyg(renumbered, ["Mug", "Table"])
    assert [c.category for c in found] == [mug, table]
    assert all(torch.equal(a.part, b.part) for a, b in zip(found, clouds, strict=True))
    with pytest.raises(InputError, match="labels must be counted through all categories"):
        from_pyg(renumbered)


@pytest.mark.parametrize("categories", [None, ["Table", "Mug"]])
def test_from_the_data_set_of_pyg(tmp_path: Path, categories: list[str] | None) -> None:
    """Read by PyG from the same folder, which it calls raw, the clouds are those that our loader reads."""
    write_folder(tmp_path / "raw")
    ours = shapenet_part(tmp_path / "raw").train
    dataset = ShapeNet(str(tmp_path), categories, split="train")
    found = from_pyg(dataset, dataset.categories)
    wanted = [c for c in ours if categories is None or CATEGORIES[c.category] in categories]
    assert len(found) == len(wanted) > 0
    for cloud, own in zip(found, wanted, strict=True):
        assert cloud.category == own.category
        assert torch.equal(cloud.part, own.part)
        torch.testing.assert_close(cloud.points, own.points)


@pytest.mark.data
@needs_data
def test_the_subset() -> None:
    shapes = shapenet_subset()
    assert [len(part) for part in shapes] == [2349, 349, 611]
    assert {c.category for c in shapes.test} == set(range(16))
    assert all(len(c.points) == 1024 for part in shapes for c in part)
    assert {int(part) for c in shapes.train for part in c.part.unique()} == set(range(50))


# The table


def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small world without data: two categories, a network with few neighbours."""
    budget = shapenet_networks.Budget(points=24, clouds=2, steps=4, eval_every=2)
    world = ShapeNetPart(*([made_up(30, c, 10 * s + c) for c in (1, 2) for _ in range(2)] for s in range(3)))
    monkeypatch.setattr(shapenet, "QUICK", budget)
    monkeypatch.setattr(shapenet, "shapes_of", lambda *_: world)
    monkeypatch.setitem(shapenet_networks.NETWORKS, "dDGM", lambda: point_cloud_net(k=4, embed_dim=2))


CELL = {"data": "subset", "method": "dDGM", "seed": 0}


def test_an_interrupted_cell_goes_on_to_the_same_result(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the cell begins again, or ends elsewhere; or what it kept stays behind."""
    small(monkeypatch)
    whole = shapenet.compute(CELL, True, None, tmp_path / "whole")
    calls = []

    def power_cut(*arguments: object) -> Cloud:
        calls.append(1)
        if len(calls) == 6:  # in the third of four steps of two clouds
            raise KeyboardInterrupt
        return augmented(*arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(shapenet_networks, "augmented", power_cut)
    monkeypatch.setattr(shapenet_networks, "CHECKPOINT_SECONDS", 0)
    only = {"only": ["dDGM"], "quick": True, "seeds": 1, "show": False}
    with pytest.raises(KeyboardInterrupt):
        run("shapenet", tmp_path, **only)  # type: ignore[arg-type]
    assert not (tmp_path / "shapenet-quick.jsonl").exists()
    results = run("shapenet", tmp_path, **only)  # type: ignore[arg-type]
    assert len(calls) == 6 + 2 * 2  # two steps were left to do
    row = results.rows[0]
    assert {name: row[name] for name in whole} == whole
    folder = cell_folder("shapenet", tmp_path, CELL, quick=True)
    assert [path.name for path in folder.iterdir()] == ["network"]
    assert shapenet_networks.kept_network("dDGM", folder) is not None


@pytest.mark.parametrize(
    ("method", "learns"),
    [(shapenet_networks.OURS, True), (shapenet_networks.STRAIGHT, True), (shapenet_networks.FIXED, False)],
)
def test_who_moves_f(method: str, learns: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Broken: the straight-through gradient does not reach f, or the control learns a graph."""
    small(monkeypatch)
    begun: list[dict[str, torch.Tensor]] = []

    def make() -> PointCloudNet:
        net = point_cloud_net(k=4, embed_dim=2)
        begun.append({name: value.clone() for name, value in net.backbone.dgms.named_parameters() if "embed" in name})
        return net

    monkeypatch.setitem(shapenet_networks.NETWORKS, method, make)
    shapes = shapenet.shapes_of("subset", True, None)
    net, _ = shapenet_networks.trained(method, 0, shapes, shapenet.QUICK, tmp_path)
    now = dict(net.backbone.dgms.named_parameters())
    assert len(begun[0]) == 6  # weight and bias of three modules
    assert any(not torch.equal(now[name], value) for name, value in begun[0].items()) == learns


def test_means_and_counts_in_the_table(tmp_path: Path) -> None:
    """One run of one method, two of another: brackets where there are not two; the paper's numbers beside them."""
    results = Results(tmp_path / "x.jsonl", shapenet.KEY)
    for method, seed, value in (("DGCNN", 0, 0.5), ("dDGM", 0, 0.5), ("dDGM", 1, 0.7)):
        iou = {"Airplane": value, "Mug": value + 0.1}
        row = {"data": "subset", "method": method, "seed": seed, "instance": value, "category": value + 0.05}
        results.add({**row, "iou": iou})
    (table,) = shapenet.tables("subset", results)
    assert "NOT comparable" in table.title
    rows = {row[0]: dict(zip(table.header, row, strict=True)) for row in table.rows}
    assert rows["Airplane"]["DGCNN"] == "50.0 (1)"
    assert rows["Mug"]["dDGM"] == "70.0 ± 10.0"
    assert rows["Car"]["dDGM"] == "-"
    assert (rows["mean of shapes"]["dDGM"], rows["mean of shapes"]["dDGM, paper"]) == ("60.0 ± 10.0", "85.6")
    assert rows["mean of categories"]["dDGM"] == "65.0 ± 10.0"


@pytest.mark.data
@needs_data
def test_the_quick_table_through_the_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    assert main(["reproduce", "shapenet", "--quick", "--out", str(tmp_path)]) == 0
    printed = capsys.readouterr()
    assert "NOT comparable" in printed.out
    rows = [json.loads(line) for line in (tmp_path / "shapenet-quick.jsonl").read_text().splitlines()]
    assert [row["method"] for row in rows] == list(shapenet.METHODS)
    assert all(set(row["iou"]) == set(CATEGORIES) and 0 < row["instance"] < 1 for row in rows)
    assert (tmp_path / "shapenet-quick.png").stat().st_size > 10_000
    assert "shapenet-quick.png" in printed.err


def test_the_complete_data_in_its_folder(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The whole of ShapeNet part by the same command; without the data, a message that says where to get it."""
    command = ["reproduce", "shapenet", "--full", "--quick", "--out", str(tmp_path), "--data-root", str(tmp_path)]
    first, second = ["--only", shapenet.NEAREST], ["--only", "dDGM"]
    assert main([*command, *first]) == 2
    assert "Register with ShapeNet" in capsys.readouterr().err
    write_folder(tmp_path / "shapenetcore_partanno_segmentation_benchmark_v0_normal")
    assert main([*command, *first]) == main([*command, *second]) == 0
    nearest, network = map(json.loads, (tmp_path / "shapenet-full-quick.jsonl").read_text().splitlines())
    assert (nearest["data"], nearest["method"]) == ("complete", shapenet.NEAREST)
    assert nearest["instance"] > 0.5  # parts lie below each other in every thing
    assert (network["data"], network["method"], network["steps"]) == ("complete", "dDGM", shapenet.QUICK.steps)
    assert 0 < network["instance"] < 1
