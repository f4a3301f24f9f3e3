"""A Slang kernel as a PyTorch operator: load it, call it, differentiate it.

python examples/quickstart.py
"""

from __future__ import annotations

import time
from pathlib import Path

import torch

import torch_slang


def main() -> None:
    device = "cuda" if torch.cuda.is_available() else "cpu"
    kernel = Path(__file__).with_name("cube.slang")
    print(kernel.read_text())

    start = time.perf_counter()
    torch_slang.load(kernel)
    x = torch.randn(4, 5, dtype=torch.float64, device=device, requires_grad=True)
    y = torch.ops.slang.cube(x)
    print(f"loaded, compiled and run on {device} in {time.perf_counter() - start:.2f} s")

    print("torch.ops.slang.cube(x) == x**3:", torch.allclose(y, x**3))
    (gradient,) = torch.autograd.grad(y.sum(), x)
    print("its gradient, Slang's own derivative, == 3x**2:", torch.allclose(gradient, 3 * x**2))
    print("gradcheck:", torch.autograd.gradcheck(torch.ops.slang.cube, (x,)))


if __name__ == "__main__":
    main()
