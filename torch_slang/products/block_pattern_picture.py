"""A pattern of blocks as text: two blocks a character, or shades for more."""

from __future__ import annotations

import torch
from torch import Tensor

_LONGEST = 96  # characters of a line, and as many times two blocks high
_HALVES = " ▀▄█"
_SHADES = " ░▒▓█"


def picture_of(mask: Tensor) -> str:
    """`mask`: bool ``[R, C]``. Inside a frame, since empty blocks are blank."""
    mask = mask.cpu()
    blocks = -(-max(mask.shape) // _LONGEST)
    lines = _in_halves(mask) if blocks == 1 else _in_shades(mask, blocks)
    width = len(lines[0])
    return "\n".join(["┌" + "─" * width + "┐", *(f"│{line}│" for line in lines), "└" + "─" * width + "┘"])


def _in_halves(mask: Tensor) -> list[str]:
    """A character is one block wide and two high, as characters are."""
    even = torch.nn.functional.pad(mask.int(), (0, 0, 0, mask.shape[0] % 2))
    return ["".join(_HALVES[k] for k in line) for line in (even[::2] + 2 * even[1::2]).tolist()]


def _in_shades(mask: Tensor, blocks: int) -> list[str]:
    """A character is `blocks` wide and twice as high. Blank only where there is no block, full only where all are."""
    density = torch.nn.functional.avg_pool2d(
        mask.float()[None], (2 * blocks, blocks), ceil_mode=True, count_include_pad=False
    )[0]
    between = (1 + 3 * density).int().clamp(max=3)
    shades = torch.where(density == 0, 0, torch.where(density == 1, 4, between))
    return ["".join(_SHADES[k] for k in line) for line in shades.tolist()]
