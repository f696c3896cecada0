"""What all tests share: one torch thread each, since `pytest -n 2` already keeps the cores busy."""

import pytest
import torch

torch.set_num_threads(1)


@pytest.fixture(params=["torch", "tree"])
def backend(request: pytest.FixtureRequest) -> str:
    """The sampler under test. A new backend adds one word, and has to pass what the others pass."""
    name: str = request.param
    return name
