"""The command line: arguments in, calls out. Nothing heavy is imported before the arguments are understood."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from jsonargparse import ArgumentParser, Namespace

from latentgraph import __version__
from latentgraph.errors import InputError, LostProcessError, RunError, SaidByFirstError
from latentgraph.experiments.catalogue import CATALOGUE, IN_FULL
from latentgraph.runs.options import DEFAULTS, OPTIONS

if TYPE_CHECKING:
    from latentgraph.runs.plan import Plan

BENCHES = {
    "sampler": "exact Gumbel-top-k beside the dense formula and beside libraries for nearest neighbours",
    "continuous": "diffusion over a continuous graph, forward and backward, beside (n, n) matrices",
    "step": "a training step from 1,000 to 1,000,000 nodes, and which part of it takes how long",
    "scaling": "training steps by 1, 2 and 4 processes, and what 8 and 64 machines would take",
    "memory": "how memory grows with the number of nodes",
    "population": "latentgraph fit on up to a million rows: time, memory, and where it goes",
    "warmup": "what starting up and the first call cost",
    "figure-speed-memory": "the paper's figure: time and memory of a training step against the number of nodes",
    "gradients": "bias and variance of the ways to train a sampled graph, against all graphs of a small problem",
    "table-times": "the paper's table: training and test iterations for 564, 5,000 and 10,000 nodes",
}


# In place of all options: a message about one of them should not be lost among the others.
USAGE = "latentgraph {} TABLE --target COLUMN [options]"


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Status 0: done; 1: the run failed; 2: bad usage or bad input, explained in one message; 130: interrupted (Ctrl-C).
    """
    arguments = _parser().parse_args(argv)
    try:
        if _processes() > 1 and arguments.subcommand != "fit":
            raise InputError(f"{_processes()} processes were started; only fit knows how to share work. Start one.")
        return _COMMANDS[arguments.subcommand](arguments[arguments.subcommand])
    except SaidByFirstError:
        return 2
    except InputError as error:
        print(f"latentgraph: {error}", file=sys.stderr)
        return 2
    except LostProcessError as error:
        print(f"latentgraph: {error} {_how_to_go_on(arguments)}", file=sys.stderr, flush=True)
        return 1
    except RunError as error:
        print(f"latentgraph: {error}", file=sys.stderr)
        return 1
    except OSError as error:
        print(f"latentgraph: {error.strerror or error}: {error.filename}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print(f"\nlatentgraph: interrupted. {_how_to_go_on(arguments)}", file=sys.stderr)
        return 130


def _processes() -> int:
    """How many of us a launcher such as torchrun has started."""
    return int(os.environ.get("WORLD_SIZE", "1")) if "RANK" in os.environ else 1


def _how_to_go_on(arguments: Namespace) -> str:
    if arguments.subcommand in ("bench", "reproduce", "tune"):
        return "What was finished is kept; the same command goes on."
    if arguments.subcommand == "fit":
        record, out = arguments.fit.out / "run.json", shlex.quote(str(arguments.fit.out))
        if record.exists() and not json.loads(record.read_text(encoding="utf-8"))["finished"]:
            jobs = f" --jobs {arguments.fit.jobs}" if arguments.fit.jobs > 1 else ""
            return f"Continue with: latentgraph fit --config {out}/config.yaml --out {out} --resume{jobs}"
    return "Nothing that was there is lost; run it again."


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
    demo.add_argument("--steps", type=int, default=DEFAULTS["steps"], help="at most so many training steps")
    demo.add_argument("--json", action="store_true", help="print the summary as JSON")
    commands.add_subcommand("demo", demo, help="the main job on an embedded data set")

    fit = ArgumentParser(
        usage=USAGE.format("fit"),
        description="Train on a table: csv, tsv (also .gz) or parquet, mixed types, missing values.",
    )
    _add_plan(fit)
    fit.add_argument(
        "--out", type=Path, default=Path("run"), help="folder for the model and the results (default: run)"
    )
    fit.add_argument("--folds", type=int, default=0, help="cross-validate with so many folds instead")
    fit.add_argument("--jobs", type=int, default=1, help="processes that test folds side by side (default: 1)")
    fit.add_argument("--resume", action="store_true", help="continue the interrupted run in --out, to the same result")
    fit.add_argument("--overwrite", action="store_true", help="replace the run in --out")
    fit.add_argument(
        "--timeout", type=float, default=600.0, help="seconds that a process of several (torchrun) waits for the others"
    )
    commands.add_subcommand("fit", fit, help="train on a table")

    tune = ArgumentParser(
        usage=USAGE.format("tune"),
        description="Search for options of fit that predict better than the given ones, which are tried first.",
    )
    _add_plan(tune)
    tune.add_argument("--out", type=Path, default=Path("tuned"), help="folder of the search (default: tuned)")
    tune.add_argument("--trials", type=int, default=30, help="sets of options to try, all in all (default: 30)")
    tune.add_argument("--search", type=list[str], default=[], help="options to search, as a list: [k, dropout]")
    tune.add_argument("--folds", type=int, default=3, help="of the rows to learn from, to score a trial (default: 3)")
    tune.add_argument("--jobs", type=int, default=1, help="processes that try options side by side (default: 1)")
    tune.add_argument("--time-limit", type=float | None, default=None, help="seconds after which no trial begins")
    commands.add_subcommand("tune", tune, help="search for better options")

    predict = ArgumentParser(description="Predict the rows of another table with a model that `fit` has kept.")
    predict.add_argument("run", type=Path, help="folder that fit wrote")
    predict.add_argument("table", type=Path, help="the table; its columns are checked")
    _add_reading(predict)
    predict.add_argument("--out", type=Path, default=Path("predictions.csv"), help="default: predictions.csv")
    predict.add_argument("--neighbours", type=int, default=3, help="most probable training rows to name for each row")
    predict.add_argument("--json", action="store_true", help="print the summary as JSON")
    commands.add_subcommand("predict", predict, help="predict the rows of another table")

    export = ArgumentParser(description="Write the learned graph for other programs.")
    export.add_argument("run", type=Path, help="folder that fit wrote")
    export.add_argument("--format", type=str, default="graphml", help="graphml, gexf, npz or csv")
    export.add_argument("--out", type=Path | None, default=None, help="default: graph.FORMAT")
    commands.add_subcommand("export", export, help="the learned graph for other programs")

    explore = ArgumentParser(description="Write one HTML file to look at the learned graph; it opens offline.")
    explore.add_argument("run", type=Path, help="folder that fit or demo wrote")
    explore.add_argument("--out", type=Path | None, default=None, help="the page (default: RUN/explorer.html)")
    explore.add_argument("--png", type=Path | None, default=None, help="write this picture instead of the page")
    explore.add_argument("--open", action="store_true", help="open the page in the browser")
    commands.add_subcommand("explore", explore, help="a page to look at the learned graph")

    inspect = ArgumentParser(
        description="Say what a learned graph says: whom it joins, who stands between classes, and whether other runs "
        "have learned the same."
    )
    inspect.add_argument("runs", type=Path, nargs="+", help="folder that fit or demo wrote; more to compare with it")
    inspect.add_argument("--bridges", type=int, default=10, help="rows between classes to name (default: 10)")
    inspect.add_argument("--json", action="store_true", help="print all of it as JSON")
    commands.add_subcommand("inspect", inspect, help="what the learned graph says")

    reproduce = ArgumentParser(description="Compute the paper's tables and print them beside the paper's numbers.")
    reproduce.add_argument("names", nargs="*", help="tables to compute; see --list")
    reproduce.add_argument("--list", action="store_true", help="name the tables")
    reproduce.add_argument("--quick", action="store_true", help="minutes: few seeds, folds, steps; other file names")
    reproduce.add_argument("--full", action="store_true", help="all of the data instead of a part of it: shapenet")
    reproduce.add_argument("--seeds", type=int | None, default=None, help="runs of each cell (default: as in the docs)")
    reproduce.add_argument("--jobs", type=int, default=1, help="processes that compute cells side by side (default: 1)")
    reproduce.add_argument(
        "--only", type=str, nargs="+", default=[], help='cells with all these values: --only Cora "dDGM, k=10"'
    )
    reproduce.add_argument("--data-root", type=str, default=None, help="data folder (default: $LATENTGRAPH_DATA)")
    reproduce.add_argument(
        "--out", type=Path, default=Path("results"), help="folder of results files; runs go on there"
    )
    reproduce.add_argument("--json", action="store_true", help="print the tables as JSON")
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


READING = {
    "encoding": "of a text file (default: found out)",
    "delimiter": "of a text file (default: found out)",
    "decimal": "decimal mark of numbers that fit both, such as 1,234: a point or a comma",
}


def _add_reading(parser: ArgumentParser) -> None:
    for name, words in READING.items():
        parser.add_argument(f"--{name}", type=str | None, default=None, help=words)


PLAN = ("table", "target", "id", "task", "scale", "drop", *READING, "test_fraction", "seed")


def _add_plan(parser: ArgumentParser) -> None:
    """What `fit` and `tune` are told of a table and of the estimator."""
    parser.add_argument("table", type=Path, help="the table")
    parser.add_argument("--target", type=str | None, help="column to predict; rows without a value are unlabelled")
    parser.add_argument("--id", type=str | None, default=None, help="column that names the rows")
    parser.add_argument(
        "--task", type=str | None, default=None, help="classification or regression (default: by the target)"
    )
    parser.add_argument("--scale", type=str, default="standard", help="of numbers: standard, robust, quantile or none")
    parser.add_argument("--drop", type=list[str], default=[], help="columns not to use, as a list: [a, b]")
    _add_reading(parser)
    parser.add_argument(
        "--test_fraction", type=float, default=0.2, help="part of the labelled rows to test on; 0: none"
    )
    parser.add_argument("--seed", type=int, default=0, help="of the splits, the network and the sampling")
    parser.add_argument("--config", action="config", help="file with options, as --print_config writes it")
    parser.add_argument("--json", action="store_true", help="print the summary as JSON")
    for option in OPTIONS:
        kind = option.type or type(option.default)
        parser.add_argument(f"--{option.name}", type=kind, default=option.default, help=option.help)


def _plan(arguments: Namespace, **more: Any) -> Plan:
    from latentgraph.runs.plan import Plan

    if arguments.target is None:
        raise InputError("which column is to be predicted? Say it with --target COLUMN.")
    options = {option.name: arguments[option.name] for option in OPTIONS}
    return Plan(**{name: arguments[name] for name in PLAN}, **more, verbose=True, options=options)


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
        f"Written to {arguments.out}/: the table tumours.csv, the model, pictures, and explorer.html to look at"
    )
    return 0


def _fit(arguments: Namespace) -> int:
    from latentgraph.runs import fitting

    plan = _plan(arguments, folds=arguments.folds)
    how = {name: arguments[name] for name in ("resume", "overwrite", "jobs")}
    if _processes() > 1:
        from latentgraph.distributed.group import joined

        with joined(arguments.timeout) as team:
            first = team is None or team.first
            summary = fitting.run(replace(plan, verbose=first), arguments.out, **how)
        if not first:
            return 0
    else:
        summary = fitting.run(plan, arguments.out, **how)
    if arguments.json:
        print(json.dumps(summary, indent=2))
        return 0
    for sentence in summary["report"]:
        print(f"- {sentence}")
    if summary["scores"]:
        _print_scores(summary["scores"], arguments.target, arguments.folds)
    out = shlex.quote(str(arguments.out))
    print(
        f"Trained on all {summary['rows']} rows. Written to {out}/; read {out}/card.md first.\n"
        f"Next: latentgraph predict {out} NEW_TABLE, or latentgraph inspect {out} for what the graph says"
    )
    return 0


def _print_scores(scores: Sequence[Mapping[str, Mapping[str, float]]], target: str, folds: int) -> None:
    from latentgraph.runs.card import fold_rows
    from latentgraph.runs.testing import OURS, mean_scores

    names = list(scores[0][OURS])
    if folds:
        _print_table(f"{target}: latentgraph, fold by fold", ("fold", *names), fold_rows(scores))
    rows = [
        [method, *(f"{m:.3f} ± {s:.3f}" if folds else f"{m:.3f}" for m, s in values.values())]
        for method, values in mean_scores(scores).items()
    ]
    _print_table(f"{target}: rows that were kept away from training", ("method", *names), rows)


def _tune(arguments: Namespace) -> int:
    from latentgraph.runs import tuning

    search = tuning.Search(_plan(arguments), arguments.search, arguments.folds, arguments.trials)
    summary = tuning.run(search, arguments.out, jobs=arguments.jobs, time_limit=arguments.time_limit)
    if arguments.json:
        print(json.dumps(summary, indent=2))
        return 0
    names = list(search.space)
    rows = [
        [f"{trial['number']}{', as given' if trial['given'] else ''}", f"{trial['score']:.4f}"]
        + [f"{value:.4g}" if isinstance(value, float) else value for value in map(trial["options"].get, names)]
        for trial in summary["trials"][:10]
        if trial["score"] is not None
    ]
    score, out = summary["score"], shlex.quote(str(arguments.out))
    early = sum(trial["score"] is None for trial in summary["trials"])
    _print_table(f"best of {len(summary['trials'])} trials, {early} ended early", ("trial", score, *names), rows)
    given = "" if summary["given"] is None else f"{summary['given']:.4f} as given, "
    print(
        f"{score} in cross-validation, smaller is better: {given}{summary['best']:.4f} tuned. "
        "The rows that fit tests on were not used.\n"
        f"Every trial is in {out}/trials.csv. Next: latentgraph fit --config {out}/tuned.yaml"
    )
    return 0


def _predict(arguments: Namespace) -> int:
    from latentgraph.runs import predicting

    reading = {name: arguments[name] for name in READING}
    summary = predicting.run(arguments.run, arguments.table, arguments.out, arguments.neighbours, **reading)
    if arguments.json:
        print(json.dumps(summary, indent=2))
        return 0
    for note in summary["notes"]:
        print(f"- {note}")
    if summary["outliers"]:
        print(
            f"- {summary['outliers']} rows are unlike everything in training (outlier score above {predicting.FAR:g})."
        )
    counts = ", ".join(f"{name} {value:.4g}" for name, value in summary["predictions"].items())
    print(f"{summary['rows']} rows: {counts}. Written to {summary['out']}")
    return 0


def _export(arguments: Namespace) -> int:
    from latentgraph.runs import exporting

    out = arguments.out or Path(f"graph.{arguments.format}")
    summary = exporting.run(arguments.run, arguments.format, out)
    print(f"{summary['nodes']} nodes, {summary['edges']} edges. Written to {summary['out']}")
    return 0


def _explore(arguments: Namespace) -> int:
    from latentgraph import demo
    from latentgraph.explorer import from_run

    page = demo.page(arguments.run) if (arguments.run / demo.ANSWERS).is_file() else from_run(arguments.run)
    if arguments.png is not None:
        print(f"Written to {page.png(arguments.png)}")
    if arguments.png is None or arguments.out is not None or arguments.open:
        path = page.write(arguments.out or arguments.run / "explorer.html")
        print(f"{len(page.names)} nodes, {page.graphs[0].edges.nnz} edges. Written to {path}")
        if arguments.open:
            import webbrowser

            webbrowser.open(path.resolve().as_uri())
    return 0


def _inspect(arguments: Namespace) -> int:
    from latentgraph.runs import inspecting

    found = inspecting.run(arguments.runs, arguments.bridges)
    if arguments.json:
        print(json.dumps(found, indent=2))
        return 0
    for sentence in inspecting.sentences(found):
        print(f"- {sentence}")
    rows = [
        (
            bridge["row"],
            bridge["class"] if bridge["labelled"] else f"{bridge['class']} (predicted)",
            bridge["other class"],
            f"{bridge['crossing']:.1f}",
            f"{100 * bridge['share']:.0f} %",
        )
        for bridge in found.get("bridges", [])
    ]
    if rows:
        header = ("row", found["target"], "edges to", "expected edges to other classes", "of its edges")
        _print_table("rows between classes", header, rows)
    return 0


def _reproduce(arguments: Namespace) -> int:
    if arguments.list or not arguments.names:
        rows = [(name, what) for name, (_, what) in CATALOGUE.items()]
        _print_table("tables of the paper", ("name", "what"), rows)
        return 0
    _check_names(arguments.names, CATALOGUE, "reproduce")
    names = [_in_full(name) if arguments.full else name for name in arguments.names]
    from latentgraph.experiments.catalogue import experiment
    from latentgraph.experiments.running import pictures, run

    shown = {}
    for name in names:
        options = {option: arguments[option] for option in ("seeds", "jobs", "only", "quick", "data_root")}
        results = run(name, arguments.out, **options)
        shown[name] = experiment(name).tables(results)
        if not arguments.json:
            for table in shown[name]:
                _print_table(f"{name}: {table.title}", table.header, table.rows)
            print(f"Every cell is in {results.path}")
        try:
            for picture in pictures(name, arguments.out, quick=arguments.quick, data_root=arguments.data_root):
                print(f"Written to {picture}", file=sys.stderr)
        except InputError as error:  # no matplotlib: the tables are there all the same
            print(f"latentgraph: no picture was drawn: {error}", file=sys.stderr)
    if arguments.json:
        print(json.dumps({name: [table._asdict() for table in tables] for name, tables in shown.items()}, indent=2))
    return 0


def _in_full(name: str) -> str:
    if name not in IN_FULL:
        raise InputError(f"{name} has no more data than it takes; --full is for {', '.join(IN_FULL)}. Leave it out.")
    return IN_FULL[name]


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


def _check_names(names: Sequence[str], known: Mapping[str, Any], command: str) -> None:
    for name in names:
        if name not in known:
            raise InputError(f"there is no {name!r} here; there is: {', '.join(known)}. See {command} --list.")


_COMMANDS = {
    "bench": _bench,
    "demo": _demo,
    "explore": _explore,
    "export": _export,
    "fit": _fit,
    "inspect": _inspect,
    "predict": _predict,
    "reproduce": _reproduce,
    "tune": _tune,
}


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
