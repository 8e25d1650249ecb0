"""What outlives a run: atomic writes, checkpoints, logs of questions, sums."""
