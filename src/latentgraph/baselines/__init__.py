"""What a learned graph is compared with: one method a file, all with the interface of `baselines.method`."""
