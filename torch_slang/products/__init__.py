"""Matrix products, epilogues and block sparsity."""
