"""Age group by imaging: the open stand-in, the format of UK Biobank, and the table end to end."""

import json
import os
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from latentgraph.cli import main
from latentgraph.datasets.brainage import FILES, brainage
from latentgraph.datasets.ukbiobank import Column, age_group, is_there, parse_column, ukbiobank
from latentgraph.errors import InputError
from latentgraph.experiments import age, medical
from latentgraph.experiments.results import Results

needs_data = pytest.mark.skipif(
    not Path(os.environ.get("LATENTGRAPH_DATA", ""), "brainage").is_dir() or "LATENTGRAPH_DATA" not in os.environ,
    reason="LATENTGRAPH_DATA names no folder with brainage/",
)


def _write_stand_in(root: Path, n: int = 120) -> pd.DataFrame:
    """People in the two files of the stand-in; the first three are in both, the fourth is in one of them twice."""
    random = np.random.RandomState(0)
    years = random.uniform(20, 80, n)
    people = pd.DataFrame(
        {
            "participant_id": [f"sub-{i}" for i in range(n)],
            "age": years,
            "sex": random.randint(1, 3, n),
            "site": np.where(years < 36, "hcp", np.where(np.arange(n) % 2 == 0, "cam", "ixi")),
            **{f"{side}_{i}_thickness": 3 - years / 60 + 0.2 * random.rand(n) for side in ("lh", "rh") for i in (0, 1)},
        }
    )
    (root / "brainage").mkdir()
    pd.concat([people[: n // 2], people[3:4]]).to_csv(root / FILES[0], index=False)
    pd.concat([people[n // 2 :], people[:3]]).to_csv(root / FILES[1], index=False)
    return people


def _biobank_table(n: int = 80) -> pd.DataFrame:
    """In the names of the conversion tool, with all that has to be looked past."""
    random = np.random.RandomState(1)
    years = 50 + np.arange(n) % 38
    return pd.DataFrame(
        {
            "eid": 1000000 + np.arange(n),
            "31-0.0": np.arange(n) % 2,
            "54-0.0": 11010,
            "54-2.0": np.where(np.arange(n) % 3 == 0, 11025, 11027),
            "21003-0.0": years - 8,
            "21003-2.0": years.astype(float),
            "25000-2.0": 1 + 0.01 * random.rand(n),
            "25010-2.0": 200 - years + random.rand(n),
            "25010-3.0": 0.0,  # the repeat visit
            "25025-2.0": np.nan,  # nobody has it
            "25750-2.0": [f"{i}_25750_2_0.txt" for i in range(n)],  # a bulk file
            "25781-2.0": random.rand(n),
            "26521-2.0": years * 2.0,
            "27000-2.1": random.rand(n),
            "30000-0.0": random.rand(n),  # blood
        }
    )


def _write_biobank(root: Path, table: pd.DataFrame, name: str = "ukbiobank.csv") -> None:
    (root / "ukbiobank").mkdir(exist_ok=True)
    table.to_csv(root / "ukbiobank" / name, index=False, sep="\t" if name.endswith("tsv") else ",")


def _constant(task: age.Task, root: str | None) -> age.Task:
    return task


IMAGING = ["25000-2.0", "25010-2.0", "25781-2.0", "26521-2.0", "27000-2.1"]


def test_stand_in_has_everybody_once(tmp_path: Path) -> None:
    people = _write_stand_in(tmp_path)
    found = brainage(tmp_path)
    assert sorted(found.participant) == sorted(people["participant_id"])
    assert found.x.shape == (120, 5)
    np.testing.assert_array_equal(found.x[:, 0], found.sex)
    by_id = people.set_index("participant_id").loc[found.participant]
    np.testing.assert_allclose(found.age, by_id["age"])
    assert found.site.tolist() == by_id["site"].tolist()


@pytest.mark.data
@needs_data
def test_stand_in_as_it_is() -> None:
    people = brainage()
    assert people.x.shape == (1714, 71)
    assert len(set(people.participant)) == 1714
    assert set(people.site) == set(age.SITE_NAMES)
    assert set(people.sex) == {1, 2}
    young = people.age[people.site == "hcp"]
    assert 22 <= young.min() <= young.max() <= 36


@pytest.mark.data
@needs_data
def test_folds_of_the_stand_in() -> None:
    people = brainage()
    tested = np.concatenate([age.split(people, fold)[1] for fold in range(age.NUM_FOLDS)])
    assert sorted(tested) == list(range(1714))
    for fold in range(age.NUM_FOLDS):
        train, test = age.split(people, fold)
        assert not set(people.participant[train]) & set(people.participant[test])


def test_a_participant_is_never_split(tmp_path: Path) -> None:
    """Even if somebody were there more than once."""
    _write_stand_in(tmp_path)
    people = brainage(tmp_path)
    people = people._replace(participant=np.array([f"person {i // 3}" for i in range(len(people.age))], dtype=object))
    for fold in range(age.NUM_FOLDS):
        train, test = age.split(people, fold)
        assert not set(people.participant[train]) & set(people.participant[test])
        assert len(train) + len(test) == len(people.age)


@pytest.mark.parametrize(
    ("name", "column"),
    [
        ("31-0.0", Column(31, 0, 0)),
        ("25781-2.13", Column(25781, 2, 13)),
        ("f.21003.2.0", Column(21003, 2, 0)),
        ("p31", Column(31, 0, 0)),
        ("p21003_i2", Column(21003, 2, 0)),
        ("participant.p25781_i2_a3", Column(25781, 2, 3)),
        ("eid", None),
        ("p31x", None),
        ("age", None),
    ],
)
def test_names_of_columns(name: str, column: Column | None) -> None:
    assert parse_column(name) == column


def test_biobank_table(tmp_path: Path) -> None:
    """Numbers of the first imaging visit; nobody without age or imaging; gaps stay gaps."""
    table = _biobank_table()
    table.loc[0, "21003-2.0"] = np.nan
    table.loc[1, [*IMAGING, "25750-2.0"]] = np.nan
    table.loc[2, "25781-2.0"] = np.nan
    table.loc[3, "54-2.0"] = np.nan
    _write_biobank(tmp_path, pd.concat([table, table[5:6]]))
    people = ukbiobank(tmp_path)
    assert people.participant.tolist() == table["eid"].tolist()[2:]
    np.testing.assert_allclose(people.x, table[["31-0.0", *IMAGING]].to_numpy(float)[2:])
    assert np.isnan(people.x).sum() == 1
    assert people.site[1] == "unknown"
    assert set(people.site) == {"11025", "11027", "unknown"}
    assert people.sex.tolist() == table["31-0.0"].tolist()[2:]


def test_biobank_spellings_say_the_same(tmp_path: Path) -> None:
    """The conversion tool for R, and the research analysis platform, with words for the sex, as tsv."""
    table = _biobank_table()
    _write_biobank(tmp_path, table)
    expected = ukbiobank(tmp_path)
    parsed = {name: parse_column(name) for name in table}
    of_r = {name: f"f.{c.field}.{c.instance}.{c.array}" if c else "f.eid" for name, c in parsed.items()}
    of_platform = {
        name: f"p{c.field}" + f"_i{c.instance}" * (c.field != 31) + f"_a{c.array}" * (c.array > 0) if c else name
        for name, c in parsed.items()
    }
    words = {**dict.fromkeys(["31-0.0"], table["31-0.0"].map({0: "Female", 1: "Male"}))}
    for number, (names, changed) in enumerate([(of_r, {}), (of_platform, words)]):
        root = tmp_path / str(number)
        root.mkdir()
        _write_biobank(root, table.assign(**changed).rename(columns=names), "mine.tsv")
        found = ukbiobank(root)
        np.testing.assert_array_equal(found.x, expected.x)
        assert [column.tolist() for column in found[1:]] == [column.tolist() for column in expected[1:]]


def test_biobank_tables_that_cannot_be_read(tmp_path: Path) -> None:
    assert not is_there(tmp_path)
    with pytest.raises(InputError, match="approved researchers"):
        ukbiobank(tmp_path)
    table = _biobank_table()
    _write_biobank(tmp_path, table.drop(columns=["21003-2.0", "eid"]), "some.csv")
    assert is_there(tmp_path)
    with pytest.raises(InputError, match="no column for: eid, age"):
        ukbiobank(tmp_path)
    _write_biobank(tmp_path, table, "other.csv")
    with pytest.raises(InputError, match=r"other\.csv, some\.csv"):
        ukbiobank(tmp_path)
    _write_biobank(tmp_path, table)  # the expected name settles it
    assert len(ukbiobank(tmp_path).age) == 80
    _write_biobank(tmp_path, table.assign(**{"21003-2.0": np.nan}))
    with pytest.raises(InputError, match="nobody"):
        ukbiobank(tmp_path)


def test_groups_of_the_paper() -> None:
    years = np.array([45, 50, 59, 60, 79, 80, 89, 90])
    assert age_group(years).tolist() == [-1, 0, 0, 1, 2, 3, 3, -1]


def test_columns_are_prepared_by_the_training_rows() -> None:
    """Test rows change nothing but themselves; a column that no training row has is left out."""
    random = np.random.RandomState(0)
    x = random.rand(20, 4)
    x[:15, 1] = np.nan
    x[3, 2] = x[17, 2] = np.nan
    x[:, 3] = 5
    train = np.arange(15)
    found = age.prepared(x, train)
    assert found.shape == (20, 3)
    assert np.isfinite(found).all()
    np.testing.assert_allclose(found[train].mean(0), 0, atol=1e-12)
    np.testing.assert_allclose(found[train].std(0), [1, 1, 0], atol=1e-12)
    assert found[3, 1] == found[17, 1]  # the median
    other = x.copy()
    other[15:] = 100
    np.testing.assert_array_equal(age.prepared(other, train)[train][:, :2], found[train][:, :2])


@pytest.mark.parametrize("setting", medical.SETTINGS)
def test_no_test_group_is_ever_seen(setting: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _write_stand_in(tmp_path)
    task = age.DATA[age.STAND_IN](str(tmp_path))
    nonsense = task.group.copy()
    test = age.split(task.people, 0)[1]
    nonsense[test] = (nonsense[test] + 1) % 3
    given: list[Any] = []
    ask = medical.answers

    def listen(*arguments: Any) -> Any:
        given.append(ask(*arguments))
        return given[-1]

    monkeypatch.setattr(medical, "answers", listen)
    cell = {"data": age.STAND_IN, "setting": setting, "site": age.WITH, "method": "kNN-GCN", "fold": 0, "seed": 0}
    for given_task in (task, task._replace(group=nonsense)):
        monkeypatch.setitem(age.DATA, age.STAND_IN, partial(_constant, given_task))
        age.compute(cell, True, None)
    np.testing.assert_array_equal(given[0], given[1])


def test_site_is_a_feature_only_with_site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And a meta column only then; the sex is both, always. The site alone sees nothing else."""
    _write_stand_in(tmp_path)
    seen: dict[Any, Any] = {}

    def watch(method: Any, population: Any, setting: str) -> Any:
        seen[cell["site"], cell["method"]] = population
        return population.y.numpy()

    monkeypatch.setattr(medical, "answers", watch)
    for site, method in ((age.WITHOUT, "dDGM"), (age.WITH, "dDGM"), (age.WITH, age.SITE_ONLY)):
        cell = {"data": age.STAND_IN, "setting": "inductive", "site": site, "method": method, "fold": 1, "seed": 0}
        age.compute(cell, True, str(tmp_path))
    assert {key: (value.x.shape[1], sorted(value.meta)) for key, value in seen.items()} == {
        (age.WITHOUT, "dDGM"): (5, ["sex"]),
        (age.WITH, "dDGM"): (8, ["sex", "site"]),
        (age.WITH, age.SITE_ONLY): (3, ["sex", "site"]),
    }


def test_runs_end_to_end_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The stand-in alone, and UK Biobank beside it once its table is there; with the accuracy of every site."""
    data, out = tmp_path / "data", tmp_path / "out"
    data.mkdir()
    _write_stand_in(data)
    monkeypatch.setenv("LATENTGRAPH_DATA", str(data))
    command = ["reproduce", "age", "--quick", "--out", str(out), "--only", "inductive"]
    path = out / "age-quick.jsonl"
    assert main([*command, "with site"]) == 0
    first = path.read_text()
    rows = [json.loads(line) for line in first.splitlines()]
    assert {row["method"] for row in rows} == set(age.METHODS)
    assert {row["data"] for row in rows} == {age.STAND_IN}
    for row in rows:
        assert set(row["sites"]) == {"cam", "hcp", "ixi"}
        assert {"accuracy", "steps", "seconds", "protocol"} <= row.keys()
    _write_biobank(data, _biobank_table())
    assert main([*command, "without site"]) == 0
    assert path.read_text().startswith(first)
    rows = [json.loads(line) for line in path.read_text().splitlines()[len(rows) :]]
    methods = {name: {row["method"] for row in rows if row["data"] == name} for name in age.DATA}
    assert methods[age.STAND_IN] == set(age.METHODS) - {age.SITE_ONLY}
    assert methods[age.BIOBANK] == methods[age.STAND_IN] - set(age.BY_HAND)
    printed = capsys.readouterr().out
    assert "63.2 ± 1.1" in printed  # the paper's dDGM
    assert "Cam-CAN, with site" in printed
    assert "11025" in printed


def test_rows_of_the_tables(tmp_path: Path) -> None:
    results = Results(tmp_path / "age.jsonl", age.KEY)
    for fold, value in enumerate((0.5, 0.7)):
        cell = {"data": age.STAND_IN, "setting": "transductive", "site": age.WITHOUT, "fold": fold, "seed": 0}
        results.add({**cell, "method": "dDGM", "accuracy": value, "sites": {"hcp": value, "cam": 1.0}})
        results.add({**cell, "method": age.MAJORITY, "accuracy": 0.3, "sites": {"hcp": 0.3}})
    methods, sites = age.tables(results)
    assert methods.rows[0] == ["dDGM", "63.2 ± 1.1", "57.3 ± 5.3", "60.0 ± 10.0", "-", "-", "-"]
    assert [row[0] for row in methods.rows] == ["dDGM", age.MAJORITY]
    assert sites.header[:3] == ["method", "Cam-CAN, without site", "HCP, without site"]
    assert sites.rows == [
        ["dDGM", "100.0 ± 0.0", "60.0 ± 10.0", "-", "-"],
        [age.MAJORITY, "-", "30.0 ± 0.0", "-", "-"],
    ]


def test_unknown_words_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "age", "--out", str(tmp_path), "--only", "no such word"]) == 2
    assert "'no such word'" in capsys.readouterr().err
    assert not list(tmp_path.iterdir())
