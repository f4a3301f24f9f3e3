"""The kernels of kernels/own_elements.slang, each with the same thing in plain torch and what is known of it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from cases import Input, kernels
from torch import Tensor

WAYS = ["aa", "r", "asr"]


def clamped(x: Tensor, by: int) -> Tensor:
    """Elements `by` further on, the last one (or the first) beyond the end."""
    return x[(torch.arange(len(x), device=x.device) + by).clamp(0, max(len(x) - 1, 0))]


def xored(x: Tensor) -> Tensor:
    return x[(torch.arange(len(x), device=x.device) ^ 1).clamp(max=max(len(x) - 1, 0))]


def window(x: Tensor, w: Tensor) -> Tensor:
    total = w
    for k in range(3):
        total = total * w + clamped(x, k)
    return total


def own_in_loop(x: Tensor, w: Tensor, count: int) -> Tensor:
    total = w
    for _ in range(count):
        total = total * x + w
    return total


def scattered(x: Tensor, w: Tensor, index: Tensor) -> Tensor:
    return torch.zeros_like(x).index_put((index,), x * w[index])


def triples(x: Tensor) -> tuple[Tensor, Tensor]:
    a, b, c = x.unbind(1)
    return torch.stack([b, a * c, c * c], 1), a * b + c


def triples_dynamic(x: Tensor, index: Tensor, w: Tensor) -> Tensor:
    column = (index.long() % 3)[:, None]
    values = x.gather(1, column) * w.gather(1, index.long().clamp(max=2)[:, None])
    return torch.zeros_like(x).scatter(1, column, values)


def triples_partly(x: Tensor) -> Tensor:
    even = torch.arange(len(x), device=x.device) % 2 == 0
    four = torch.full_like(x[:, 0], 4)
    return torch.stack([four, x[:, 0] ** 2, torch.where(even, x[:, 2], four)], 1)


def vectors(a: Tensor, b: Tensor) -> Tensor:
    return a[:, [0, 2]] * a[:, [2, 1]] + b[:, [3, 0]] * a[:, 1:2]


def early(x: Tensor, w: Tensor) -> Tensor:
    return torch.where(torch.arange(len(x), device=x.device) % 3 == 2, x * w, torch.full_like(x, 2))


def twice(x: Tensor, w: Tensor) -> Tensor:
    return torch.where(torch.arange(len(x), device=x.device) % 4 == 3, w, torch.where(x > 0, x * x, x * w))


def somewhere(x: Tensor, w: Tensor) -> tuple[Tensor, Tensor]:
    even = torch.arange(len(x), device=x.device) % 2 == 0
    y = torch.where(x > 0, x * x, torch.zeros_like(x))
    return y, torch.where((x <= 0) & even, w, torch.ones_like(x))


def accesses(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> tuple[Tensor, Tensor]:
    return a * b + c * c, a * a.roll(-1) * c + d * d[:1]


def own_accesses(a: Tensor, b: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
    return a * b + c * a, c


def block_parts(x: Tensor, w: Tensor) -> Tensor:
    parts = [part / (part * part).sum() for part in x.split(64)] if len(x) else [x]
    return torch.cat(parts) * w.roll(-1)


def wave_parts(x: Tensor) -> Tensor:
    return torch.cat([part / (part * part).sum() for part in x.split(32)]) if len(x) else x.clone()


def columns(x: Tensor, w: Tensor, u: Tensor) -> Tensor:
    return x * w.mT + u * u.mT


@dataclass(frozen=True)
class Permutation:
    count: int

    def make(self, device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        return torch.randperm(self.count, generator=generator).to(device)


@dataclass(frozen=True)
class Columns:
    count: int

    def make(self, device: torch.device, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
        return torch.randint(5, (self.count,), generator=generator, dtype=torch.int32).to(device)


X = Input((70,), (0.5, 2))
SIGNED = Input((70,))


@dataclass(frozen=True)
class Case:
    inputs: tuple[Any, ...]
    reference: Callable[..., Any]
    shared: str = ""  # arguments whose gradients must be added up in memory
    own: str = ""  # those that both g++ and NVRTC keep in registers
    dtype: torch.dtype = torch.float64
    options: dict[str, Any] = field(default_factory=dict)

    def args(self, device: torch.device) -> list[Any]:
        generator = torch.Generator().manual_seed(11)
        return [i.make(device, self.dtype, generator) if hasattr(i, "make") else i for i in self.inputs]


CASES = {
    "own": Case((SIGNED, SIGNED), lambda x, w: x * x * w, own="x w y"),
    "neighbours": Case((SIGNED,) * 2, lambda x, w: clamped(x, -1) * x + clamped(x, 1) ** 2 * w, "x"),
    "window": Case((X, X), window, "x", "w y"),
    "own_in_loop": Case((X, X, 3), own_in_loop, own="x w y"),
    "permuted": Case((SIGNED, SIGNED, Permutation(70)), lambda x, w, i: x[i] * w, "x", "w y", options={"empty": False}),
    "scattered": Case((SIGNED, SIGNED, Permutation(70)), scattered, "w y", "x", options={"empty": False}),
    "swapped": Case((SIGNED, SIGNED), lambda x, w: xored(x) * w, "x", "w y"),
    "clamped": Case((SIGNED, SIGNED), torch.mul),
    "two": Case((SIGNED, SIGNED), lambda x, w: (x * x * w, x * 1), own="x w y z"),
    "surplus": Case((SIGNED,), torch.square, "x y"),
    "shifted": Case((SIGNED, SIGNED, 0), lambda x, w, k: x * w.roll(-k), "w"),
    "by_float": Case((SIGNED,), torch.square, "x", "y"),
    "few_threads": Case((SIGNED, Input((37,))), lambda x, w: x[: len(w)] * w * w, "x", "w y", options={"empty": False}),
    "many_threads": Case((SIGNED, Input((140,))), lambda x, w: x.repeat_interleave(2) * w, "x", "w y"),
    "tall_block": Case((SIGNED,), torch.square, "x y"),
    "deep_block": Case((SIGNED,), torch.square, "x y"),
    "one_row": Case((SIGNED,), torch.square, own="x y"),
    "one_column": Case((SIGNED, Input((1, 70))), lambda x, w: x * w[0], "x y", "w"),
    "square": Case((Input((9, 9)),) * 3, columns, "w u"),
    "rows_along_x": Case((Input((9, 41)), Input((9,))), lambda x, w: x * x * w[:, None], "w", "x y"),
    "three_axes": Case(
        (Input((3, 5, 7)), Input((7, 3, 5)), Input((5, 7))), lambda x, w, u: x * w.permute(1, 2, 0) * u, "u", "x w y"
    ),
    "triples": Case((Input((7, 3)),), triples, "x"),
    "triples_loop": Case(
        (Input((7, 3)), Input((2, 7))),
        lambda x, w: ((w[0] * x[:, 0] + w[1]) * x[:, 1] + w[1]) * x[:, 2] + w[1],
        own="x w y",
    ),
    "triples_unrolled": Case((Input((7, 3)),), lambda x: (x * x.roll(-1, 1)).flip(1), own="x y"),
    "triples_dynamic": Case((Input((7, 3)), Columns(7), Input((7, 3))), triples_dynamic, own="x w y"),
    "triples_partly": Case((Input((7, 3)),), triples_partly),
    "triples_so_many": Case((Input((7, 3)), 2), lambda x, n: x[:, :n].prod(1), own="y"),
    "three_by_three": Case(
        (Input((3, 7, 3)), Input((33, 7))), lambda x, w: x[0, :, 2] * x[2, :, 0] + x[1, :, 1] * w[32], "w", "x y"
    ),
    "shared_rows": Case((Input((7, 3)),), lambda x: x * x.roll(-1, 1), "x", "y"),
    "vectors": Case((Input((7, 3)), Input((7, 4))), vectors, own="a b y"),
    "vector_pairs": Case(
        (Input((7, 2, 3)),), lambda a: torch.linalg.cross(a[:, 0], a[:, 1]), own="a y", options={"empty": False}
    ),
    "vector_neighbours": Case((Input((7, 3)),), lambda a: torch.linalg.cross(a, a.roll(-1, 0)), "a", "y"),
    "structs": Case((Input((7, 2)),), lambda x: torch.stack([x[:, 1] * x[:, 0], x[:, 0] * 2], 1), own="x y"),
    "lines": Case((SIGNED,) * 3, lambda slope, start, x: slope * x + start.flip(0), "one_start"),
    "chosen": Case(
        (SIGNED, SIGNED, SIGNED, SIGNED, 1), lambda v0, w0, v1, w1, k: v1 * w0 + w0, options={"empty": False}
    ),
    "any_shape": Case(
        (Input((2, 3, 4)), Input((2, 3, 4, 2))), lambda x, w: x * w[..., 0] + w[..., 1] ** 2, own="x w y"
    ),
    "early": Case((SIGNED, SIGNED), early),
    "twice": Case((SIGNED, SIGNED), twice),
    "somewhere": Case((SIGNED, SIGNED), somewhere),
    "back": Case((SIGNED, SIGNED), lambda x, w: (x * w) ** 2 + x),
    "running": Case((Input((7, 4)),), lambda x: x.cumprod(1), options={"empty": False}),
    "value": Case((SIGNED, Input(())), lambda x, s: x * s * s, own="x y"),
    **{f"accesses_{way}": Case((X,) * 4, accesses, "a d", options={"empty": False}) for way in WAYS},
    **{f"own_accesses_{way}": Case((X,) * 3, own_accesses) for way in WAYS},
    "by_method": Case((SIGNED,), lambda x: x.roll(-1), "x"),
    "by_index": Case((Input((20,)),), lambda x: x.roll(-1), "x", dtype=torch.float32),
    "by_atomics": Case((Input((70,)),), lambda x: x.roll(-1), "x", dtype=torch.float32),
    "by_address": Case((Input((20,)),), lambda x: x.roll(-1), "x", dtype=torch.float32),
    "by_typed_address": Case((Input((20,)),), lambda x: x.roll(-1), "x"),
    "forward_within": Case((SIGNED, SIGNED), lambda u, x: u * u * x.detach() + 0 * x),
    "block_parts": Case((X, X), block_parts, "w"),
    "wave_parts": Case((X,), wave_parts),
}


def operator(name: str) -> Any:
    return getattr(kernels("own_elements"), name).op


def listed(results: Any) -> list[Tensor]:
    return [results] if isinstance(results, Tensor) else list(results)


def leaves(args: list[Any]) -> list[Any]:
    return [a.detach().clone().requires_grad_(a.requires_grad) if isinstance(a, Tensor) else a for a in args]


def wanted(args: list[Any]) -> list[Tensor]:
    return [a for a in args if isinstance(a, Tensor) and a.requires_grad]


def seeds_for(results: list[Tensor]) -> list[Tensor]:
    generator = torch.Generator().manual_seed(5)
    return [torch.randn(r.shape, generator=generator, dtype=torch.float64).to(r.device, r.dtype) for r in results]


def gradients(results: list[Tensor], args: list[Any], seeds: list[Tensor]) -> list[Tensor]:
    found = torch.autograd.grad(results, wanted(args), seeds, retain_graph=True, allow_unused=True)
    return [torch.zeros_like(a) if g is None else g for a, g in zip(wanted(args), found, strict=True)]


def same(actual: list[Tensor], expected: list[Tensor], **tolerance: float) -> None:
    for one, other in zip(actual, expected, strict=True):
        torch.testing.assert_close(one.detach(), other.detach().to(one.dtype), **tolerance)


def agree(name: str, shapes: list[tuple[int, ...]], dtype: torch.dtype, device: torch.device) -> None:
    generator = torch.Generator().manual_seed(3)
    args: list[Any] = [Input(shape).make(device, dtype, generator) for shape in shapes]
    exact = [a.detach().double().requires_grad_() for a in args]
    results, expected = listed(operator(name)(*args)), listed(CASES[name].reference(*exact))
    seeds = seeds_for(results)
    found = gradients(results, args, seeds)
    for one, other in zip(found, gradients(expected, exact, [s.double() for s in seeds]), strict=True):
        # A sum of hundreds of thousands of floats, added atomically in any order, is so far off.
        same([one.double()], [other], rtol=1e-4 if dtype == torch.float32 else 1e-7, atol=1e-5)


def misaligned(t: Tensor) -> Tensor:
    return t.new_empty(t.numel() + 1)[1:].view(t.shape).copy_(t)
