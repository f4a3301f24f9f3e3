"""``torch_slang.nn.sparsify`` and ``PatternSchedule``: layers made block-sparse, and patterns that follow training."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from torch_slang._block_pattern import BlockPattern
from torch_slang._block_sparse_linear import BlockSparseLinear, Importance, block_scores

__all__ = ["PatternSchedule", "sparsify"]

_SCHEDULE = "torch_slang.nn.PatternSchedule"


def sparsify(
    model: torch.nn.Module,
    densities: Mapping[str, float],
    block_shape: Sequence[int] = (32, 32),
    importance: Importance = "magnitude",
) -> torch.nn.Module:
    """Replaces ``torch.nn.Linear`` layers of a model by :class:`BlockSparseLinear`, in place, and returns it.

    ::

        torch_slang.nn.sparsify(model, {"*.mlp.*": 0.25, "*.attention.out": 0.5}, block_shape=(64, 64))

    Args:
        model: any module; a ``torch.nn.Linear`` itself has no place to be replaced in, see
            :meth:`BlockSparseLinear.from_linear`.
        densities: by names of modules as ``model.named_modules()`` has them, with ``*``, ``?`` and ``[...]`` as in file
            names. A layer takes the first that fits. What fits no Linear is an error, so that no layer stays dense
            by a slip.
        block_shape, importance: as in :meth:`BlockSparseLinear.from_linear`.

    Optimisers must be made afterwards: parameters are new ones.
    """
    who = "torch_slang.nn.sparsify"
    layers = {name: module for name, module in model.named_modules() if type(module) is torch.nn.Linear and name}
    unused = dict.fromkeys(densities)
    for name, linear in layers.items():
        pattern = next((pattern for pattern in densities if fnmatch.fnmatchcase(name, pattern)), None)
        if pattern is None:
            continue
        unused.pop(pattern, None)
        sparse = BlockSparseLinear.from_linear(linear, densities[pattern], block_shape, importance=importance)
        parent, _, attribute = name.rpartition(".")
        setattr(model.get_submodule(parent), attribute, sparse)
    if unused:
        raise ValueError(
            f"{who}: expected each name pattern to fit a torch.nn.Linear, but {', '.join(map(repr, unused))} fits none "
            f"of {', '.join(layers) or 'a model that has none'}"
        )
    return model


@dataclass
class _Layer:
    name: str
    module: BlockSparseLinear
    gradient: Tensor | None = None  # of the dense weight, summed over the backwards since the last step


class PatternSchedule:
    """Changes the patterns of block-sparse layers while a model trains, by the rule of RigL.

    ::

        schedule = torch_slang.nn.PatternSchedule(model, optimizer, every=100, fraction=0.2)
        for batch in data:
            loss(model, batch).backward()
            optimizer.step()
            optimizer.zero_grad()
            schedule.step()

    Every `every` steps each layer gives up `fraction` of its blocks, those whose elements have the smallest norms, and
    gets as many others, those whose gradients had the largest norms in this step's backwards. New blocks begin at
    zero; blocks that stay keep their values and what the optimiser knows of them. (Evci et al., "Rigging
    the Lottery: Making All Tickets Winners", 2020.) The gradient of a whole weight is computed in the steps that change
    patterns, and in no others.

    With torch.distributed all ranks come to the same patterns: what they choose by is averaged over them.

    Args:
        model: its :class:`BlockSparseLinear` layers; there must be one at least.
        optimizer: whose state of the weights is moved along.
        every: steps from one change to the next.
        fraction: of the blocks that are there, in (0, 1): one block at least, but never the last.
    """

    def __init__(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, *, every: int, fraction: float = 0.2
    ) -> None:
        if every < 1:
            raise ValueError(f"{_SCHEDULE}: expected every to be at least 1, but got {every}")
        if not 0 < fraction < 1:
            raise ValueError(f"{_SCHEDULE}: expected fraction to be between 0 and 1, but got {fraction}")
        self.optimizer = optimizer
        self.every = every
        self.fraction = fraction
        self.steps = 0
        self._layers = [_Layer(n, m) for n, m in model.named_modules() if isinstance(m, BlockSparseLinear)]
        if not self._layers:
            raise ValueError(f"{_SCHEDULE}: expected model to have a BlockSparseLinear, but it has none")
        for layer in self._layers:
            layer.module.register_forward_hook(self._watcher(layer))

    def step(self) -> bool:
        """To be called after each step of the optimiser; whether patterns have changed."""
        self.steps += 1
        if self.steps % self.every != 0:
            return False
        for layer in self._layers:
            self._change(layer)
        return True

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])

    @property
    def _is_watching(self) -> bool:
        """The step under way ends with a change."""
        return (self.steps + 1) % self.every == 0

    def _watcher(self, layer: _Layer) -> Any:
        def watch(_: torch.nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
            if not (self._is_watching and output.requires_grad):
                return
            x = inputs[0].detach()

            def add(gradient: Tensor) -> None:
                rows, outputs = x.reshape(-1, x.shape[-1]), gradient.reshape(-1, gradient.shape[-1])
                dense = (outputs.mT @ rows.to(outputs.dtype)).to(torch.promote_types(outputs.dtype, torch.float32))
                layer.gradient = dense if layer.gradient is None else layer.gradient.add_(dense)

            output.register_hook(add)

        return watch

    @torch.no_grad()
    def _change(self, layer: _Layer) -> None:
        module, gradient = layer.module, layer.gradient
        layer.gradient = None
        if gradient is None:
            raise RuntimeError(
                f"{_SCHEDULE}: expected a backward through {layer.name} before step number {self.steps}, which changes "
                "its pattern, but there was none"
            )
        before = module.pattern
        missing = before.grid[0] * before.grid[1] - before.count
        moved = min(max(round(self.fraction * before.count), 1), before.count - 1, missing)
        if moved <= 0:
            return
        norms = torch.linalg.vector_norm(module.weight, dim=(1, 2), dtype=gradient.dtype)
        slopes = block_scores(_averaged(gradient), before.block_shape).flatten()
        places = before.rows.long() * before.grid[1] + before.columns
        # The highest scores stay or come. What goes may not come back at once: it would lose its values.
        slopes.index_fill_(0, places, -torch.inf)
        staying = _averaged(norms).argsort(descending=True, stable=True)[: before.count - moved]
        coming = slopes.argsort(descending=True, stable=True)[:moved]
        after = BlockPattern._of_places(
            before.shape, before.block_shape, torch.cat([places[staying], coming]).sort().values
        )
        self._move(module, before, after)

    def _move(self, module: BlockSparseLinear, before: BlockPattern, after: BlockPattern) -> None:
        """Values and the optimiser's tensors of blocks go where they are now; those of new blocks are zero."""
        old = torch.full((before.grid[0] * before.grid[1],), -1, dtype=torch.long, device=before.device)
        old[before.rows.long() * before.grid[1] + before.columns] = torch.arange(before.count, device=before.device)
        source = old[after.rows.long() * after.grid[1] + after.columns]
        is_new = (source < 0).view(-1, 1, 1)

        def move(tensor: Tensor) -> None:
            tensor.copy_(tensor[source.clamp(min=0)].masked_fill(is_new, 0))

        move(module.weight)
        if module.weight.grad is not None:
            move(module.weight.grad)
        for value in self.optimizer.state.get(module.weight, {}).values():
            if isinstance(value, Tensor) and value.shape == module.weight.shape:
                move(value)
        for buffer, indices in zip(module._indices(), after.tensors(), strict=True):
            buffer.copy_(indices)


def _averaged(tensor: Tensor) -> Tensor:
    """Over all ranks, if there are several."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.all_reduce(tensor)
        tensor /= torch.distributed.get_world_size()
    return tensor
