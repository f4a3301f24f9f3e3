"""Renders 3-D Gaussians: the kernels of projection.slang, lists.slang and raster.slang, one after the other.

Everything works on the CPU and on a GPU, in float32 and float64, and has gradients by Slang's own derivatives.
"""

from __future__ import annotations

import functools
import math
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import torch_slang

TILE = 16  # kTile of splat.slang: pixels to the side of a tile

_here = Path(__file__).parent
_lists = torch_slang.load(_here / "lists.slang", namespace="splatting")
_raster = torch_slang.load(_here / "raster.slang", namespace="splatting", fast_math=True)
_DEGREES = {(degree + 1) ** 2: degree for degree in range(4)}


@functools.cache
def _projection(degree: int) -> torch_slang.Module:
    """The kernel for spherical harmonics of up to this degree."""
    namespace = f"splatting_degree_{degree}"
    return torch_slang.load(
        _here / "projection.slang", namespace=namespace, defines={"DEGREE": degree, "HARMONICS": (degree + 1) ** 2}
    )


class Camera(NamedTuple):
    """A place p of the world is at ``turn @ p + shift`` for the camera: x to the right, y down, z ahead.

    Tensors of the Gaussians' dtype and device. Those that require grad get gradients.
    """

    turn: Tensor  # [3, 3]
    shift: Tensor  # [3]
    focal: Tensor  # [2], in pixels
    center: Tensor  # [2]: the pixel coordinates (x, y) of what is straight ahead


class Splats(NamedTuple):
    """What one camera sees of G Gaussians."""

    numbers: Tensor  # [G, 9]: centre (pixels), opacity, conic and colour, as splat.slang has them
    depths: Tensor  # [G]: along the camera's axis, in the world's unit; no gradient
    rectangles: Tensor  # [G, 4], int32: the tiles it may reach, from column and row to column and row (exclusive)


def project(  # noqa: PLR0917
    means: Tensor,
    quaternions: Tensor,
    log_scales: Tensor,
    logits: Tensor,
    harmonics: Tensor,
    camera: Camera,
    width: int,
    height: int,
) -> Splats:
    """Gaussians in the image of a camera, by the affine approximation of Zwicker et al. (EWA Volume Splatting, 2001).

    All tensors are float32, or all are float64; all have gradients.

    Args:
        means: [G, 3], in the world.
        quaternions: [G, 4], the rotations (w, x, y, z), of any length but zero.
        log_scales: [G, 3], the logarithms of the standard deviations along the rotated axes.
        logits: [G], the opacities before the sigmoid.
        harmonics: [G, K, 3], the colours' spherical harmonics, K of 1, 4, 9 or 16 (degrees 0 to 3). A colour is their
            sum in the direction of view plus 0.5, and not below 0 (Kerbl et al., 2023).
        width, height: of the image, in pixels.
    """
    if harmonics.dim() != 3 or harmonics.shape[1] not in _DEGREES:
        raise ValueError(f"expected harmonics to have shape [G, 1 or 4 or 9 or 16, 3], but got {list(harmonics.shape)}")
    kernel = _projection(_DEGREES[harmonics.shape[1]]).project
    return Splats(*kernel(means, quaternions, log_scales, logits, harmonics, camera, width, height))


@torch.no_grad()
def tile_lists(splats: Splats, width: int, height: int) -> tuple[Tensor, Tensor]:
    """For each tile of the image the numbers of its splats, from the nearest to the farthest.

    Returns the numbers of all tiles one after the other, [L], int32, and where in it each tile's end, [tiles], int64;
    tiles go row by row.
    """
    columns, rows = math.ceil(width / TILE), math.ceil(height / TILE)
    order = splats.depths.argsort(stable=True)
    sides = splats.rectangles[:, 2:] - splats.rectangles[:, :2]
    ends = (sides[:, 0] * sides[:, 1])[order].cumsum(0)
    length = int(ends[-1]) if len(ends) else 0
    tiles, numbers = _lists.list_tiles(splats.rectangles, order, ends, columns, length)
    # Numbers of tiles are short: a sort by digits takes half as many turns of 16 bits as of 32.
    if columns * rows < 2**15:
        tiles = tiles.short()
    tiles, places = tiles.sort(stable=True)
    every = torch.arange(columns * rows, device=tiles.device, dtype=tiles.dtype)
    return numbers[places], torch.searchsorted(tiles, every, right=True)


def draw(splats: Tensor, lists: tuple[Tensor, Tensor], width: int, height: int, background: list[float]) -> Tensor:
    """Splats [G, 9] over each other and over the background (red, green, blue): an image [height, width, 4].

    Its last number is the part of the background that comes through. The gradient goes to the splats.
    """
    image: Tensor = _raster.draw(splats, *lists, background, width, height)
    return image


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    ctx.save_for_backward(*inputs[:3], output)


def _backward(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    """The derivative of `drawn` in raster.slang, which takes the image as it is, in place of drawing it again."""
    return _raster.drawn_backward.op(grad, *ctx.saved_tensors, [True]), None, None, None, None, None


_raster.draw.register_autograd(_backward, setup_context=_keep)


def render(
    gaussians: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    camera: Camera,
    width: int,
    height: int,
    background: list[float] | None = None,
) -> tuple[Tensor, Splats]:
    """An image of Gaussians, front to back by the over operator (Kerbl et al., 2023).

    Args:
        gaussians: the first five arguments of `project`, float32 or float64.
        width, height: of the image, in pixels.
        background: red, green and blue (black without it), seen as far as the Gaussians let light through.

    Returns the image, [height, width, 3] in the Gaussians' dtype, and their splats.
    """
    splats = project(*gaussians, camera, width, height)
    lists = tile_lists(splats, width, height)
    return draw(splats.numbers, lists, width, height, background or [0.0] * 3)[..., :3], splats
