"""The commands, as a user types them."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
import scipy.sparse as sp

from latentgraph.cli import main


def test_demo_leaves_a_run_and_compares(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "out"
    assert main(["demo", "--out", str(out), "--steps", "60"]) == 0
    printed = capsys.readouterr().out
    for method in ("logistic regression", "random forest", "kNN label spreading", "latentgraph"):
        assert method in printed
    demo = json.loads((out / "demo.json").read_text())
    scores = demo["accuracy_on_hidden_labels"]
    assert scores["latentgraph"] > 0.9
    graph = sp.load_npz(out / "graph.npz")
    assert graph.shape == (569, 569)
    nodes, answers = pd.read_csv(out / "nodes.csv"), pd.read_csv(out / "answers.csv")
    hidden = answers["hidden"].to_numpy()
    assert nodes["diagnosis"].isna().tolist() == hidden.tolist()
    assert hidden.sum() == 456
    right = (nodes["prediction"] == answers["diagnosis"])[hidden].mean()
    assert right == pytest.approx(scores["latentgraph"])
    assert not [p.name for p in out.iterdir() if p.name.startswith(".")]
    # Like any other run: it can be used, and the demo may be repeated.
    new = tmp_path / "new.csv"
    answers.drop(columns=["diagnosis", "hidden"])[:3].to_csv(new, index=False)
    assert main(["predict", str(out), str(new), "--out", str(tmp_path / "found.csv")]) == 0
    assert len(pd.read_csv(tmp_path / "found.csv")) == 3
    assert main(["demo", "--out", str(out), "--steps", "2"]) == 0


def test_demo_does_not_replace_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "run.json").write_text('{"finished": true, "threads": 1, "asked": {}}')
    assert main(["demo", "--out", str(tmp_path)]) == 2
    assert "not a demo" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


def test_demo_prints_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "--out", str(tmp_path), "--steps", "2", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["rows"] == 569


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["reproduce", "no-such-table"], ["no-such-table", "tadpole"]),
        (["reproduce", "tadpole", "--full"], ["tadpole", "--full is for shapenet"]),
        (["reproduce", "tadpole", "--data-root", "/no/such/folder"], ["/no/such/folder", "does not exist"]),
        (["demo", "--out", "/proc/nowhere", "--steps", "1"], ["/proc/nowhere"]),
        (["bench", "no-such-bench"], ["no-such-bench", "sampler"]),
    ],
)
def test_bad_input_is_one_message_and_status_2(
    arguments: list[str],
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)  # away from finished results
    assert main(arguments) == 2
    message = capsys.readouterr().err.splitlines()[-1]
    assert message.startswith("latentgraph: ")
    for word in words:
        assert word in message


def test_missing_data_names_the_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("LATENTGRAPH_DATA", raising=False)
    assert main(["reproduce", "tadpole"]) == 2
    assert "LATENTGRAPH_DATA" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["no-such-command"], ["demo", "--steps", "many"], []])
def test_bad_usage_is_status_2(arguments: list[str]) -> None:
    done = subprocess.run([sys.executable, "-m", "latentgraph", *arguments], capture_output=True, text=True)
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_lists(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["reproduce", "--list"]) == 0
    assert "tadpole" in capsys.readouterr().out
    assert main(["bench", "--list"]) == 0
    assert "sampler" in capsys.readouterr().out


@pytest.mark.parametrize("command", ["demo", "fit", "tune", "predict", "explore", "export", "reproduce", "bench"])
def test_help_of_a_command_does_not_wait_for_torch(command: str) -> None:
    """Broken: what a command offers is known only after seconds."""
    script = (
        "import sys\nfrom latentgraph.cli import main\n"
        f"try:\n    main(['{command}', '--help'])\nexcept SystemExit:\n    pass\n"
        "assert not {'torch', 'numpy', 'pandas', 'sklearn', 'matplotlib'} & set(sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert re.match(rf"usage: latentgraph (\[options\] )?{command}\b", done.stdout)


def test_ctrl_c_is_status_130(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def interrupted(*arguments: object, **options: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("latentgraph.bench.run.run", interrupted)
    assert main(["bench", "sampler"]) == 130
    assert "the same command goes on" in capsys.readouterr().err
