"""Why a tensor cannot be written into, asked before anything is."""

from __future__ import annotations

import torch

__all__ = ["obstacle_to_writing"]


def obstacle_to_writing(target: torch.Tensor) -> str:
    """What PyTorch would refuse `target.copy_(...)` for, after "but got"; empty if nothing, and in a trace.

    There the questions cannot be asked, and PyTorch refuses in its own words.
    """
    if torch.compiler.is_compiling():
        return ""
    if target.requires_grad and torch.is_grad_enabled():
        if target.is_leaf:
            return "a leaf that requires grad: write under torch.no_grad(), or into a tensor that is no leaf"
        base = target._base
        if base is not None and base.is_leaf and base.requires_grad:
            return "a view of a leaf that requires grad: write under torch.no_grad(), or into a tensor of its own"
    if target.is_inference() and not torch.is_inference_mode_enabled():
        return "a tensor of torch.inference_mode(), outside of it"
    if target.layout == torch.strided and any(
        size > 1 and stride == 0 for size, stride in zip(target.shape, target.stride(), strict=True)
    ):
        return "an expanded tensor, whose elements share memory"
    return ""
