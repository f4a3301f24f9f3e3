"""Runs block-sparse products on the GPU, forward and backward, for compute-sanitizer.

Each kind of kernel, with sizes that are no multiples of blocks or tiles.
"""

import os

os.environ["PYTORCH_NO_CUDA_MEMORY_CACHING"] = "1"  # an allocation of its own for each tensor: overruns are seen

import torch

import torch_slang
from torch_slang import BlockPattern, block_sparse_mm

BLOCKS = [(16, 16), (32, 32), (64, 64), (128, 128), (32, 64), (128, 16)]
ROWS = [1, 40, 4400]  # few, narrow and large tiles


def main() -> None:
    torch_slang.tuning.mode("off")  # the first tile of each: others are the same code
    count = 0
    for dtype in (torch.bfloat16, torch.float32):
        for block in BLOCKS:
            pattern = BlockPattern.random((1000, 520), block, 0.4, torch.Generator().manual_seed(0), "cuda")
            values = pattern.from_dense(torch.randn(pattern.shape, device="cuda", dtype=dtype)).requires_grad_()
            for rows in ROWS if dtype == torch.bfloat16 else ROWS[:2]:
                x = torch.randn(rows, 520, device="cuda", dtype=dtype, requires_grad=True)
                y = block_sparse_mm(x, values, pattern, transpose=True)
                expected = x.detach().double() @ pattern.to_dense(values.detach().double()).mT
                wrong = (y - expected).abs().max() / expected.square().mean().sqrt()
                assert wrong < 0.05, (dtype, block, rows, float(wrong))
                torch.autograd.grad(y, [x, values], torch.randn_like(y))
                count += 3
    layer = torch_slang.nn.BlockSparseLinear(
        520, 1000, density=0.3, block_shape=(64, 64), epilogue="gelu", device="cuda"
    )
    layer(torch.randn(40, 520, device="cuda")).sum().backward()
    torch.cuda.synchronize()
    print(f"values of {count + 2} products computed")


main()
