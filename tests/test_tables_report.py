"""The target, columns that give it away, and the report."""

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from latentgraph.datasets.tadpole import tadpole
from latentgraph.errors import InputError
from latentgraph.tables import TablePreprocessor, TableReport, Target, read_table
from latentgraph.tables.leakage import suspects

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "tadpole").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with tadpole/",
)

NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "classes", "codes"),
    [
        (["ill", "well", None, "ill"], ["ill", "well"], [0, 1, -1, 0]),
        ([2, 10, 2, 10], ["2", "10"], [0, 1, 0, 1]),
        ([0.0, 1.0, NAN, 1.0], ["0", "1"], [0, 1, -1, 1]),
        ([True, False, None, True], ["false", "true"], [1, 0, -1, 1]),
        (["yes", "no", "NA", "yes"], ["no", "yes"], [1, 0, -1, 1]),
        (["10", "9", "10", "9"], ["9", "10"], [1, 0, 1, 0]),
        (pd.Categorical(["b", "a", "b", None]), ["a", "b"], [1, 0, 1, -1]),
        (["é", "ü", "é", ""], ["é", "ü"], [0, 1, 0, -1]),
    ],
)
def test_classes(values: Any, classes: list[str], codes: list[int]) -> None:
    frame = pd.DataFrame({"y": values})
    target = Target.fit(frame, "y")
    assert (target.task, target.classes) == ("classification", classes)
    y = target.encode(frame)
    assert y.dtype == np.int64
    assert y.tolist() == codes
    assert target.decode([1, 0]) == classes[::-1]
    assert Target.from_json(json.loads(json.dumps(target.to_json()))) == target


@pytest.mark.parametrize(
    ("values", "task"),
    [
        ([0.5, 1, 2, 3], "regression"),
        (["0,5", "1,25", "2", "3"], "regression"),
        (list(range(20)) * 2, "classification"),
        (list(range(21)) * 2, "regression"),
    ],
)
def test_the_task_is_inferred(values: list[Any], task: str) -> None:
    assert Target.fit(pd.DataFrame({"y": values}), "y").task == task


def test_regression_and_the_callers_word() -> None:
    frame = pd.DataFrame({"y": [1.5, None, 2.0, 4.0]})
    np.testing.assert_array_equal(Target.fit(frame, "y").encode(frame), [1.5, NAN, 2, 4])
    grades = pd.DataFrame({"y": [1, 2, 1, 2]})
    assert Target.fit(grades, "y", task="regression").encode(grades).dtype == np.float64
    many = pd.DataFrame({"y": list(range(30)) * 2})
    assert len(Target.fit(many, "y", task="classification").classes) == 30


@pytest.mark.parametrize(
    ("values", "task", "words"),
    [
        ([None, None], None, "has no value"),
        (["a", "a", None], None, "one class only, 'a'"),
        ([3.5, 3.5], None, "always 3.5"),
        ([3, 3], "regression", "always 3"),
        (["a", "b", "c"], None, "3 classes in 3 rows"),
        (["a", "b", "a"], "regression", "row 1: 'a' is not a number"),
        ([1.5, np.inf, 2], None, "row 2: inf"),
        (["2020-01-01", "2020-01-02"], None, "is a date"),
        ([1, 2], "clustering", "task='clustering'"),
    ],
)
def test_bad_targets_are_refused(values: list[Any], task: str | None, words: str) -> None:
    with pytest.raises(InputError, match=words):
        Target.fit(pd.DataFrame({"y": values}), "y", task)


def test_absent_targets_and_new_classes_are_named() -> None:
    frame = pd.DataFrame({"Diagnosis": ["a", "b"]})
    with pytest.raises(InputError, match=r"no target column 'diagnosis'\. Did you mean 'Diagnosis'"):
        Target.fit(frame, "diagnosis")
    with pytest.raises(InputError, match="There are: 'Diagnosis'"):
        Target.fit(frame, "xyz")
    target = Target.fit(frame, "Diagnosis")
    with pytest.raises(InputError, match="row 2: 'c' is none of the classes that were learned: 'a', 'b'"):
        target.encode(pd.DataFrame({"Diagnosis": ["a", "c"]}))


def noise(n: int, columns: int, seed: int = 0) -> dict[str, np.ndarray[Any, Any]]:
    rng = np.random.default_rng(seed)
    return {f"noise{i}": rng.normal(size=n) for i in range(columns)}


def leaks(y: np.ndarray[Any, Any], **columns: Any) -> list[str]:
    found = suspects({**noise(len(y), 20), **columns}, y)
    assert found is not None
    return [suspect.column for suspect in found]


def test_columns_that_give_a_class_away_are_found() -> None:
    rng = np.random.default_rng(1)
    y = rng.integers(0, 3, 600)
    flipped = np.where(rng.random(600) < 0.05, rng.integers(0, 3, 600), y)
    half = np.where(rng.random(600) < 0.5, rng.integers(0, 3, 600), y)
    code = np.array([["ill", "well", None][k] for k in y], dtype=object)
    assert leaks(y, flipped=flipped + 0.0) == ["flipped"]
    assert leaks(y, code=code) == ["code"]
    assert leaks(y, half=half + 0.0) == []
    assert leaks(y, band=np.where(y == 1, 0.0, np.where(y == 0, -1.0, 1.0)) ** 2) == []  # tells one class of three
    assert leaks(np.where(y == 2, -1, y), values=y + 0.0) == ["values"]  # unlabelled rows do not matter


def test_missingness_and_rare_classes_give_a_class_away() -> None:
    y = (np.arange(3000) % 100 == 0).astype(int)
    measured = np.where(y == 1, np.random.default_rng(0).normal(size=3000), NAN)
    assert sorted(leaks(y, measured=measured, copy=y + 0.0, inverse=1.0 - y)) == ["copy", "inverse", "measured"]


def test_columns_that_give_a_number_away_are_found() -> None:
    rng = np.random.default_rng(2)
    y = rng.lognormal(0, 2, 800)
    missing = np.where(np.arange(800) % 9 == 0, NAN, 1.0)
    assert leaks(y, copy=1.8 * y + 32) == ["copy"]
    assert leaks(y, log=np.log(y)) == ["log"]
    assert leaks(y, tripled=-(y**3)) == ["tripled"]
    assert leaks(y, noisy=np.log(y) + rng.normal(size=800)) == []
    assert leaks(np.where(np.isnan(missing), NAN, y), copy=y) == ["copy"]


def test_too_few_rows_to_tell() -> None:
    assert suspects(noise(20, 3), np.arange(20) % 2) is None
    assert suspects(noise(10, 3), np.arange(10.0)) is None


def test_report(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    lines = ["id;age;score;site;empty;copy;diagnosis"]
    for i in range(120):
        sick, age = i % 3 == 0, f"{rng.normal(60, 9):.2f}".replace(".", ",")
        label = "NA" if i >= 110 else "ill" if sick else "well"
        lines.append(
            f"p{i};{age};{9 if sick else 2};{'' if i % 4 == 0 else 'north' if i % 2 else 'south'};;{age};{label}"
        )
    path = tmp_path / "patients.csv"
    path.write_text("\n".join(lines))
    frame = read_table(path)
    target = Target.fit(frame, "diagnosis")
    preprocessor = TablePreprocessor(target="diagnosis", id="id").fit(frame)
    report = TableReport.make(frame, preprocessor, target)
    assert (report.rows, report.columns, report.labelled) == (120, 7, 110)
    assert report.classes == {"ill": 37, "well": 73}
    assert report.dropped == {"empty": "it has no value", "copy": "it repeats column 'age'"}
    assert report.missing == {"site": 0.25}
    assert report.leakage is not None
    assert [suspect.column for suspect in report.leakage] == ["score"]
    told = "\n".join(report.sentences())
    for fact in (
        "120 rows, 7 columns",
        "delimiter ';', decimal mark ','",
        "'NA' (10 cells)",
        "Not used, because it has no value: 'empty'.",
        "'site' 25%",
        "110 of 120 rows have a target: ill 37, well 73.",
        "POSSIBLE LEAKAGE: column 'score' alone predicts the target (balanced accuracy 1.000)",
    ):
        assert fact in told
    written = json.loads(json.dumps(report.to_json(), allow_nan=False))
    assert written["leakage"] == [{"column": "score", "measure": "balanced accuracy", "score": 1.0}]
    alone = TableReport.make(frame, preprocessor)
    assert alone.labelled is None
    assert "target" not in "\n".join(alone.sentences())


def test_report_says_when_it_cannot_tell() -> None:
    frame = pd.DataFrame({"x": [1.5, 2, 3, 4], "y": ["a", "b", "a", "b"]})
    preprocessor = TablePreprocessor(target="y").fit(frame)
    report = TableReport.make(frame, preprocessor, Target.fit(frame, "y"))
    assert report.leakage is None
    assert "Too few rows" in report.sentences()[-1]
    assert report.to_json()["leakage"] is None


@pytest.mark.data
@needs_data
@pytest.mark.parametrize("number", range(10))
def test_tadpole_gives_its_diagnosis_away(number: int) -> None:
    """Column 0 alone is 94 % right. The copies of all columns in the file are found as duplicates."""
    fold = tadpole(number)
    frame = pd.DataFrame(np.hstack([fold.x, fold.x])).assign(y=fold.y)
    preprocessor = TablePreprocessor(target="y").fit(frame, rows=fold.train)
    report = TableReport.make(frame, preprocessor, Target.fit(frame, "y"))
    assert report.kinds["duplicate"] >= 30
    assert report.leakage is not None
    flagged = [suspect.column for suspect in report.leakage]
    assert flagged[0] == "0"
    assert len(flagged) <= 2  # one more column nearly copies it; the other 28 are measurements


@pytest.mark.data
@needs_data
def test_nhanes_end_to_end() -> None:
    path = Path(os.environ["LATENTGRAPH_DATA"], "nhanes/NHANES_data_2017-2018.tsv.gz")
    frame = read_table(path)
    target = Target.fit(frame, "GeneralHealthCondition")
    preprocessor = TablePreprocessor(target="GeneralHealthCondition").fit(frame, rows=range(0, 8366, 2))
    x, ids, notes = preprocessor.prepare(frame)
    assert np.isfinite(x).all()
    assert x.shape == (8366, len(preprocessor.feature_names_out()))
    assert len(ids) == 8366
    assert all("not seen in training" in note or "never in training" in note for note in notes)
    report = TableReport.make(frame, preprocessor, target)
    assert report.dropped["SEQN"].startswith("probably an id")
    assert sum(report.classes.values()) == report.labelled == 5964
    again = TablePreprocessor.from_json(json.loads(json.dumps(preprocessor.to_json(), allow_nan=False)))
    assert again.transform(frame).tobytes() == x.tobytes()
