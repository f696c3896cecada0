"""The benchmarks run, keep what they have, and say what is missing; the documented numbers are the measured ones.

Two tests at the end guard the speed itself, by ratios of processor time and by counting what is held in memory.
"""

from __future__ import annotations

import csv
import json
import math
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy
from torch.utils._python_dispatch import TorchDispatchMode

from latentgraph import blocks
from latentgraph.bench import continuous, docs, measure, memory, neighbours, sampler, step, table_times, tables, warmup
from latentgraph.bench.libraries import PACKAGES, left_out
from latentgraph.bench.measure import PeakMemory, side_by_side, using_threads
from latentgraph.bench.regimes import NAMES, points
from latentgraph.bench.run import bench, run
from latentgraph.cli import BENCHES, main
from latentgraph.diffusion import row_normalised
from latentgraph.errors import InputError
from latentgraph.graph import LatentGraph, neighbors_to_edges
from latentgraph.layers import ContinuousDGM
from latentgraph.loss import accuracy_reward, graph_loss
from latentgraph.probability import edge_log_p
from latentgraph.sampling import gumbel_top_k, nearest

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", BENCHES)
def test_every_benchmark_runs(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", name, "--quick", "--threads", "1", "--out", str(tmp_path)]) == 0
    assert f"{name}: " in capsys.readouterr().out
    report = json.loads((tmp_path / f"bench-{name}-quick.json").read_text())
    assert report["bench"] == name
    assert {"machine", "versions", "threads", "seed", "left_out"} <= report.keys()
    for row in report["rows"]:
        assert row["repeats"] >= 1
        assert row.get("seconds", 1.0) > 0
        assert row.get("megabytes", 0.0) >= 0
    with (tmp_path / f"bench-{name}-quick.csv").open() as file:
        assert len(list(csv.DictReader(file))) == len(report["rows"])
    made = {path.name for path in tmp_path.iterdir()}
    pictures = {f"bench-{name}-quick.png", f"bench-{name}-quick.svg"} if hasattr(bench(name), "draw") else set()
    assert made == {f"bench-{name}-quick.json", f"bench-{name}-quick.csv"} | pictures


def test_json_is_all_that_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def talkative(case: warmup.Case) -> list[tables.Row]:
        print("a library says something")
        return [{"what": warmup.HELP, "seconds": 1.0, "repeats": 1}]

    monkeypatch.setattr(warmup, "measure", talkative)
    assert main(["bench", "warmup", "--quick", "--out", str(tmp_path), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["warmup"]["rows"][0]["seconds"] == 1.0


def test_an_interrupted_run_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Broken: Ctrl-C after twenty minutes costs twenty minutes, or a finished run is never measured again."""
    asked: list[continuous.Case] = []
    stop_at = 3

    def pretend(case: continuous.Case) -> list[tables.Row]:
        asked.append(case)
        if len(asked) == stop_at:
            raise KeyboardInterrupt
        numbers = {"seconds": float(len(asked)), "megabytes": 1.0, "repeats": 1}
        return [{**case._asdict(), "method": continuous.OURS, **numbers}]

    monkeypatch.setattr(continuous, "measure", pretend)
    command = ["bench", "continuous", "--quick", "--threads", "1", "--out", str(tmp_path)]
    assert main(command) == 130
    assert "kept" in capsys.readouterr().err
    assert not (tmp_path / "bench-continuous-quick.json").exists()
    assert main(command) == 0
    assert [case.convolution for case in asked[2:]] == ["GAT", "GAT", "EdgeConv"]
    rows = json.loads((tmp_path / "bench-continuous-quick.json").read_text())["rows"]
    assert [row["seconds"] for row in rows] == [1.0, 2.0, 4.0, 5.0]
    assert main(command) == 0
    assert len(asked) == 5 + 4


def test_another_machine_starts_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pretend(case: continuous.Case) -> list[tables.Row]:
        return [{**case._asdict(), "method": continuous.OURS, "seconds": 2.0, "megabytes": 1.0, "repeats": 1}]

    monkeypatch.setattr(continuous, "measure", pretend)
    lines = [{"case": str(case), "machine": "another", "rows": []} for case in continuous.cases(True, [1])]
    text = "\n".join(json.dumps({**line, "packages": {}}) for line in lines) + "\n"
    (tmp_path / "bench-continuous-quick.part.jsonl").write_text(text)
    assert [row["seconds"] for row in run("continuous", tmp_path, threads=[1], quick=True)["rows"]] == [2.0] * 4


@pytest.mark.parametrize("threads", [["0"], ["2", "-1"]])
def test_bad_threads_are_refused(threads: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["bench", "memory", "--quick", "--out", str(tmp_path), "--threads", *threads]) == 2
    assert "at least 1" in capsys.readouterr().err


def test_what_is_missing_is_left_out_and_named(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = set(neighbours.methods())
    for library in PACKAGES:
        monkeypatch.setitem(sys.modules, library, None)
    assert set(neighbours.methods()) == {neighbours.OURS, "torch backend", "dense formula", "scipy, no noise"}
    assert everything > set(neighbours.methods())
    lines = left_out(sampler.LIBRARIES)
    assert len(lines) == 3
    assert any("pip install faiss-cpu" in line for line in lines)


def test_full_runs_have_every_size() -> None:
    """What is published comes from here: the sizes, the regimes, and both numbers of threads."""
    cases = sampler.cases(False, [1, 2])
    assert {case.regime for case in cases} == set(NAMES)
    assert {case.n for case in cases} >= {500, 10_000, 100_000, 1_000_000}
    assert {case.threads for case in cases} == {1, 2}
    assert {case.n for case in bench("step").cases(False, [1])} == {1_000, 10_000, 100_000, 1_000_000}
    for name in BENCHES:
        cases = list(bench(name).cases(False, [1, 2]))
        assert len(set(map(str, cases))) == len(cases)  # the key of a finished case


def test_parts_of_a_step_learn_what_the_whole_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """A step is cut into parts to be measured; the gradients are those of `backward` through all of it."""
    cut, whole = (step.Step(150, lambda x, k, t: nearest(x, k, backend="torch")) for _ in range(2))
    monkeypatch.setattr(cut.optimiser, "step", lambda: None)
    cut()
    graph = LatentGraph(
        x_hat := whole.dgm.embed(whole.x),
        whole.dgm.temperature,
        whole.dgm.geometry,
        neighbors=(neighbors := nearest(x_hat.detach(), step.K, backend="torch")),
        log_p=edge_log_p(x_hat, neighbors_to_edges(neighbors), whole.dgm.temperature, whole.dgm.geometry),
    )
    out = whole.head(whole.convolutions(whole.x, graph))
    delta = whole.baseline(accuracy_reward(out, whole.y))
    (cross_entropy(out, whole.y) + graph_loss(graph, delta, reduction="mean")).backward()
    for a, b in zip(cut.optimiser.param_groups[0]["params"], whole.optimiser.param_groups[0]["params"], strict=True):
        torch.testing.assert_close(a.grad, b.grad)
    assert sum(cut.shares()[part] for part in step.PARTS) == pytest.approx(1)


def test_candidates_take_turns_within_their_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 0.0
    order = []

    def takes(name: str, seconds: float) -> Callable[[], None]:
        def call() -> None:
            nonlocal now
            now += seconds
            order.append(name)

        return call

    monkeypatch.setattr("latentgraph.bench.measure.time.perf_counter", lambda: now)
    candidates = {"fast": takes("fast", 1.0), "slow": takes("slow", 3.0), "slowest": takes("slowest", 6.0)}
    found = side_by_side(candidates, repeats=3, budget=5.0)
    # A first turn for memory; then those that are not over their budget.
    assert order == ["fast", "slow", "slowest", "fast", "slow", "fast", "slow", "fast"]
    assert (found["fast"].seconds, found["fast"].repeats) == (1.0, 3)
    assert (found["slow"].seconds, found["slow"].repeats) == (3.0, 2)
    assert (found["slowest"].seconds, found["slowest"].repeats) == (6.0, 1)


@pytest.mark.parametrize("kept_by_the_system", [True, False])
def test_peak_memory_is_seen(kept_by_the_system: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """64 MB that are gone again at the end of the block."""
    if not kept_by_the_system:
        monkeypatch.setattr(measure, "RESET_PEAK", (tmp_path / "no/such/file", "5"))
    with PeakMemory() as peak:
        x = torch.ones(1 << 24)
        time.sleep(0.1)
        del x
    assert 60 < peak.megabytes < 90


def test_threads_are_set_and_given_back() -> None:
    before = torch.get_num_threads()
    with using_threads(before + 1):
        assert torch.get_num_threads() == before + 1
    assert torch.get_num_threads() == before


@pytest.mark.parametrize("name", ["KeOps, no noise", "faiss, no noise", "scipy, no noise"])
def test_alternatives_find_the_nearest(name: str) -> None:
    x_hat, t = points("gaussian", 300, 4)
    assert torch.equal(neighbours.methods()[name].sample(x_hat, 5, t).long(), nearest(x_hat, 5, backend="torch"))


def test_dense_formula_has_the_law() -> None:
    """It is measured because it computes the same: with little noise left, a node and then its nearest."""
    x_hat = torch.arange(30.0)[:, None]
    torch.manual_seed(0)
    chosen = neighbours.dense(x_hat, 1, 50.0)
    assert torch.equal(chosen[:, 0], torch.arange(30))
    assert len(neighbours.dense_clouds(x_hat, 2, 50.0, clouds=3)) == 3


@pytest.mark.parametrize("name", NAMES)
def test_regimes(name: str) -> None:
    x, t = points(name, 300, 8)
    assert x.shape == (300, 8)
    assert t > 0
    assert len(x.unique(dim=0)) == (3 if name == "duplicates" else 300)


def test_unknown_regime() -> None:
    with pytest.raises(InputError, match="gaussian"):
        points("strange", 10, 2)


@pytest.mark.parametrize("name", continuous.MODULES)
def test_dense_convolutions_compute_the_same(name: str) -> None:
    torch.manual_seed(0)
    x_hat, x = torch.randn(50, 4), torch.randn(50, 16)
    module = continuous.MODULES[name](16, 16)
    graph = ContinuousDGM(nn.Identity(), temperature=4.0, threshold=1.0)(x_hat)
    torch.testing.assert_close(continuous.dense_convolution(module, x, graph), module(x, graph), atol=1e-5, rtol=1e-4)


def test_growth_is_the_exponent() -> None:
    rows = [{"n": n, "megabytes": 1e-6 * n**2} for n in (1000, 2000, 5000)]
    assert memory.growth(rows) == pytest.approx(2.0)
    assert math.isnan(memory.growth(rows[:1]))


def test_paper_times_stand_beside_ours() -> None:
    numbers = {"threads": 1, "seconds": 0.25, "megabytes": 1.0}
    rows = [
        {"iteration": iteration, "method": name, "n": n, **numbers}
        for iteration in (table_times.TRAINING, table_times.TEST)
        for name in table_times.METHODS
        for n in table_times.SIZES
    ]
    training, _ = table_times.tables(rows)
    assert training.rows[-1] == ["dDGM", "8.29", "250", "37", "250", "141", "250"]


@pytest.mark.parametrize(
    ("value", "text"), [(1146.3, "1,146"), (0.000123456, "0.000123"), (12.345, "12.3"), (3.0, "3"), (99.96, "100")]
)
def test_numbers_have_three_digits(value: float, text: str) -> None:
    assert tables.number(value) == text


def test_ratios_are_of_the_same_case() -> None:
    rows: list[tables.Row] = [
        {"n": 10, "method": "other", "seconds": 6.0, "megabytes": 2.0},
        {"n": 10, "method": "ours", "seconds": 2.0, "megabytes": 1.0},
        {"n": 2000, "method": "ours", "seconds": 4.0, "megabytes": 3.0},
    ]
    table = tables.ratios("t", rows, ["n"], "ours")
    assert table.header == ["n", "ours, s", "other"]
    assert table.rows == [["10", "2", "3 ×"], ["2,000", "4", ""]]
    assert tables.megabytes("m", rows, ["n"]).rows == [["10", "2", "1"], ["2,000", "", "3"]]
    assert "| 10 | 2 | 3 × |" in table.markdown()


def test_documented_speeds_are_the_committed_ones() -> None:
    """Broken: somebody wrote a number into the page, or measured again without `make bench`."""
    pages = [path.read_text(encoding="utf-8") for path in (ROOT / "docs").glob("*.md")]
    assert {place["name"] for page in pages for place in docs.PLACE.finditer(page)} == set(BENCHES)
    for page in pages:
        assert docs.render(page, ROOT / "results") == page


def test_page_is_made_of_the_results(tmp_path: Path) -> None:
    rows = [{"what": "the first call", "seconds": 1.5, "repeats": 1}]
    (tmp_path / "bench-warmup.json").write_text(json.dumps({"machine": "a machine", "rows": rows}))
    page = tmp_path / "page.md"
    page.write_text("before\n<!-- bench warmup -->\nold\n<!-- end -->\n<!-- bench step -->\n<!-- end -->\nafter\n")
    docs.main(str(tmp_path), str(tmp_path))
    text = page.read_text()
    assert "old" not in text
    assert "| the first call | 1.5 |" in text
    assert "a machine" in text
    assert "Not measured yet." in text
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    (tmp_path / "bench-warmup.svg").write_text("<svg/>")
    assert "bench-warmup.svg)" in docs.render(text, tmp_path)


def processor_seconds(calls: dict[str, Callable[[], object]], repeats: int = 3) -> dict[str, float]:
    """Median processor time of interleaved calls, after one that may compile."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for turn in range(repeats + 1):
        for name, call in calls.items():
            start = time.process_time()
            call()
            if turn:
                found[name].append(time.process_time() - start)
    return {name: median(values) for name, values in found.items()}


def test_tree_is_faster_than_the_dense_formula_and_grows_less() -> None:
    """The sizes leave room: at 2,000 nodes the dense formula is too near for a test on a busy machine."""
    few, t = points("gaussian", 2_000, 4)
    some, _ = points("gaussian", 6_000, 4)
    many, _ = points("gaussian", 64_000, 4)
    seconds = processor_seconds(
        {
            "dense, some": lambda: neighbours.dense(some, 5, t),
            "some": lambda: gumbel_top_k(some, 5, t),
            "few": lambda: gumbel_top_k(few, 5, t),
            "many": lambda: gumbel_top_k(many, 5, t),
        }
    )
    assert seconds["dense, some"] / seconds["some"] >= 5
    assert seconds["many"] / seconds["few"] < (64_000 / 2_000) ** 1.5


class LargestTensor(TorchDispatchMode):
    """Remembers the largest tensor that any operation made."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.numel = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for value in out if isinstance(out, (tuple, list)) else (out,):
            if isinstance(value, Tensor):
                self.numel = max(self.numel, value.numel())
        return out


@pytest.mark.parametrize("n", [1_500, 3_000])
def test_nothing_holds_all_pairs(n: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """2 and 9 million pairs; a block is 0.1 million."""
    monkeypatch.setattr(blocks, "BLOCK", 100_000)
    x_hat, t = points("gaussian", n, 4)
    with LargestTensor() as sampled:
        gumbel_top_k(x_hat, 5, t, backend="torch")
    graph = ContinuousDGM(nn.Identity(), temperature=4.0, threshold=1.0)(x_hat.requires_grad_())
    with LargestTensor() as diffused:
        row_normalised(graph, x_hat, dense=False).sum().backward()
    assert 0 < sampled.numel <= 100_000
    assert 0 < diffused.numel <= 100_000
