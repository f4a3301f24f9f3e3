"""``nn.Module`` layers on the operators that come with the package."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from torch_slang.products.block_sparse_linear import BlockSparseLinear
from torch_slang.products.linear_epilogues import LinearEpilogue as Epilogue
from torch_slang.products.linear_epilogues import expect_epilogue, operator_name
from torch_slang.products.pattern_schedule import PatternSchedule, sparsify

__all__ = ["BlockSparseLinear", "Epilogue", "Linear", "PatternSchedule", "TrilinearInterpolation", "sparsify"]


class Linear(torch.nn.Module):
    """``epilogue(x @ weight.T + bias)`` in one kernel: ``torch.nn.Linear`` and an activation, fused.

    Parameters have the names, shapes and first values of ``torch.nn.Linear``'s, so state dicts go both ways.

    Args:
        in_features, out_features, bias, device, dtype: as in ``torch.nn.Linear``.
        epilogue: ``"relu"``, ``"gelu"`` (torch's default: with erf), ``"gelu_tanh"`` (``approximate="tanh"``),
            ``"silu"``, ``"sigmoid"`` or ``"tanh"``; None for none.

    Shapes:
        - x: ``[..., in_features]``, float16, bfloat16, float32 or float64 like the weight, with any strides
        - result: ``[..., out_features]``

    float16 and bfloat16 are summed, and the epilogue computed, in float32; the result is rounded once. x, weight and
    bias have gradients. For functions of your own there is :func:`torch_slang.matmul_with_epilogue`; these stand in
    ``ops/epilogues/linear.slang``.
    """

    def __init__(  # noqa: PLR0917  (torch.nn.Linear's, and the epilogue)
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        epilogue: Epilogue | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        expect_epilogue("torch_slang.nn.Linear", epilogue, "torch_slang.matmul_with_epilogue")
        self.in_features = in_features
        self.out_features = out_features
        self.epilogue = epilogue
        self.weight = torch.nn.Parameter(torch.empty((out_features, in_features), device=device, dtype=dtype))
        vector = torch.empty(out_features, device=device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if vector is None else torch.nn.Parameter(vector))
        self._operator = operator_name(epilogue, bias)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As ``torch.nn.Linear`` does."""
        torch.nn.init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        if self.bias is not None:
            return torch.ops.slang.matmul_with_epilogue(self._operator, x, self.weight.t(), [self.bias])
        if self.epilogue is not None:
            return torch.ops.slang.matmul_with_epilogue(self._operator, x, self.weight.t(), [])
        return torch.ops.slang.matmul(x, self.weight.t())

    def extra_repr(self) -> str:
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"epilogue={self.epilogue}"
        )


class TrilinearInterpolation(torch.nn.Module):
    """Features inside cubes, from those at the cubes' corners: ``torch.ops.slang.trilinear``.

    With ``u, v, w = (points + 1) / 2`` for each row's point, and ``a = (1 - v) * (1 - w)``, ``b = v * (1 - w)``,
    ``c = (1 - v) * w``, ``d = v * w``::

        result = (1 - u) * (a * feats[:, 0] + b * feats[:, 1] + c * feats[:, 2] + d * feats[:, 3])
               +      u  * (a * feats[:, 4] + b * feats[:, 5] + c * feats[:, 6] + d * feats[:, 7])

    so corner k lies at ``u = k // 4``, ``v = k % 2``, ``w = (k // 2) % 2``. Points outside [-1, 1] extrapolate by the
    same formula.

    Shapes:
        - feats: ``[N, 8, F]``, float16, bfloat16, float32 or float64, with any strides
        - points: ``[N, 3]``, of feats' dtype, coordinates from -1 to 1
        - result: ``[N, F]``, of the same dtype

    Both inputs have gradients. float16 and bfloat16 are computed in float32, and rounded once. There are no parameters.

    The kernel is ``ops/trilinear.slang``; docs/trilinear.md walks through it.
    """

    def forward(self, feats: Tensor, points: Tensor) -> Tensor:
        result: Tensor = torch.ops.slang.trilinear(feats, points)
        return result
