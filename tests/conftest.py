"""What all tests share: one torch thread each, since `pytest -n 2` already keeps the cores busy."""

import torch

torch.set_num_threads(1)
