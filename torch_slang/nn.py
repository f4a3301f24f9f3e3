"""``nn.Module`` layers on the operators that come with the package."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["TrilinearInterpolation"]


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
