"""Tensors beyond 4 GiB: addresses are 64-bit, in forward, backward, launches and gathers."""

import pytest
import torch
from cases import BY_NAME

import torch_slang.slangtorch as slangtorch

ROOM = 60 << 30
BYTES = 5 << 30

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or torch.cuda.mem_get_info()[0] < ROOM, reason="needs a GPU with 60 GiB free"
)


@pytest.fixture(autouse=True)
def free() -> object:
    yield
    torch.cuda.empty_cache()


def test_an_operator_and_its_backward() -> None:
    x = torch.full((BYTES // 4,), 3.0, device="cuda")
    x[-1] = 5
    x.requires_grad_()
    y = torch.ops.slang.sqr(x)
    assert (y[0].item(), y[-1].item(), y[1 << 30].item()) == (9, 25, 9)
    (gradient,) = torch.autograd.grad(y, x, torch.ones((), device="cuda").expand_as(y))
    assert (gradient[0].item(), gradient[-1].item(), gradient[1 << 30].item()) == (6, 10, 6)


def test_rows_beyond_4_gib_are_gathered_and_get_gradients() -> None:
    table = torch.zeros(BYTES // 8 // 1024, 1024, dtype=torch.float64, device="cuda")
    table[-1] = 2
    table.requires_grad_()
    index = torch.tensor([len(table) - 1, 0, len(table) - 1], device="cuda")
    y = BY_NAME["gather"].op(table, index)
    assert y.mean(1).tolist() == [4, 0, 4]
    y.sum().backward()
    assert table.grad is not None
    assert (table.grad[-1].mean().item(), table.grad[:-1].abs().max().item()) == (8, 0)


def test_slangtorch_programs_reach_beyond_4_gib(tmp_path) -> None:
    path = tmp_path / "square.slang"
    path.write_text(
        """
        [AutoPyBindCUDA] [CUDAKernel] [Differentiable]
        void square(DiffTensorView input, DiffTensorView output)
        {
            uint3 at = cudaThreadIdx() + cudaBlockIdx() * cudaBlockDim();
            if (at.x >= input.size(0)) return;
            output[at.x, at.y] = input[at.x, at.y] * input[at.x, at.y];
        }
        """
    )
    square = slangtorch.loadModule(str(path)).square
    rows = BYTES // 4 // 4096
    x = torch.full((rows, 4096), 3.0, device="cuda")
    y, seed, gradient = torch.zeros_like(x), torch.ones_like(x), torch.zeros_like(x)
    launch = {"blockSize": (256, 1, 1), "gridSize": ((rows + 255) // 256, 4096, 1)}
    square(input=x, output=y).launchRaw(**launch)
    assert (y[0].mean().item(), y[-1].mean().item()) == (9, 9)
    square.bwd(input=(x, gradient), output=(y, seed)).launchRaw(**launch)
    assert (gradient[0].mean().item(), gradient[-1].mean().item(), gradient[-1, -1].item()) == (6, 6, 6)
