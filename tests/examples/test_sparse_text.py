"""examples/sparse_text learns, with its patterns as they are and changing."""

from pathlib import Path

import pytest
import torch
from example_programs import load_program
from long_tests import long_test


@long_test  # a training run
def test_all_three_learn(tmp_path: Path, device: torch.device) -> None:
    example = load_program("sparse_text/train.py", "matplotlib")

    curves = example.main(f"--steps 40 --width 32 --layers 1 --device {device} --output {tmp_path}".split())
    assert list(curves) == ["dense", "sparse", "scheduled"]
    for curve in curves.values():
        assert curve.losses[-1] < curve.losses[0] - 0.5
    assert curves["sparse"].losses[0] == pytest.approx(curves["scheduled"].losses[0], rel=1e-3)
    assert curves["sparse"].losses[-1] != curves["scheduled"].losses[-1]
    assert curves["sparse"].weights < curves["dense"].weights
    assert (tmp_path / "loss.png").exists()
