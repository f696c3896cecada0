"""The model card of a run, in Markdown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from latentgraph.runs.plan import Plan
from latentgraph.runs.testing import OURS, mean_scores


def card(plan: Plan, summary: Mapping[str, Any], pictures: Mapping[str, str]) -> str:
    """What the model is, what it was made from, how good it is; `pictures` are files in `plots/` and their titles."""
    lines = [
        f"# {plan.target}, predicted from {plan.table.name}",
        "",
        f"A {summary['task']} model that learns a graph between the rows, made by latentgraph "
        f"{summary['versions']['latentgraph']}.",
        "",
        "## Data",
        "",
        *(f"- {sentence}" for sentence in summary["report"]),
        "",
        "## Scores on rows that were kept away from training",
        "",
        *_scores(plan, summary["scores"]),
        "",
    ]
    for file, title in pictures.items():
        lines += [f"![{title}](plots/{file})", ""]
    lines += [
        "## Training",
        "",
        f"Seed {plan.seed}; {summary['steps']} steps on all rows, weights of step {summary['best_step']} kept. Every "
        "option is in `config.yaml`. Versions: "
        + ", ".join(f"{name} {version}" for name, version in summary["versions"].items())
        + ".",
        "",
        "## Use",
        "",
        "The model was trained on all rows of the table, and the folder keeps those rows: do not give it "
        "to whom you would not give the table. Predictions for rows with a high outlier score mean little.",
        "",
    ]
    return "\n".join(lines)


def _scores(plan: Plan, scores: Sequence[Mapping[str, Mapping[str, float]]]) -> list[str]:
    found = mean_scores(scores)
    if not found:
        return ["Not measured: there were too few labelled rows, or it was not asked for."]
    if not plan.folds:
        lines = [[method, *(f"{m:.4f}" for m, _ in values.values())] for method, values in found.items()]
        return ["One part of the labelled rows.", "", *_table(["method", *found[OURS]], lines)]
    lines = [[method, *(f"{m:.4f} ± {s:.4f}" for m, s in values.values())] for method, values in found.items()]
    return [
        f"Mean and standard deviation over {plan.folds} folds.",
        "",
        *_table(["method", *found[OURS]], lines),
        "",
        "Of latentgraph, fold by fold:",
        "",
        *_table(["fold", *found[OURS]], fold_rows(scores)),
    ]


def fold_rows(scores: Sequence[Mapping[str, Mapping[str, float]]]) -> list[list[str]]:
    """The scores of latentgraph, a line for each fold."""
    names = scores[0][OURS]
    return [
        [str(number), *(f"{part[OURS][name]:.4f}" if name in part[OURS] else "" for name in names)]
        for number, part in enumerate(scores, 1)
    ]


def _table(header: Sequence[str], lines: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in (header, ["---"] * len(header), *lines)]
