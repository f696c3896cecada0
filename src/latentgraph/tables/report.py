"""What was found in a table, in plain sentences and as JSON."""

from __future__ import annotations

from collections import Counter
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from latentgraph.tables.frames import Source, as_frame
from latentgraph.tables.leakage import Suspect, suspects
from latentgraph.tables.names import some
from latentgraph.tables.preprocessor import TablePreprocessor
from latentgraph.tables.reading import reading_of
from latentgraph.tables.target import Target


@dataclass
class TableReport:
    """The facts about a table that a reader should know before believing a result.

    Attributes
    ----------
    rows, columns : size of the table
    features : columns of the matrix
    kinds : number of columns of each kind
    dropped : columns that are not used, and why
    missing : share of missing values in the training rows, for feature columns that have any
    labelled : rows with a target; None without a target
    classes : number of rows of each class
    leakage : columns that alone predict the target almost perfectly; None if it was not or could not be tested
    notes : sentences about reading and about single columns
    """

    rows: int
    columns: int
    features: int
    kinds: dict[str, int]
    dropped: dict[str, str]
    missing: dict[str, float]
    labelled: int | None = None
    classes: dict[str, int] = field(default_factory=dict)
    leakage: list[Suspect] | None = None
    notes: list[str] = field(default_factory=list)

    @classmethod
    def make(cls, table: Source, preprocessor: TablePreprocessor, target: Target | None = None) -> TableReport:
        """Look at the whole table with a fitted preprocessor; with a target, also for columns that give it away."""
        frame = as_frame(table)
        schema = preprocessor.schema
        features = schema.with_role("feature")
        report = cls(
            rows=len(frame),
            columns=len(frame.columns),
            features=len(preprocessor.feature_names_out()),
            kinds=dict(Counter(column.kind for column in schema.columns)),
            dropped={column.name: column.reason for column in schema.with_role("dropped")},
            missing={column.name: column.missing for column in features if column.missing},
        )
        reading = reading_of(frame)
        report.notes = [*(reading.sentences() if reading else []), *schema.notes()]
        if target is not None:
            y = target.encode(frame)
            known = y >= 0 if target.classes else ~np.isnan(y)
            report.labelled = int(known.sum())
            counts = Counter(target.decode(y[known])) if target.classes else {}
            report.classes = {name: counts[name] for name in target.classes}
            columns = {column.name: column.values(frame[column.name]) for column in features}
            report.leakage = suspects(columns, y)
        return report

    def sentences(self) -> list[str]:
        """The report in words, the most important last."""
        kinds = some([f"{count} {kind}" for kind, count in sorted(self.kinds.items(), key=lambda item: -item[1])])
        lines = [f"{self.rows} rows, {self.columns} columns ({kinds}), {self.features} features.", *self.notes]
        reasons: dict[str, list[str]] = {}
        for name, reason in self.dropped.items():
            reasons.setdefault(reason, []).append(repr(name))
        lines += [f"Not used, because {reason}: {some(names)}." for reason, names in reasons.items()]
        if self.missing:
            most = sorted(self.missing.items(), key=lambda item: -item[1])
            shown = some([f"{name!r} {share:.0%}" for name, share in most], most=5)
            lines.append(f"{len(self.missing)} columns have missing values: {shown}.")
        if self.labelled is not None:
            counts = f": {some([f'{name} {count}' for name, count in self.classes.items()])}" if self.classes else ""
            lines.append(f"{self.labelled} of {self.rows} rows have a target{counts}.")
            if self.leakage is None:
                lines.append("Too few rows with a target to look for columns that give it away.")
            lines += [
                f"POSSIBLE LEAKAGE: column {column!r} alone predicts the target ({measure} {score:.3f}). If it is not "
                "known before the target is, drop it."
                for column, measure, score in self.leakage or []
            ]
        return lines

    def to_json(self) -> dict[str, Any]:
        """The report as JSON types."""
        leakage = None if self.leakage is None else [suspect._asdict() for suspect in self.leakage]
        return asdict(self) | {"leakage": leakage}
