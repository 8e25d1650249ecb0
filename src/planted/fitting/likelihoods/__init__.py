"""Networks fitted to class labels and counts by maximum likelihood."""
