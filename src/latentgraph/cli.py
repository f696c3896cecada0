"""The command line: arguments in, calls out. Nothing heavy is imported before the arguments are understood."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from jsonargparse import ArgumentParser, Namespace

from latentgraph import __version__
from latentgraph.errors import InputError

EXPERIMENTS = {"tadpole": "diagnosis of 564 patients, 10 folds, discrete and continuous graphs, simple baselines"}

BENCHES = {
    "sampler": "exact Gumbel-top-k beside the dense formula and beside libraries for nearest neighbours",
    "continuous": "diffusion over a continuous graph, forward and backward, beside (n, n) matrices",
    "step": "a training step from 1,000 to 1,000,000 nodes, and which part of it takes how long",
    "memory": "how memory grows with the number of nodes",
    "warmup": "what starting up and the first call cost",
    "figure-speed-memory": "the paper's figure: time and memory of a training step against the number of nodes",
    "table-times": "the paper's table: training and test iterations for 564, 5,000 and 10,000 nodes",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command. Status 0: done; 1: the run failed; 2: bad usage or bad input, explained in one message."""
    arguments = _parser().parse_args(argv)
    try:
        return _COMMANDS[arguments.subcommand](arguments[arguments.subcommand])
    except InputError as error:
        print(f"latentgraph: {error}", file=sys.stderr)
        return 2
    except OSError as error:
        print(f"latentgraph: {error.strerror or error}: {error.filename}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("latentgraph: interrupted. What `reproduce` or `bench` had finished is kept.", file=sys.stderr)
        return 1


def _parser() -> ArgumentParser:
    parser = ArgumentParser(
        prog="latentgraph",
        description="Learn the graph between samples with the task that uses it.",
        version=__version__,
    )
    commands = parser.add_subcommands(dest="subcommand", required=True)

    demo = ArgumentParser(description="Train on an embedded data set of 569 patients and write the learned graph.")
    demo.add_argument("--out", type=Path, default=Path("demo"), help="folder for the results (default: demo)")
    demo.add_argument("--seed", type=int, default=0, help="of the split, the network and the sampling")
    demo.add_argument("--steps", type=int, default=400, help="at most so many training steps")
    demo.add_argument("--json", action="store_true", help="print the summary as JSON")
    commands.add_subcommand("demo", demo, help="the main job on an embedded data set")

    reproduce = ArgumentParser(description="Compute the paper's tables and print them beside the paper's numbers.")
    reproduce.add_argument("names", nargs="*", help="tables to compute; see --list")
    reproduce.add_argument("--list", action="store_true", help="name the tables")
    reproduce.add_argument("--quick", action="store_true", help="a few minutes: fewer folds and steps")
    reproduce.add_argument("--data-root", type=str, default=None, help="data folder (default: $LATENTGRAPH_DATA)")
    reproduce.add_argument(
        "--out", type=Path, default=Path("results"), help="folder of results files; runs go on there"
    )
    commands.add_subcommand("reproduce", reproduce, help="the paper's tables beside ours")

    bench = ArgumentParser(description="Measure speed and memory beside alternatives, in one run on this machine.")
    bench.add_argument("names", nargs="*", help="what to measure (default: all); see --list")
    bench.add_argument("--list", action="store_true", help="name the benchmarks")
    bench.add_argument("--quick", action="store_true", help="seconds instead of minutes: small sizes, other file names")
    bench.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="numbers of threads (default: 1 2)")
    bench.add_argument("--out", type=Path, default=Path("results"), help="folder of results files; runs go on there")
    bench.add_argument("--json", action="store_true", help="print JSON instead of tables")
    commands.add_subcommand("bench", bench, help="speed and memory beside alternatives")
    return parser


def _demo(arguments: Namespace) -> int:
    from latentgraph import demo

    summary = demo.run(arguments.out, seed=arguments.seed, steps=arguments.steps)
    if arguments.json:
        print(json.dumps(summary, indent=2))
        return 0
    scores = sorted(summary["accuracy_on_hidden_labels"].items(), key=lambda item: -item[1])
    hidden = summary["rows"] - summary["labelled"]
    _print_table(
        f"{hidden} hidden diagnoses of {summary['rows']}",
        ("method", "accuracy"),
        [(name, f"{100 * score:.1f} %") for name, score in scores],
    )
    print(
        f"{100 * summary['edge_homophily']:.1f} % of the edges of the learned graph join tumours of the same kind.\n"
        f"Written to {arguments.out}/: nodes.csv, edges.csv, graph.npz, summary.json"
    )
    return 0


def _reproduce(arguments: Namespace) -> int:
    if arguments.list or not arguments.names:
        _print_table("tables of the paper", ("name", "what"), list(EXPERIMENTS.items()))
        return 0
    _check_names(arguments.names, EXPERIMENTS, "reproduce")
    from latentgraph.experiments import tadpole

    path = arguments.out / ("tadpole-quick.jsonl" if arguments.quick else "tadpole.jsonl")
    results = tadpole.run(path, data_root=arguments.data_root, quick=arguments.quick)
    rows = tadpole.table(results, quick=arguments.quick)
    _print_table("TADPOLE, accuracy in %, mean and standard deviation over folds", ("method", "paper", "ours"), rows)
    print(f"Every cell is in {path}")
    return 0


def _bench(arguments: Namespace) -> int:
    if arguments.list:
        _print_table("benchmarks", ("name", "what"), list(BENCHES.items()))
        return 0
    _check_names(arguments.names, BENCHES, "bench")
    from latentgraph.bench.run import bench, run

    reports = {}
    for name in arguments.names or BENCHES:
        report = run(name, arguments.out, threads=arguments.threads, quick=arguments.quick)
        reports[name] = report
        for line in report["left_out"]:
            print(f"latentgraph: {line}", file=sys.stderr)
        if not arguments.json:
            for table in bench(name).tables(report["rows"]):
                _print_table(f"{name}: {table.title}", table.header, table.rows)
    if arguments.json:
        print(json.dumps(reports, indent=2))
    else:
        print(f"Every number is in {arguments.out}/bench-*.json and .csv")
    return 0


def _check_names(names: Sequence[str], known: Mapping[str, str], command: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"there is no {name!r} here; there is: {', '.join(known)}. See {command} --list.")


_COMMANDS = {"bench": _bench, "demo": _demo, "reproduce": _reproduce}


def _print_table(title: str, header: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(*header, title=title, title_justify="left")
    for row in rows:
        table.add_row(*map(str, row))
    console = Console()
    if not console.is_terminal:
        console.width = 200  # a log has no width to fit into
    console.print(table)
