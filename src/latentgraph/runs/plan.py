"""What `latentgraph fit` was asked to do."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import pandas as pd
from sklearn.utils._param_validation import InvalidParameterError

from latentgraph.checkpoint import Checkpoint
from latentgraph.errors import InputError
from latentgraph.estimators import DGMClassifier, DGMRegressor
from latentgraph.estimators.base import usable_device
from latentgraph.tables import TablePreprocessor, read_table


@dataclass(frozen=True)
class Plan:
    """What to do with a table; `options` are those of the estimator."""

    table: Path
    target: str
    id: str | None = None
    task: str | None = None
    scale: str = "standard"
    drop: Sequence[str] = ()
    encoding: str | None = None
    delimiter: str | None = None
    decimal: str | None = None
    test_fraction: float = 0.2
    folds: int = 0
    seed: int = 0
    options: Mapping[str, Any] = field(default_factory=dict)
    verbose: bool = False

    def config(self) -> dict[str, Any]:
        """What decides the result, as `--config` reads it."""
        own = {f.name: getattr(self, f.name) for f in fields(self) if f.name not in ("options", "verbose")}
        return own | {"table": str(self.table), "drop": list(self.drop)} | dict(self.options)

    def check(self) -> None:
        if self.folds == 1 or self.folds < 0:
            raise InputError(f"folds={self.folds}; it must be 0 (one test part) or at least 2.")
        if not 0 <= self.test_fraction < 1:
            raise InputError(f"test_fraction={self.test_fraction}; it must be at least 0 and below 1.")
        if not 0 <= self.seed < 2**32:
            raise InputError(f"seed={self.seed}; it must be a whole number from 0 to {2**32 - 1}.")
        try:
            DGMClassifier(**self.options, random_state=self.seed)._validate_params()
        except InvalidParameterError as error:
            raise InputError(str(error)) from None
        if self.options.get("pretrain") == "links":
            raise InputError(
                "pretrain=links learns an input graph, and a table has none. Choose contrastive or denoising, or use "
                "DGMClassifier in Python, whose fit takes edge_index."
            )
        usable_device(self.options.get("device", "cpu"))

    def say(self, line: str) -> None:
        """Tell who waits what is being done."""
        if self.verbose:
            print(line, file=sys.stderr, flush=True)

    def read(self) -> pd.DataFrame:
        return read_table(self.table, encoding=self.encoding, delimiter=self.delimiter, decimal=self.decimal)

    def table_sha256(self) -> str:
        return hashlib.sha256(self.table.read_bytes()).hexdigest()

    def preprocessor(self) -> TablePreprocessor:
        return TablePreprocessor(target=self.target, id=self.id, scale=self.scale, drop=list(self.drop))

    def estimator(self, task: str, checkpoint: Path | None = None) -> DGMClassifier | DGMRegressor:
        """Not fitted yet. Its training is kept in the folder `checkpoint`, and goes on from what is there."""
        options = dict(self.options)
        if task == "regression" and options.pop("class_weight", None) is not None:
            raise InputError(f"class_weight is for classes, but {self.target!r} is a number. Leave it out.")
        if task == "regression":
            options.pop("spread", None)  # numbers do not spread
        kind = DGMClassifier if task == "classification" else DGMRegressor
        # The preprocessing has scaled the numbers already.
        model = kind(**options, standardize=False, random_state=self.seed, verbose=self.verbose)
        model._checkpoint = None if checkpoint is None else Checkpoint(checkpoint)
        return model
