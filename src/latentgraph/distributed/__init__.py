"""Training by several processes, on one machine or many: `torchrun --nproc_per_node=2 -m latentgraph fit ...`.

- `group`: the processes of a run, and what is said when one of them is gone
- `collectives`: operations that all take part in, with their gradients
- `partition`: which rows of a population are whose
- `halo`: the rows of others that one's edges need
- `given`, `graph`: one's part of a given graph, and of a sampled one
- `population`: dropout, normalisation and other layers that look at all rows
- `agreement`: what the first process knows, decides or has read, told to all

Nothing of it is imported by a program of one process.
"""
