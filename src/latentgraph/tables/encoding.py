"""From values to features: one small encoder for each column, fitted by scikit-learn, applied here.

The fitted numbers are plain floats and lists, so that an encoder is written as JSON and gives the same features to the
last bit when it is read again. With m the median, c the center and s the scale of the training rows,

    number:    z = (x - c) / s,  with x = m where x is missing
    quantile:  z = sqrt(12) (F(x) - 1/2), with F the distribution of the training rows
    boolean:   z = 1, 0, or the share of true where it is missing
    category:  z_l = 1 if x = l, one feature for each level l
    date:      as a number of days since the first training date, and sin and cos of the season

and one more feature, 1 where x is missing, for each column that had missing values in training.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from sklearn.impute import SimpleImputer
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, RobustScaler, StandardScaler

from latentgraph.tables.dates import YEAR, iso
from latentgraph.tables.names import some
from latentgraph.tables.values import Floats, Levels

SCALES = ("standard", "quantile", "robust", "none")


class Feature(NamedTuple):
    """One column of the matrix: its name, the table's column it comes from, and what it says."""

    name: str
    column: str
    meaning: str


@dataclass
class Number:
    """A number, filled where it is missing, and scaled."""

    column: str
    fill: float
    indicator: bool
    center: float = 0.0
    scale: float = 1.0
    quantiles: list[float] | None = None
    kind: str = "number"

    def features(self) -> list[Feature]:
        how = (
            "its rank among the training rows, from -1.73 to 1.73"
            if self.quantiles
            else f"minus {self.center:.6g}, divided by {self.scale:.6g}"
        )
        value = Feature(self.column, self.column, f"{how}; where missing, {self.fill:.6g}")
        return [value, *_indicator(self.column, self.indicator)]

    def apply(self, values: Floats) -> tuple[Floats, list[str]]:
        missing = np.isnan(values)
        filled = np.where(missing, self.fill, values)
        z = (filled - self.center) / self.scale if self.quantiles is None else _ranks(filled, self.quantiles)
        return _with_indicator(z[:, None], missing, self.indicator), _unexpected(self.column, missing, self.indicator)


@dataclass
class Date:
    """Days since the first training date as a number; the season if the training dates span more than a year."""

    column: str
    origin: float
    season: bool
    days: Number
    kind: str = "date"

    def features(self) -> list[Feature]:
        value, *indicator = self.days.features()
        value = Feature(f"{self.column} (days)", self.column, f"days since {iso(self.origin)}, {value.meaning}")
        season = [
            Feature(f"{self.column} ({name} of season)", self.column, f"{name} of the time of the year, 0 if missing")
            for name in ("sine", "cosine")
        ]
        return [value, *(season if self.season else []), *indicator]

    def apply(self, values: Floats) -> tuple[Floats, list[str]]:
        z, notes = self.days.apply(values - self.origin)
        if self.season:
            angle = 2 * np.pi * values / YEAR
            season = np.nan_to_num(np.stack([np.sin(angle), np.cos(angle)], axis=1))
            z = np.hstack([z[:, :1], season, z[:, 1:]])
        return z, notes


@dataclass
class Boolean:
    """1 for true, 0 for false."""

    column: str
    fill: float
    indicator: bool
    kind: str = "boolean"

    def features(self) -> list[Feature]:
        value = Feature(self.column, self.column, f"1 for true, 0 for false; where missing, {self.fill:.6g}")
        return [value, *_indicator(self.column, self.indicator)]

    def apply(self, values: Floats) -> tuple[Floats, list[str]]:
        missing = np.isnan(values)
        z = np.where(missing, self.fill, values)
        return _with_indicator(z[:, None], missing, self.indicator), _unexpected(self.column, missing, self.indicator)


@dataclass
class Category:
    """One feature for each frequent level, one for all rare levels together; zeros for a level not seen in training."""

    column: str
    levels: list[str]
    rare: list[str]
    indicator: bool
    kind: str = "category"

    def features(self) -> list[Feature]:
        own = [Feature(f"{self.column}={level}", self.column, f"1 if it is {level!r}") for level in self.levels]
        if self.rare:
            own.append(Feature(f"{self.column} (other)", self.column, f"1 if it is rare: {some(self.rare)}"))
        return [*own, *_indicator(self.column, self.indicator)]

    def apply(self, values: Levels) -> tuple[Floats, list[str]]:
        place = {level: i for i, level in enumerate(self.levels)} | dict.fromkeys(self.rare, len(self.levels))
        missing = pd.isna(values)
        width = len(self.levels) + bool(self.rare)
        codes, unique = pd.factorize(values)
        rows = np.array([*(np.arange(width) == place.get(level, -1) for level in unique), np.zeros(width)], dtype=float)
        notes = _unexpected(self.column, missing, self.indicator)
        if new := [level for level in unique if level not in place]:
            count = int(np.isin(codes, [i for i, level in enumerate(unique) if level not in place]).sum())
            shown = some([repr(level) for level in new])
            notes.append(f"Column {self.column!r}: not seen in training: {shown} ({count} rows); encoded as zeros.")
        return _with_indicator(rows[codes], missing, self.indicator), notes


Encoder = Number | Date | Boolean | Category


def fit_numbers(columns: Mapping[str, Floats], scale: str) -> list[Number]:
    """Fit all columns of numbers at once."""
    if not columns:
        return []
    x = np.stack(list(columns.values()), axis=1)
    imputer = SimpleImputer(strategy="median", add_indicator=True).fit(x)
    x = imputer.transform(x)[:, : x.shape[1]]
    with_indicator = set(imputer.indicator_.features_.tolist())
    encoders = [
        Number(name, float(fill), i in with_indicator)
        for i, (name, fill) in enumerate(zip(columns, imputer.statistics_, strict=True))
    ]
    if scale == "quantile":
        transformer = QuantileTransformer(n_quantiles=min(1000, len(x)), subsample=None).fit(x)
        for encoder, quantiles in zip(encoders, transformer.quantiles_.T, strict=True):
            encoder.quantiles = quantiles.tolist()
    elif scale != "none":
        scaler = StandardScaler().fit(x) if scale == "standard" else RobustScaler().fit(x)
        centers = scaler.mean_ if scale == "standard" else scaler.center_
        for encoder, center, unit in zip(encoders, centers, scaler.scale_, strict=True):
            encoder.center, encoder.scale = float(center), float(unit)
    return encoders


def fit_boolean(column: str, values: Floats) -> Boolean:
    return Boolean(column, float(np.nanmean(values)), bool(np.isnan(values).any()))


def fit_category(column: str, values: Levels, rare: float) -> Category:
    missing = pd.isna(values)
    names, codes = np.unique(values[~missing].astype(str), return_inverse=True)  # codes: far faster than text
    encoder = OneHotEncoder(min_frequency=rare or None, handle_unknown="ignore").fit(codes[:, None])
    infrequent = encoder.infrequent_categories_[0] if rare else None
    grouped = [] if infrequent is None else names[infrequent].tolist()
    levels = [name for name in names.tolist() if name not in grouped]
    return Category(column, levels, grouped, bool(missing.any()))


def encoder_to_json(encoder: Encoder) -> dict[str, Any]:
    return asdict(encoder)


def encoder_from_json(data: Mapping[str, Any]) -> Encoder:
    values = dict(data)
    if values["kind"] == "date":
        values["days"] = Number(**values["days"])
    return {"number": Number, "date": Date, "boolean": Boolean, "category": Category}[values["kind"]](**values)


def _ranks(values: Floats, quantiles: list[float]) -> Floats:
    """sqrt(12) (F(x) - 1/2): mean 0 and variance 1 without ties. F is the middle of a jump, but 0 and 1 at the ends."""
    grid, share = np.array(quantiles), np.linspace(0, 1, len(quantiles))
    below, above = np.interp(values, grid, share), -np.interp(-values, -grid[::-1], -share[::-1])
    middle = 0.5 * (below + above)
    return np.sqrt(12) * (np.where(values <= grid[0], 0, np.where(values >= grid[-1], 1, middle)) - 0.5)


def _indicator(column: str, there: bool) -> list[Feature]:
    return [Feature(f"{column} (missing)", column, "1 if the value is missing")] if there else []


def _with_indicator(z: Floats, missing: Any, there: bool) -> Floats:
    return np.hstack([z, missing[:, None].astype(float)]) if there else z


def _unexpected(column: str, missing: Any, expected: bool) -> list[str]:
    count = int(missing.sum())
    if expected or not count:
        return []
    return [f"Column {column!r}: missing in {count} rows, never in training; filled with the usual value."]
