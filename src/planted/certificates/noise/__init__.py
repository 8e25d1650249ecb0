"""What the residual says about the noise: its law, labels with faults of their own, outputs that share it."""
