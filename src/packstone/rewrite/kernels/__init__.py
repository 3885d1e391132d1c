"""One module for each file format that is merged; ``packstone.rewrite.kernels.merge_kernel`` says what each can do."""
