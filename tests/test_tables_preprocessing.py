"""Kinds of columns, features, what is saved, and what happens when a new table differs from the training table."""

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import ColumnTransformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, QuantileTransformer, RobustScaler, StandardScaler

from latentgraph.errors import InputError
from latentgraph.tables import Schema, TablePreprocessor, as_frame
from latentgraph.tables.rules import named_like_id

NAN = float("nan")


def patients(n: int = 200, seed: int = 0) -> pd.DataFrame:
    """One column of every kind that becomes a feature, each with missing values."""
    rng = np.random.default_rng(seed)
    frame = pd.DataFrame(
        {
            "patient_id": [f"P{i:04d}" for i in range(n)],
            "age": rng.integers(20, 90, n).astype(float),
            "crp": rng.lognormal(0, 2, n),
            "sex": rng.choice(["F", "M"], n),
            "stage": rng.choice(["I", "II", "III"], n),
            "smoker": rng.choice(["yes", "no"], n),
            "visit": pd.Timestamp("2019-03-01") + pd.to_timedelta(rng.integers(0, 1500, n), unit="D"),
            "diagnosis": rng.choice(["well", "ill"], n),
        }
    )
    frame.loc[frame.index == 11, "stage"] = "IV"
    for i, name in enumerate(["crp", "stage", "smoker", "visit"]):
        frame.loc[frame.index % 7 == i, name] = None
    return frame


def fitted(frame: pd.DataFrame | None = None, **options: Any) -> TablePreprocessor:
    options = {"target": "diagnosis", "id": "patient_id", **options}
    return TablePreprocessor(**options).fit(patients() if frame is None else frame)


def kinds(columns: dict[str, Any], **options: Any) -> dict[str, str]:
    frame = pd.DataFrame({"anchor": np.linspace(0, 1, len(next(iter(columns.values())))) ** 2, **columns})
    schema = TablePreprocessor(**options).fit(frame).schema
    return {column.name: column.kind for column in schema.columns if column.name != "anchor"}


LETTERS = [f"{a}{b}" for a in "abcdefghij" for b in "klmnopqrst"]

KINDS: dict[str, tuple[list[Any], str]] = {
    "integers": ([3, 1, 2, 2], "number"),
    "floats": ([0.5, 1.5, NAN, 2.5], "number"),
    "numeric text": (["3", "1.5", "NA", "2"], "number"),
    "decimal commas as text": (["3,5", "1,25", "", "2"], "number"),
    "zero and one": ([0, 1, 1, 0], "number"),
    "true and false": ([True, False, None, True], "boolean"),
    "TRUE and FALSE": (["TRUE", "FALSE", "TRUE", "NA"], "boolean"),
    "yes and no": (["Yes", "no", "NO", "y"], "boolean"),
    "t and f": (["t", "f", "t", "f"], "boolean"),
    "only yes": (["yes", None, "yes", None], "category"),
    "female only": (["f", None, "f", "f"], "category"),
    "two words": (["F", "M", "M", "F"], "category"),
    "one number or nothing": ([1.0, NAN, 1.0, NAN], "category"),
    "one date or nothing": (["2020-01-01", None, "2020-01-01", None], "category"),
    "ISO dates": (["2020-01-31", "2021-02-01", "NA", "2020-03-03"], "date"),
    "ISO times": (["2020-01-31 10:00", "2021-02-01T11:30:15Z", "2020-03-03", "2020-03-04"], "date"),
    "German dates": (["31.01.2020", "1.2.2021", "03.03.2020", "04.03.2020"], "date"),
    "SAS dates": (["31JAN2020", "01FEB2021", "03MAR2020", "04MAR2020"], "date"),
    "dates with month names": (["31-Jan-2020", "01-Feb-2021", "03-Mar-2020", "04-Mar-2020"], "date"),
    "slashes, day first": (["31/01/2020", "01/02/2021", "03/03/2020", "04/03/2020"], "date"),
    "slashes, month first": (["01/31/2020", "02/01/2021", "03/03/2020", "03/04/2020"], "date"),
    "slashes, either": (["01/02/2020", "02/01/2020", "01/02/2020", "03/04/2020"], "category"),
    "impossible dates": (["2020-13-45", "2020-01-01", "2020-01-01", "2020-01-02"], "category"),
    "codes": (["007", "007", "012", "012"], "category"),
    "stray word": (["1", "2", "<5", "2"], "category"),
    "constant": ([7, 7, 7, 7], "constant"),
    "constant text": (["x", "x", "x", "x"], "constant"),
    "empty": ([None, NAN, None, None], "empty"),
    "empty text": (["", "NA", "?", "."], "empty"),
    "patient_id": ([17, 4, 23, 5], "id"),
    "RID": ([17, 4, 23, 5], "id"),
    "PatientID": ([17, 4, 23, 5], "id"),
    "subject": (["a", "b", "c", "d"], "id"),
    "visit_id": ([1, 1, 2, 2], "number"),
    "pandas category of numbers": (pd.Categorical([1, 2, 1, 2]), "category"),
}


@pytest.mark.parametrize("name", KINDS)
def test_kinds(name: str) -> None:
    values, kind = KINDS[name]
    assert kinds({name: values}) == {name: kind}


def test_kinds_that_need_many_rows() -> None:
    rng = np.random.default_rng(0)
    columns = {
        "row counter": np.arange(1000, 1100),
        "shuffled": rng.permutation(100),
        "growing": np.cumsum(rng.integers(1, 9, 100)),
        "unique text": LETTERS,
        "many levels": [LETTERS[i % 60] for i in range(100)],
        "few levels": [LETTERS[i % 50] for i in range(100)],
    }
    expected = ["id", "number", "number", "id", "text", "category"]
    assert kinds(columns) == dict(zip(columns, expected, strict=True))
    assert kinds(columns, rare=0.03)["few levels"] == "text"  # all of them are rare
    schema = TablePreprocessor().fit(pd.DataFrame(columns)).schema
    assert [note for note in schema.notes() if "'growing' grows from row to row" in note]


def test_a_counter_of_all_rows_is_found_in_some_rows() -> None:
    frame = pd.DataFrame({"n": np.arange(100), "x": np.random.default_rng(0).normal(size=100)})
    schema = TablePreprocessor().fit(frame, rows=range(0, 100, 7)).schema
    assert schema.columns[0].kind == "id"


def test_duplicates_are_named() -> None:
    frame = pd.DataFrame({"a": [1.0, 2, NAN], "b": [1.0, 2, NAN], "c": ["x", "y", None], "d": ["x", "y", None]})
    frame["e"] = [1.0, 2, 3]
    schema = TablePreprocessor().fit(frame).schema
    assert [(column.kind, column.same_as) for column in schema.columns] == [
        ("number", None),
        ("duplicate", "a"),
        ("category", None),
        ("duplicate", "c"),
        ("number", None),
    ]
    assert [column.name for column in schema.with_role("dropped")] == ["b", "d"]


@pytest.mark.parametrize(
    "name", ["id", "ID", "patient_id", "patientId", "PatientNr", "rid", "SEQN", "subject", "caseno"]
)
def test_names_of_ids(name: str) -> None:
    assert named_like_id(name)


@pytest.mark.parametrize(
    "name", ["age", "acid", "lipid", "fluid", "width", "patient age", "valid", "number of falls", "年"]
)
def test_names_of_measurements(name: str) -> None:
    assert not named_like_id(name)


def test_features_are_named_and_explained() -> None:
    preprocessor = fitted(rare=0.02)
    names = preprocessor.feature_names_out()
    assert names == [
        *("age", "crp", "crp (missing)", "sex=F", "sex=M"),
        *("stage=I", "stage=II", "stage=III", "stage (other)", "stage (missing)", "smoker", "smoker (missing)"),
        *("visit (days)", "visit (sine of season)", "visit (cosine of season)", "visit (missing)"),
    ]
    assert {feature.column for feature in preprocessor.features()} == {"age", "crp", "sex", "stage", "smoker", "visit"}
    assert preprocessor.explain("stage (other)") == "'stage (other)' comes from column 'stage': 1 if it is rare: IV."
    assert "days since 2019-03-" in preprocessor.explain("visit (days)")
    with pytest.raises(InputError, match="Did you mean 'smoker'"):
        preprocessor.explain("smokr")
    x = preprocessor.transform(patients())
    assert x.dtype == np.float64
    assert x.shape == (200, len(names))
    assert np.isfinite(x).all()


def test_names_of_features_do_not_clash() -> None:
    frame = pd.DataFrame({"a": [1, NAN, 3], "a (missing)": [5, 1, 5.5], "b=x": [1, 3, 2], "b": ["x", "y", "x"]})
    names = TablePreprocessor().fit(frame).feature_names_out()
    assert len(names) == len(set(names)) == 6
    assert "b=x #2" in names


def test_values_of_features() -> None:
    frame = pd.DataFrame(
        {
            "x": [0.0, 2.0, 4.0, NAN],
            "b": ["yes", "no", "yes", None],
            "c": ["u", "v", None, "u"],
            "d": ["2020-01-01", "2020-01-11", None, "2020-01-21"],
        }
    )
    preprocessor = TablePreprocessor(scale="none").fit(frame)
    expected = {
        "x": [0, 2, 4, 2],
        "x (missing)": [0, 0, 0, 1],
        "b": [1, 0, 1, 2 / 3],
        "b (missing)": [0, 0, 0, 1],
        "c=u": [1, 0, 0, 1],
        "c=v": [0, 1, 0, 0],
        "c (missing)": [0, 0, 1, 0],
        "d (days)": [0, 10, 10, 20],
        "d (missing)": [0, 0, 1, 0],
    }
    assert preprocessor.feature_names_out() == list(expected)
    np.testing.assert_array_equal(preprocessor.transform(frame), np.array(list(expected.values())).T)


def test_the_season_returns_every_year() -> None:
    frame = pd.DataFrame({"d": ["2018-03-20", "2019-03-20", "2020-09-19", "2020-12-20", None]})
    x = pd.DataFrame(TablePreprocessor().fit(frame).transform(frame), columns=["days", "sine", "cosine", "missing"])
    season = x[["sine", "cosine"]].to_numpy()
    np.testing.assert_allclose(season[0], season[1], atol=0.01)
    np.testing.assert_allclose(season[0], -season[2], atol=0.02)
    np.testing.assert_allclose((season[:4] ** 2).sum(1), 1)
    assert season[4].tolist() == [0, 0]


SCALERS = {
    "standard": StandardScaler(),
    "robust": RobustScaler(),
    "quantile": QuantileTransformer(n_quantiles=200, subsample=None),
    "none": None,
}


@pytest.mark.parametrize("scale", SCALERS)
def test_equal_to_scikit_learn(scale: str) -> None:
    """The features of numbers and categories are those of a ColumnTransformer, also on rows it was not fitted on."""
    frame, new = patients(), patients(50, seed=1)
    frame["zeros"] = np.maximum(frame["crp"].fillna(0) - 1, 0)
    new["zeros"] = np.maximum(new["crp"].fillna(0) - 1, 0)
    numbers, categories = ["age", "crp", "zeros"], ["sex", "stage"]
    scaler = [SCALERS[scale]] if SCALERS[scale] is not None else []
    reference = ColumnTransformer(
        [
            ("number", make_pipeline(SimpleImputer(strategy="median"), *scaler), numbers),
            ("category", OneHotEncoder(min_frequency=0.01, handle_unknown="ignore", sparse_output=False), categories),
        ]
    ).fit(frame)
    preprocessor = fitted(frame, drop=["smoker", "visit"], scale=scale)
    names = preprocessor.feature_names_out()
    order = [*numbers, "sex=F", "sex=M", "stage=I", "stage=II", "stage=III", "stage (missing)", "stage (other)"]
    for table in (frame, new):
        ours = preprocessor.transform(table)[:, [names.index(name) for name in order]]
        theirs = np.asarray(reference.transform(table))
        if scale == "quantile":
            theirs[:, :3] = np.sqrt(12) * (theirs[:, :3] - 0.5)
        np.testing.assert_allclose(ours, theirs, rtol=1e-12, atol=1e-12)  # sums in another order


@pytest.mark.parametrize("scale", SCALERS)
def test_json_gives_the_same_bits(scale: str) -> None:
    frame, new = patients(), patients(60, seed=1)
    frame.loc[0, "crp"] = 5e-324  # the smallest float there is
    preprocessor = fitted(frame, scale=scale, kinds={"age": "number"}, drop=["smoker"])
    text = json.dumps(preprocessor.to_json(), allow_nan=False)
    again = TablePreprocessor.from_json(json.loads(text))
    for table in (frame, new):
        first, second = preprocessor.prepare(table), again.prepare(table)
        assert first.x.tobytes() == second.x.tobytes()
        assert first.ids == second.ids
        assert first.notes == second.notes
    assert again.features() == preprocessor.features()
    assert json.dumps(again.to_json()) == text
    assert Schema.from_json(json.loads(text)["schema"]) == preprocessor.schema


@pytest.mark.parametrize("damage", [{"format": "x"}, {"version": 2}, {"schema": {}}, {"options": {"scal": 1}}])
def test_damaged_json_is_refused(damage: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"no saved preprocessing|damaged"):
        TablePreprocessor.from_json(fitted().to_json() | damage)
    with pytest.raises(InputError, match="damaged"):
        TablePreprocessor.from_json({k: v for k, v in fitted().to_json().items() if k != "encoders"})


@pytest.mark.parametrize("scale", SCALERS)
def test_only_training_rows_count(scale: str) -> None:
    frame = patients()
    train = np.arange(200) % 3 > 0
    first = TablePreprocessor(target="diagnosis", id="patient_id", scale=scale).fit(frame, rows=train)
    changed = frame.copy()
    changed.loc[~train, "age"] = 1e6
    changed.loc[~train, ["crp", "visit"]] = None
    changed.loc[~train, ["sex", "stage"]] = "new"
    second = TablePreprocessor(target="diagnosis", id="patient_id", scale=scale).fit(
        changed, rows=np.flatnonzero(train)
    )
    assert first.to_json() == second.to_json()
    np.testing.assert_array_equal(first.transform(frame)[train], second.transform(changed)[train])
    np.testing.assert_array_equal(first.transform(frame)[train], first.transform(frame[train]))


@pytest.mark.parametrize("rows", [[0], [], [0, 500], [-1, 3], [0.5, 1.5], [[0, 1]], [True, False]])
def test_bad_rows_are_refused(rows: Any) -> None:
    with pytest.raises(InputError, match=r"training rows|row numbers|mask"):
        TablePreprocessor().fit(patients(), rows=rows)


def test_what_may_differ_at_prediction() -> None:
    frame, preprocessor = patients(), fitted()
    x, ids, notes = preprocessor.prepare(frame)
    assert ids[:2] == ["P0000", "P0001"]
    assert notes == []
    reordered = preprocessor.prepare(frame[frame.columns[::-1]])
    np.testing.assert_array_equal(reordered.x, x)
    assert reordered.notes == []
    without = preprocessor.prepare(frame.drop(columns=["diagnosis", "patient_id"]).assign(extra=1))
    np.testing.assert_array_equal(without.x, x)
    assert without.ids[:2] == ["1", "2"]
    assert len(without.notes) == 2
    assert "'extra'" in without.notes[0]
    assert "'patient_id' is missing; rows are numbered" in without.notes[1]
    text = frame.astype({"age": str})  # the same numbers as text
    np.testing.assert_array_equal(preprocessor.transform(text), x)
    one = preprocessor.prepare(frame.iloc[[3]])
    np.testing.assert_array_equal(one.x, x[[3]])


def test_unseen_categories_are_zeros_and_noted() -> None:
    preprocessor = fitted()
    new = patients(5, seed=3)
    new["sex"] = ["F", "X", "Y", "X", None]
    x, _, notes = preprocessor.prepare(new)
    place = [preprocessor.feature_names_out().index(name) for name in ("sex=F", "sex=M")]
    assert x[:, place].tolist() == [[1, 0], [0, 0], [0, 0], [0, 0], [0, 0]]
    assert [note for note in notes if "'sex'" in note and "'X', 'Y' (3 rows)" in note]
    assert [note for note in notes if "'sex': missing in 1 rows, never in training" in note]


def test_a_number_that_was_never_missing_is_filled_and_noted() -> None:
    frame, preprocessor = patients(), fitted(scale="none")
    median = frame["age"].median()
    frame.loc[2, "age"] = None
    x, _, notes = preprocessor.prepare(frame)
    assert x[2, 0] == median
    assert notes == ["Column 'age': missing in 1 rows, never in training; filled with the usual value."]


def test_numbers_as_categories_are_the_same_from_every_type() -> None:
    frame = pd.DataFrame({"code": ["1", "2", "A", "1"], "x": [1.0, 2, 4, 3]})
    preprocessor = TablePreprocessor().fit(frame)
    for codes in ([1, 2, 2, 1], [1.0, 2.0, 2.0, 1.0], ["1.0", "2", "2", "1"], pd.Categorical([1, 2, 2, 1])):
        prepared = preprocessor.prepare(pd.DataFrame({"code": codes, "x": [0.0, 0, 0, 1]}))
        assert prepared.x[:, :2].tolist() == [[1, 0], [0, 1], [0, 1], [1, 0]]
        assert prepared.notes == []


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda f: f.drop(columns=["age", "sex"]), "missing: 'age', 'sex'"),
        (lambda f: f.rename(columns={"smoker": "Smokers"}), "'smoker': Did you mean 'Smokers'"),
        (lambda f: f.iloc[:0], "no rows"),
        (lambda f: f.astype({"age": object}).assign(age=["60", "sixty", "old"]), r"'age', row 2: 'sixty'.*\(2 such"),
        (lambda f: f.assign(age=[1.0, np.inf, 2.0]), "'age', row 2: inf is not a finite number"),
        (lambda f: f.assign(age=[1.0, 2.0, 1e300]), "'age', row 3"),
        (lambda f: f.assign(age=pd.Timestamp("2020-01-01")), "'age', row 1: 2020-01-01 00:00:00 is not a number"),
        (lambda f: f.assign(smoker=["yes", "no", "maybe"]), "'smoker', row 3: 'maybe' is not true or false"),
        (lambda f: f.assign(smoker=[0, 1, 2]), "'smoker', row 3: 2 is not true or false"),
        (lambda f: f.assign(visit=["2020-01-01", "soon", None]), "'visit', row 2: 'soon' is not a date"),
        (lambda f: f.assign(visit=[5, 6, 7]), "'visit', row 1: 5 is not a date"),
    ],
)
def test_what_must_not_differ_at_prediction(change: Any, words: str) -> None:
    preprocessor = fitted()
    with pytest.raises(InputError, match=words):
        preprocessor.transform(change(patients(3)))


def test_types_that_mean_the_same_at_prediction() -> None:
    frame, preprocessor = patients(), fitted()
    x = preprocessor.transform(frame)
    other = as_frame(frame)
    other["smoker"] = frame["smoker"].map({"yes": True, "no": False}).astype("boolean")
    other["visit"] = frame["visit"].dt.strftime("%Y-%m-%d")
    np.testing.assert_array_equal(preprocessor.transform(other), x)
    other["smoker"] = frame["smoker"].map({"yes": 1, "no": 0})
    np.testing.assert_array_equal(preprocessor.transform(other), x)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"scale": "minmax"}, "scale='minmax'"),
        ({"rare": 1.5}, "rare=1.5"),
        ({"target": "diagnosed"}, "no column 'diagnosed'. Did you mean 'diagnosis'"),
        ({"id": "patient"}, "no column 'patient'. Did you mean 'patient_id'"),
        ({"drop": ["ag"]}, "no column 'ag'. Did you mean 'age'"),
        ({"kinds": {"ages": "number"}}, "no column 'ages'"),
        ({"kinds": {"age": "real"}}, "age: real"),
        ({"kinds": {"stage": "number"}}, "'stage', row 1: 'I.*' is not a number"),
        ({"kinds": {"sex": "date"}}, "'sex' is to be a date"),
        ({"target": "age", "id": "age"}, "'age' has two roles"),
        ({"target": "age", "drop": ["age"]}, "'age' has two roles"),
    ],
)
def test_bad_options_are_refused(options: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TablePreprocessor(**options).fit(patients())


def test_the_callers_word_on_kinds() -> None:
    frame = pd.DataFrame({"grade": [1, 2, 3, 1], "patient_id": [4, 2, 3, 1], "flag": [0, 1, 1, 0]})
    preprocessor = TablePreprocessor(kinds={"grade": "category", "patient_id": "number", "flag": "boolean"}).fit(frame)
    expected = ["grade=1", "grade=2", "grade=3", "patient_id", "flag"]
    assert preprocessor.feature_names_out() == expected


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"a": [1, 1, 1]}, r"no column is left.*'a' \(all its values are '1'\)"),
        ({"a": [None, None]}, r"'a' \(it has no value\)"),
        ({"a": [1]}, "1 training rows"),
        ({"a": []}, "0 training rows"),
        ({"a": [1.0, np.inf, 2]}, "'a', row 2: inf"),
    ],
)
def test_tables_to_learn_nothing_from(columns: dict[str, Any], words: str) -> None:
    with pytest.raises(InputError, match=words):
        TablePreprocessor().fit(pd.DataFrame(columns))


def test_not_fitted() -> None:
    with pytest.raises(InputError, match="not fitted"):
        TablePreprocessor().transform(patients())


def test_mostly_numeric_text_and_unclear_dates_are_noted() -> None:
    frame = pd.DataFrame({"crp": ["1", "2", "<0.5", "4"], "day": ["01/02/2020", "02/03/2020"] * 2, "x": [1.5, 2, 3, 4]})
    notes = TablePreprocessor().fit(frame).schema.notes()
    assert notes[0] == "Column 'crp' has numbers, but also '<0.5' (1 such values); it is read as text."
    assert "'day' has dates such as 01/02/2020 whose day and month cannot be told apart" in notes[1]


def test_repeated_ids_are_noted() -> None:
    frame = patients()
    frame["patient_id"] = frame["patient_id"].iloc[:100].tolist() * 2
    assert "'patient_id' is the id and has repeated values" in fitted(frame).schema.notes()[0]
