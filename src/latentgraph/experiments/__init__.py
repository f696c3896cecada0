"""The paper's experiments, one file for each of its sections."""
