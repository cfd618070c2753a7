"""What changes data: formats, steps, kernels, methods, and the command line that drives them."""
