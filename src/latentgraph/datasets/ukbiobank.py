"""UK Biobank: age from brain imaging, by the table that the resource hands out to approved researchers.

One row a person, with the column `eid`, and a column for each value of a data field. Three ways to name these are read:

- `FIELD-INSTANCE.ARRAY`, as the conversion tool writes csv and tsv: `21003-2.0`
- `f.FIELD.INSTANCE.ARRAY`, as it writes tables for R: `f.21003.2.0`
- `pFIELD_iINSTANCE_aARRAY`, as the research analysis platform does, where i and a may be left out: `p21003_i2`, `p31`;
  also with the entity before it: `participant.p31`

Needed are the fields 31 (sex), 21003 (age when attending) and 54 (assessment centre), and imaging-derived phenotypes.
Of all but the sex, instance 2 is taken: the first imaging visit.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from latentgraph.datasets.brainage import BrainAge
from latentgraph.datasets.root import VARIABLE, data_file
from latentgraph.errors import InputError

FOLDER = "ukbiobank"
NAME = f"{FOLDER}/ukbiobank.csv"
HOW_TO_GET = (
    "UK Biobank gives its data to approved researchers only. Convert yours to a table with the fields 31, 21003, 54 "
    f"and imaging-derived phenotypes, and put it at {NAME} (or .tsv) below your data folder."
)

SEX, AGE, CENTRE = 31, 21003, 54
IMAGING = ((25000, 25999), (26500, 27999))  # ranges of fields: summaries of brain MRI, and of FreeSurfer
VISIT = 2  # the first with imaging
SEXES = {"Female": 0, "Male": 1}  # where words were exported in place of numbers
GROUPS = ("50-59", "60-69", "70-79", "80-89")  # the paper's

_FORMS = (
    r"(?P<field>\d+)-(?P<instance>\d+)\.(?P<array>\d+)",
    r"f\.(?P<field>\d+)\.(?P<instance>\d+)\.(?P<array>\d+)",
    r"(?:participant\.)?p(?P<field>\d+)(?:_i(?P<instance>\d+))?(?:_a(?P<array>\d+))?",
)
_IDS = ("eid", "f.eid", "participant.eid")


class Column(NamedTuple):
    """What the name of a column says; an instance or array that it leaves out is 0."""

    field: int
    instance: int
    array: int

    @property
    def is_imaging(self) -> bool:
        return self.instance == VISIT and any(low <= self.field <= high for low, high in IMAGING)


def parse_column(name: str) -> Column | None:
    """The field, instance and array of a column; None if it has another kind of name.

    >>> parse_column("21003-2.0")
    Column(field=21003, instance=2, array=0)
    >>> parse_column("p31")
    Column(field=31, instance=0, array=0)
    """
    for form in _FORMS:
        if found := re.fullmatch(form, name):
            return Column(*(int(found[part] or 0) for part in ("field", "instance", "array")))
    return None


def is_there(root: str | os.PathLike[str] | None = None) -> bool:
    """Whether there is a table, below `root` or the folder that LATENTGRAPH_DATA names."""
    root = root or os.environ.get(VARIABLE)
    return bool(root) and bool(_tables(Path(str(root))))


def ukbiobank(root: str | os.PathLike[str] | None = None) -> BrainAge:
    """The people with imaging, an age and a sex, each once: features, age, assessment centre, eid, sex.

    Features are the sex and all imaging columns of the first imaging visit that hold numbers; columns of text (names of
    bulk files) and empty ones are left out. Nothing is imputed: single missing measurements are NaN. People whose
    imaging columns are all missing are left out, too.
    """
    path = _table(root)
    separator = "\t" if path.suffix == ".tsv" else ","
    names = list(pd.read_csv(path, sep=separator, nrows=0, encoding="utf-8-sig").columns)
    parsed = {name: column for name in names if (column := parse_column(name)) is not None}
    eid = next((name for name in _IDS if name in names), None)
    special = {
        "sex": _find(parsed, Column(SEX, 0, 0)),
        "age": _find(parsed, Column(AGE, VISIT, 0)),
        "centre": _find(parsed, Column(CENTRE, VISIT, 0)),
    }
    imaging = [name for name, column in parsed.items() if column.is_imaging]
    missing = [what for what, name in {"eid": eid, **special, "imaging": imaging}.items() if not name]
    if missing:
        raise InputError(
            f"{path} has no column for: {', '.join(missing)}. Needed are eid, {SEX}-0.0 (sex), {AGE}-{VISIT}.0 (age), "
            f"{CENTRE}-{VISIT}.0 (centre) and imaging columns such as {IMAGING[0][0]}-{VISIT}.0; other spellings: "
            f"p{SEX}, p{AGE}_i{VISIT}, f.{SEX}.0.0."
        )
    people = pd.read_csv(
        path, sep=separator, usecols=[eid, *special.values(), *imaging], low_memory=False, encoding="utf-8-sig"
    ).drop_duplicates(eid)
    numbers = people[imaging].select_dtypes("number").dropna(axis=1, how="all")
    age = pd.to_numeric(people[special["age"]], errors="coerce")
    sex = pd.to_numeric(people[special["sex"]].replace(SEXES), errors="coerce")
    kept = (numbers.notna().any(axis=1) & age.notna() & sex.notna()).to_numpy()
    if not kept.any():
        raise InputError(f"{path} has nobody with imaging numbers, an age and a sex among its {len(people)} people.")
    centre = people[special["centre"]].convert_dtypes().astype("string").fillna("unknown")  # 11025, not 11025.0
    sexes = sex.to_numpy(float)[kept]
    return BrainAge(
        np.column_stack([sexes, numbers.to_numpy(float)[kept]]),
        age.to_numpy(float)[kept],
        centre.to_numpy(object)[kept],
        people[eid].to_numpy()[kept],
        sexes.astype(int),
    )


def age_group(age: np.ndarray[Any, Any]) -> np.ndarray[Any, np.dtype[np.int64]]:
    """(n,) 0 to 3 for the paper's groups, by the age in years; -1 for who is younger than 50 or older than 89.

    >>> age_group(np.array([49.0, 50.0, 69.9, 89.0, 90.0])).tolist()
    [-1, 0, 1, 3, -1]
    """
    decade = np.asarray(age) // 10 - 5
    return np.where((decade >= 0) & (decade < len(GROUPS)), decade, -1).astype(np.int64)


def _find(parsed: dict[str, Column], wanted: Column) -> str | None:
    return next((name for name, column in parsed.items() if column == wanted), None)


def _tables(root: Path) -> list[Path]:
    return sorted(path for path in (root / FOLDER).glob("*") if path.suffix in (".csv", ".tsv"))


def _table(root: str | os.PathLike[str] | None) -> Path:
    """The table with the expected name, or the only one in the folder."""
    folder = data_file(FOLDER, root, HOW_TO_GET)
    found = _tables(folder.parent)
    expected = [path for path in found if path.stem == Path(NAME).stem]
    if len(expected or found) != 1:
        names = ", ".join(path.name for path in found) or "no .csv or .tsv"
        raise InputError(f"{folder} holds {names}; there must be one table. {HOW_TO_GET}")
    return (expected or found)[0]
