"""How often making a pattern of blocks waits for the device: never where the number of blocks is known, else once."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator

import pytest
import torch

from torch_slang import BlockPattern

Tensor = torch.Tensor
# torch says so at the first one of a process.
pytestmark = pytest.mark.filterwarnings("ignore:Sparse BSR tensor support is in beta")


class Asked(torch.utils._python_dispatch.TorchDispatchMode):
    """Counts operators whose results depend on data, and reads of it by the host."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        super().__init__()
        self.times = 0
        for name in ("tolist", "cpu", "numpy"):
            monkeypatch.setattr(Tensor, name, self._counted(getattr(Tensor, name)))

    def _counted(self, method: Callable) -> Callable:
        def counting(*args: object, **kwargs: object) -> object:
            self.times += 1
            return method(*args, **kwargs)

        return counting

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        asking = {"_local_scalar_dense", "item", "nonzero", "masked_select", "equal", "unique", "_unique2", "bincount"}
        self.times += func._schema.name.removeprefix("aten::") in asking
        return func(*args, **(kwargs or {}))


Maker = Callable[[torch.device], BlockPattern]
KNOWN_COUNTS: dict[str, Maker] = {
    "random": lambda on: BlockPattern.random((200, 300), (16, 32), 0.3, device=on),
    "random of a seed": lambda on: BlockPattern.random(
        (200, 300), (16, 32), 0.3, torch.Generator().manual_seed(0), device=on
    ),
    "banded": lambda on: BlockPattern.banded((200, 300), (16, 32), 2, on),
    "butterfly": lambda on: BlockPattern.butterfly((200, 300), (16, 32), on),
    "full": lambda on: BlockPattern.full((200, 300), (16, 32), on),
    "integer scores": lambda on: BlockPattern.from_importance(torch.arange(12, device=on).view(3, 4), (16, 32), 0.3),
}
ASKED_ONCE: dict[str, Maker] = {
    "mask": lambda on: BlockPattern.from_mask(torch.eye(4, device=on) > 0, (16, 32)),
    "indices": lambda on: BlockPattern.from_indices(
        torch.arange(4, device=on), torch.arange(4, device=on), (64, 64), (16, 16)
    ),
    "scores": lambda on: BlockPattern.from_importance(torch.eye(4, device=on), (16, 32), 0.3),
    "bsr": lambda on: BlockPattern.from_bsr(
        torch.sparse_bsr_tensor(
            torch.arange(5, device=on),
            torch.arange(4, device=on),
            torch.ones(4, 16, 16, device=on),
            size=(64, 64),
            check_invariants=False,
        )
    )[0],
}


@pytest.fixture
def waits(device: torch.device, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Maker], int]]:
    """How often a maker waits for the device."""

    def on_cuda(make: Maker) -> int:
        make(device)  # what libraries do at the first call is not counted
        torch.cuda.set_sync_debug_mode("warn")
        with warnings.catch_warnings(record=True) as seen:
            warnings.simplefilter("always")
            make(device)
        return sum("synchronizing" in str(one.message) for one in seen)

    def on_cpu(make: Maker) -> int:
        with monkeypatch.context() as patch, Asked(patch) as asked:
            make(device)
        return asked.times

    yield on_cuda if device.type == "cuda" else on_cpu
    if device.type == "cuda":
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize("make", KNOWN_COUNTS.values(), ids=KNOWN_COUNTS)
def test_where_the_count_is_known_the_host_does_not_wait(waits: Callable[[Maker], int], make: Maker) -> None:
    assert waits(make) == 0


@pytest.mark.parametrize("make", ASKED_ONCE.values(), ids=ASKED_ONCE)
def test_for_a_mask_a_list_or_scores_the_host_waits_once(waits: Callable[[Maker], int], make: Maker) -> None:
    assert waits(make) == 1


def test_using_a_pattern_does_not_wait(waits: Callable[[Maker], int]) -> None:
    def use(device: torch.device) -> BlockPattern:
        pattern = BlockPattern.random((200, 300), (16, 32), 0.3, device=device)
        values = torch.ones(pattern.count, 16, 32, device=device, requires_grad=True)
        pattern.from_dense(pattern.to_dense(values)).sum().backward()
        pattern.mask(), pattern.element_mask(), pattern.tensors()
        return pattern.transpose()

    assert waits(use) == 0
