"""What `torch_slang.testing` and `python -m torch_slang check` draw, run and report."""
