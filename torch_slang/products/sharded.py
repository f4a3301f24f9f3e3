"""Tensors of which each rank has a part: the weights, gradients and optimiser's state of models that FSDP2 has sharded.

They are ``torch.distributed.tensor.DTensor``. All ranks of a tensor's mesh must call what says so here, in one order.
"""

from __future__ import annotations

import sys
from typing import Any

import torch
from torch import Tensor

__all__ = ["assign", "from_first_rank", "is_sharded", "reshard", "whole"]


def is_sharded(tensor: Tensor) -> bool:
    return hasattr(tensor, "device_mesh")


def whole(tensor: Any) -> Tensor:
    """All of a tensor, gathered from all ranks, which call this together. Differentiable."""
    if not is_sharded(tensor):
        return tensor
    # With FSDP2's CPUOffloadPolicy the parts lie on the host, where the ranks may not be able to meet.
    return tensor.to(tensor.device_mesh.device_type).full_tensor()


def assign(tensor: Any, values: Tensor) -> None:
    """Copies `values`, which all ranks have alike and whole: each rank takes its part, and nothing is sent."""
    if is_sharded(tensor):
        from torch.distributed.tensor import DTensor, Replicate

        mesh = tensor.device_mesh
        values = DTensor.from_local(values, mesh, [Replicate()] * mesh.ndim, run_check=False)
    tensor.copy_(values)


def from_first_rank(tensor: Tensor, like: Any) -> None:
    """Gives all ranks of `like`, which call this together, what the first of them has in `tensor`."""
    if is_sharded(like):
        for dimension in range(like.device_mesh.ndim):
            torch.distributed.broadcast(tensor, group=like.device_mesh.get_group(dimension), group_src=0)


def reshard(model: torch.nn.Module) -> None:
    """Parameters of modules are the sharded ones, which the optimiser has, not copies that a forward has gathered."""
    fsdp: Any = sys.modules.get("torch.distributed.fsdp")  # which who shards imports; it takes seconds
    for module in model.modules() if fsdp else ():
        if isinstance(module, fsdp.FSDPModule):
            module.reshard()
