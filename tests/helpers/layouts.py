"""Layouts in memory that hypothesis chooses."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from hypothesis import strategies as st

Tensor = torch.Tensor


@dataclass(frozen=True)
class Layout:
    """How a tensor lies in memory: the order of its dimensions there, and each one's step, 0 where it is expanded."""

    shape: tuple[int, ...]
    order: tuple[int, ...]
    steps: tuple[int, ...]
    offset: int

    def make(self, dtype: torch.dtype, device: torch.device, generator: torch.Generator) -> Tensor:
        room = [size * step if step else 1 for size, step in zip(self.shape, self.steps, strict=True)]
        stored = torch.rand(self.offset + math.prod(room), dtype=torch.float64, generator=generator).to(device, dtype)[
            self.offset :
        ]
        stored = stored.add(0.25).view([room[i] for i in self.order])
        places = [self.order.index(i) for i in range(len(self.order))]
        stored = stored.permute(places)[tuple(slice(None, None, step or 1) for step in self.steps)]
        return stored.expand(self.shape)


@st.composite
def layouts(draw: st.DrawFn, shape: Sequence[int]) -> Layout:
    order = draw(st.permutations(range(len(shape))))
    steps = draw(st.tuples(*(st.sampled_from([1, 1, 1, 2, 3, 0]) for _ in shape)))
    # A dimension without elements has no one to expand.
    steps = tuple(step if size else max(step, 1) for size, step in zip(shape, steps, strict=True))
    return Layout(tuple(shape), tuple(order), steps, draw(st.sampled_from([0, 0, 1, 3])))
