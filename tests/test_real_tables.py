"""Real tables, straight from their files: one command to a trained model, and the same predictions ever after."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from latentgraph import DGMClassifier
from latentgraph.cli import main
from latentgraph.datasets.tadpole import tadpole
from latentgraph.tables import TablePreprocessor, Target, read_table, reading_of

ROOT = Path(os.environ.get("LATENTGRAPH_DATA", "no folder is named"))

pytestmark = [
    pytest.mark.data,
    pytest.mark.skipif(not (ROOT / "nhanes").is_dir(), reason="LATENTGRAPH_DATA names no folder with nhanes/"),
]


def test_nhanes_with_one_command(tmp_path: Path) -> None:
    """8,366 people, 198 columns of all kinds, half of the cells missing, packed with gzip."""
    table, out = ROOT / "nhanes/NHANES_data_2017-2018.tsv.gz", tmp_path / "run"
    command = ["fit", str(table), "--target", "GeneralHealthCondition", "--id", "SEQN", "--out", str(out)]
    assert main([*command, "--test_fraction", "0", "--steps", "2", "--samples", "1"]) == 0
    summary = json.loads((out / "summary.json").read_text())
    assert (summary["rows"], summary["labelled"]) == (8366, 5964)
    assert summary["classes"] == ["Excellent", "Fair or", "Good", "Poor?", "Very good"]
    assert "Column 'ServedActiveDutyInUsArmedForces' has numbers, but also \"Don't Know\"" in " ".join(
        summary["report"]
    )
    nodes = pd.read_csv(out / "nodes.csv")
    assert nodes["row"].iloc[0] == 93703
    np.testing.assert_allclose(nodes.filter(like="p(").sum(axis=1), 1, atol=1e-5)


FRESH = """
import json, sys
import numpy as np, torch
from latentgraph import DGMClassifier
from latentgraph.cli import main
from latentgraph.tables import TablePreprocessor
torch.set_num_threads(1)
folder = sys.argv[1]
with open(f"{folder}/preprocessing.json") as file:
    x = TablePreprocessor.from_json(json.load(file)).transform(f"{folder}/tadpole.csv")
np.save(f"{folder}/fresh.npy", DGMClassifier.load(f"{folder}/model").predict_proba(x))
sys.exit(main(["predict", f"{folder}/run", f"{folder}/tadpole.csv", "--out", f"{folder}/fresh.csv"]))
"""


def test_tadpole_predicts_the_same_in_a_fresh_process(tmp_path: Path) -> None:
    fold = tadpole(0, ROOT)
    table = pd.DataFrame(fold.x, columns=[f"measure {i}" for i in range(30)])
    table["diagnosis"] = np.array(["healthy", "impaired", "ill"])[fold.y]
    table.to_csv(tmp_path / "tadpole.csv", index=False)

    frame = read_table(tmp_path / "tadpole.csv")
    np.testing.assert_array_equal(frame.iloc[:, :30], fold.x)  # csv keeps every bit
    target = Target.fit(frame, "diagnosis")
    preprocessor = TablePreprocessor(target="diagnosis").fit(frame, rows=fold.train)
    x = preprocessor.transform(frame)
    model = DGMClassifier(steps=40, samples=4, random_state=0).fit(x[fold.train], target.encode(frame)[fold.train])
    assert model.score(x[fold.test], target.encode(frame)[fold.test]) > 0.7
    model.save(tmp_path / "model")
    (tmp_path / "preprocessing.json").write_text(json.dumps(preprocessor.to_json()))

    command = ["fit", str(tmp_path / "tadpole.csv"), "--target", "diagnosis", "--out", str(tmp_path / "run")]
    assert main([*command, "--test_fraction", "0", "--steps", "5", "--samples", "2"]) == 0
    here = ["predict", str(tmp_path / "run"), str(tmp_path / "tadpole.csv"), "--out", str(tmp_path / "here.csv")]
    assert main(here) == 0

    subprocess.run([sys.executable, "-c", FRESH, str(tmp_path)], check=True, capture_output=True)
    np.testing.assert_array_equal(np.load(tmp_path / "fresh.npy"), model.predict_proba(x))
    assert (tmp_path / "fresh.csv").read_bytes() == (tmp_path / "here.csv").read_bytes()


@pytest.mark.parametrize(
    ("name", "shape", "delimiter", "encoding"),
    [
        ("FS_features_ABIDE_males.csv", (915, 424), ";", "utf-8-sig"),
        ("cpc_camcan_demographics.csv", (707, 5), ",", "utf-8"),
        ("cpc_camcan_features.csv", (651, 27), ",", "utf-8"),
        ("cpc_hcp_ixi_test.csv", (582, 74), ",", "utf-8"),
        ("cpc_hcp_ixi_train.csv", (1163, 74), ",", "utf-8"),
    ],
)
def test_brains_are_read_straight(name: str, shape: tuple[int, int], delimiter: str, encoding: str) -> None:
    frame = read_table(ROOT / "brainage" / name)
    reading = reading_of(frame)
    assert reading is not None
    assert (frame.shape, reading.delimiter, reading.encoding) == (shape, delimiter, encoding)
    assert not frame.isna().all().any()


def test_age_from_brains_with_repeated_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """15 rows of the table are there twice; the report says so, and the rows keep their names."""
    folder, out = ROOT / "brainage", tmp_path / "run"
    command = ["fit", str(folder / "cpc_hcp_ixi_train.csv"), "--target", "age", "--id", "participant_id"]
    assert main([*command, "--out", str(out), "--test_fraction", "0", "--steps", "5", "--samples", "1"]) == 0
    assert "'participant_id' is the id and has repeated values" in capsys.readouterr().out
    found = tmp_path / "found.csv"
    assert main(["predict", str(out), str(folder / "cpc_hcp_ixi_test.csv"), "--out", str(found)]) == 0
    predicted, people = pd.read_csv(found), pd.read_csv(folder / "cpc_hcp_ixi_test.csv")
    assert predicted["row"].tolist() == people["participant_id"].tolist()
    assert np.corrcoef(predicted["prediction"], people["age"])[0, 1] > 0.3
