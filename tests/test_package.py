"""What `import latentgraph` and `latentgraph --help` cost, and what they offer."""

import subprocess
import sys

import latentgraph


def modules_after(code: str) -> set[str]:
    script = f"import sys\n{code}\nprint('\\n'.join(sys.modules))"
    return set(
        subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout.split()
    )


def test_help_does_not_wait_for_torch() -> None:
    """`latentgraph --help` must answer at once; torch alone takes seconds to import."""
    loaded = modules_after("from latentgraph.cli import main\ntry:\n    main(['--help'])\nexcept SystemExit:\n    pass")
    assert not loaded & {"torch", "numpy", "sklearn", "scipy", "torch_geometric"}


def test_sampling_does_not_load_pyg() -> None:
    """A user of the sampler or of a layer alone pays for torch and little more."""
    loaded = modules_after("import latentgraph as lg\nlg.gumbel_top_k, lg.DiscreteDGM, lg.graph_loss, lg.DGMNet")
    assert "torch" in loaded
    assert not loaded & {"torch_geometric", "sklearn", "networkx", "numba", "lightning", "pandas"}


def test_one_process_does_not_load_what_several_need() -> None:
    loaded = modules_after("import latentgraph as lg, latentgraph.training, latentgraph.runs.fitting\nlg.DGMClassifier")
    assert "latentgraph.working" in loaded
    assert not [name for name in loaded if name.startswith("latentgraph.distributed")]


def test_public_names_exist() -> None:
    assert set(latentgraph.__all__) <= set(dir(latentgraph))
    for name in latentgraph.__all__:
        assert getattr(latentgraph, name).__name__ == name


def test_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(latentgraph, "no_such_thing")
