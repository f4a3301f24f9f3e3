"""``torch_slang.nn.BlockSparseLinear``: a linear layer whose weight has only some blocks."""

import math
from collections.abc import Sequence
from typing import Any, Literal

import torch
from torch import Tensor

from torch_slang.products.block_pattern import BlockPattern
from torch_slang.products.block_pattern_checks import grid_of
from torch_slang.products.block_pattern_indices import Indices
from torch_slang.products.linear_epilogues import LinearEpilogue, expect_epilogue, operator_name
from torch_slang.products.sharded import assign, from_first_rank, is_sharded, whole

__all__ = ["BlockSparseLinear", "Importance", "block_scores"]

Importance = Literal["magnitude", "gradient"]
_WHO = "torch_slang.nn.BlockSparseLinear"
_INDICES = Indices._fields
_DTYPES = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


class BlockSparseLinear(torch.nn.Module):
    """``epilogue(x @ W.T + bias)`` where the weight W ``[out_features, in_features]`` has only the blocks of a pattern.

    It stands where a ``torch.nn.Linear`` stood, and takes the time and memory of the blocks that are there::

        layer = torch_slang.nn.BlockSparseLinear(1024, 4096, density=0.25, block_shape=(64, 64))
        layer = torch_slang.nn.BlockSparseLinear.from_linear(linear, density=0.25)     # keeps what matters most

    Args:
        in_features, out_features, bias, device, dtype: as in ``torch.nn.Linear``. Sizes need not be multiples of the
            block.
        density: the part of the blocks that there are, in (0, 1]; which ones is drawn by torch's default generator.
        block_shape: ``(r, c)``, rows (of ``out_features``) and columns of a block: 16, 32, 64 or 128 each.
        pattern: a :class:`~torch_slang.BlockPattern` of shape ``(out_features, in_features)`` in place of these two.
        epilogue: as in :class:`torch_slang.nn.Linear`: an activation in the product's kernel. For functions of your own
            there is :func:`torch_slang.block_sparse_mm_with_epilogue`.

    Parameters and buffers:
        - weight: ``[n, r, c]``, the blocks in the pattern's order. First values are those of ``torch.nn.Linear``
          divided by the square root of the density, so that results vary as much as a dense layer's.
        - bias: ``[out_features]`` or None
        - the pattern's index tensors, int32, which state dicts contain. A state dict brings its own pattern along; one
          with another number of blocks, or other block shapes, is refused.

    Shapes:
        - x: ``[..., in_features]``, float16, bfloat16, float32 or float64 like the weight, with any strides
        - result: ``[..., out_features]``

    Without an epilogue there are derivatives of any order, with one of first and second order. A bias alone is part of
    the kernel where no gradients are recorded (``torch.no_grad()``), which saves a rounding of float16 and bfloat16.
    """

    __jit_unused_properties__ = ("pattern",)
    shape: list[int]
    row_offsets: Tensor
    columns: Tensor
    rows: Tensor
    row_order: Tensor
    column_offsets: Tensor
    column_rows: Tensor
    column_blocks: Tensor
    column_order: Tensor

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        density: float = 0.5,
        block_shape: Sequence[int] = (32, 32),
        pattern: BlockPattern | None = None,
        epilogue: LinearEpilogue | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        expect_epilogue(_WHO, epilogue, "torch_slang.block_sparse_mm_with_epilogue")
        if dtype is not None and dtype not in _DTYPES:
            raise TypeError(f"{_WHO}: expected dtype to be one of {', '.join(map(str, _DTYPES))}, but got {dtype}")
        shape = (out_features, in_features)
        if pattern is None:
            pattern = BlockPattern.random(shape, block_shape, density, device=device)
        elif not isinstance(pattern, BlockPattern):
            raise TypeError(f"{_WHO}: expected pattern to be a BlockPattern, but got {type(pattern).__name__}")
        elif pattern.shape != shape:
            raise ValueError(
                f"{_WHO}: expected pattern to have the shape (out_features, in_features) = {shape}, but got "
                f"{pattern.shape}"
            )
        elif device is not None:
            pattern = pattern.to(device)
        self.in_features = in_features
        self.out_features = out_features
        self.epilogue = epilogue
        self._operator = operator_name(epilogue, bias)
        self.block_shape = pattern.block_shape
        self.shape = [out_features, in_features]
        # Whether the indices have memory that nobody has written: reset_parameters or a state dict brings a pattern.
        self._has_no_pattern = False
        for name, indices in zip(_INDICES, pattern.tensors(), strict=True):
            self.register_buffer(name, indices)
        values = torch.empty((pattern.count, *pattern.block_shape), device=pattern.device, dtype=dtype)
        self.weight = torch.nn.Parameter(values)
        vector = torch.empty(out_features, device=pattern.device, dtype=dtype) if bias else None
        self.register_parameter("bias", None if vector is None else torch.nn.Parameter(vector))
        self.reset_parameters()

    @classmethod
    def from_linear(
        cls,
        linear: torch.nn.Linear,
        density: float = 0.5,
        block_shape: Sequence[int] = (32, 32),
        *,
        pattern: BlockPattern | None = None,
        importance: Importance = "magnitude",
        epilogue: LinearEpilogue | None = None,
    ) -> "BlockSparseLinear":
        """The most important blocks of a ``torch.nn.Linear``, its bias, and zero elsewhere.

        Args:
            linear: with a weight ``[out_features, in_features]``; it is not changed.
            density, block_shape, pattern, epilogue: as in the constructor.
            importance: of a block: ``"magnitude"``, the norm of its elements; ``"gradient"``, the norm of its elements
                times their gradients, which ``linear.weight.grad`` must have.
        """
        if not isinstance(linear, torch.nn.Linear):
            raise TypeError(f"{_WHO}.from_linear: expected a torch.nn.Linear, but got {type(linear).__name__}")
        dense = linear.weight.detach()
        if is_sharded(dense):
            raise ValueError(
                f"{_WHO}.from_linear: expected the linear's weight to be whole, but it is sharded: sparsify first, "
                "then shard"
            )
        if pattern is None:
            scores = block_scores(_important(linear, importance), block_shape)
            pattern = BlockPattern.from_importance(scores, block_shape, density, shape=dense.shape)
        made = cls(
            linear.in_features,
            linear.out_features,
            linear.bias is not None,
            pattern=pattern,
            epilogue=epilogue,
            device=dense.device,
            dtype=dense.dtype,
        )
        with torch.no_grad():
            made.weight.copy_(made.pattern.from_dense(dense))
            if made.bias is not None:
                made.bias.copy_(linear.bias)
        made.weight.requires_grad_(linear.weight.requires_grad)
        if made.bias is not None:
            made.bias.requires_grad_(linear.bias.requires_grad)
        made.train(linear.training)
        return made

    @property
    def pattern(self) -> BlockPattern:
        """Which blocks there are, now: a state dict or a schedule changes the layer's own indices in place."""
        indices = [one.clone() for one in self._indices()]
        return BlockPattern._of((self.out_features, self.in_features), self.block_shape, indices)

    def _indices(self) -> list[Tensor]:
        return [
            self.row_offsets,
            self.columns,
            self.rows,
            self.row_order,
            self.column_offsets,
            self.column_rows,
            self.column_blocks,
            self.column_order,
        ]

    def to_dense(self) -> Tensor:
        """The weight as a tensor ``[out_features, in_features]``. Differentiable.

        A weight that FSDP2 has sharded is gathered: all ranks call this together.
        """
        return self.pattern.to_dense(whole(self.weight))

    def reset_parameters(self) -> None:
        """As ``torch.nn.Linear`` does, for as many inputs as an output has. Elements outside the shape are zero.

        A layer that was on the device "meta" and has got memory elsewhere (``to_empty``) draws its blocks here, by
        torch's default generator. Where FSDP2 has sharded the weight, all ranks get the blocks that the first one
        draws; else seed it alike on all ranks.
        """
        if self.weight.is_meta:
            return
        rows, columns = grid_of((self.out_features, self.in_features), self.block_shape)
        density = self.weight.shape[0] / max(rows * columns, 1)
        if self._has_no_pattern:
            drawn = BlockPattern.random(self.shape, self.block_shape, density, device=self.columns.device)
            for buffer, indices in zip(self._indices(), drawn.tensors(), strict=True):
                buffer.copy_(indices)
                from_first_rank(buffer, self.weight)
            self._has_no_pattern = False
        bound = 1 / math.sqrt(self.in_features * density) if self.in_features > 0 and density > 0 else 0.0
        torch.nn.init.uniform_(self.weight, -bound, bound)
        if any(size % block for size, block in zip(self.shape, self.block_shape, strict=True)):
            with torch.no_grad():
                assign(self.weight, whole(self.weight).where(self._is_inside(), 0))
        if self.bias is not None:
            bound = 1 / math.sqrt(self.in_features) if self.in_features > 0 else 0
            torch.nn.init.uniform_(self.bias, -bound, bound)

    def _is_inside(self) -> Tensor:
        """bool ``[n, r, c]``: which elements of the weight lie inside the shape."""
        (r, c), device = self.block_shape, self.columns.device
        rows = self.rows[:, None] * r + torch.arange(r, device=device)
        columns = self.columns[:, None] * c + torch.arange(c, device=device)
        return (rows < self.out_features)[:, :, None] & (columns < self.in_features)[:, None, :]

    def forward(self, x: Tensor) -> Tensor:
        if (self._has_no_pattern or self.columns.is_meta) and not x.is_meta:
            raise RuntimeError(
                'torch_slang.nn.BlockSparseLinear: this layer was on the device "meta", so it has no pattern yet: '
                "call reset_parameters() or load a state dict"
            )
        if self.epilogue is None:
            return torch.ops.slang.block_sparse_linear(x, self.weight, self._indices(), self.shape, self.bias)
        arguments: list[Tensor] = []
        if self.bias is not None:
            arguments.append(self.bias)
        return torch.ops.slang.block_sparse_mm_with_epilogue(
            self._operator, x, self.weight, self._indices(), self.shape, True, arguments
        )

    def _gradient_of_sums(self, x: Tensor, gradient: Tensor) -> Tensor:
        """The gradient of ``x @ W.T``, from that of what forward made of it."""
        if self.epilogue is None:
            return gradient
        # FSDP2 may gather the parameters only behind this, where it casts what forward has made.
        parameters = (whole(one.detach()).to(x.dtype) for one in (self.weight, self.bias) if one is not None)
        x, weight, *biases = (one.to(gradient.dtype) for one in (x, *parameters))
        precision = "double" if gradient.dtype == torch.float64 else "float"
        function = getattr(torch.ops.slang, f"{self._operator}_block_sparse_in_{precision}")  # forward has loaded it
        sums = torch.ops.slang.block_sparse_mm(x, weight, self._indices(), self.shape, True)
        with torch.enable_grad():
            result = function(sums.requires_grad_(), *biases)
        return torch.autograd.grad(result, sums, gradient)[0]

    def extra_repr(self) -> str:
        rows, columns = grid_of((self.out_features, self.in_features), self.block_shape)
        return (
            f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}, "
            f"block_shape={self.block_shape}, blocks={self.weight.shape[0]} of {rows * columns}"
            + (f", epilogue={self.epilogue}" if self.epilogue else "")
        )

    def _apply(self, fn: Any, recurse: bool = True) -> Any:
        had_none = self._has_no_pattern or self.columns.is_meta
        super()._apply(fn, recurse)
        self._has_no_pattern = had_none and not self.columns.is_meta
        return self

    def _load_from_state_dict(  # noqa: PLR0917  (torch's)
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: Any,
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        names = [prefix + name for name in ("weight", *_INDICES)]
        if any(name in state_dict for name in names):
            try:
                self._use_pattern_of(state_dict, prefix)
            except (IndexError, TypeError, ValueError) as error:
                error_msgs.append(f"{_WHO}: {error}")
                return  # load_state_dict raises: nothing of this layer is loaded
        has_pattern = prefix + "columns" in state_dict
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )
        if has_pattern:
            self._has_no_pattern = False

    def _use_pattern_of(self, state_dict: dict[str, Any], prefix: str) -> None:
        """Checks what a state dict has of this layer, and makes all of its indices anew from its coordinates."""
        saved, rows, columns = (state_dict.get(prefix + name) for name in ("weight", "rows", "columns"))
        if saved is None or rows is None or columns is None:
            raise ValueError(
                f"expected the state dict to have {prefix}weight, {prefix}rows and {prefix}columns, or none of them"
            )
        if saved.shape != self.weight.shape:
            raise ValueError(
                f"expected the state dict's {prefix}weight to have {self.weight.shape[0]} blocks "
                f"{list(self.weight.shape[1:])} like this layer, but it has shape {list(saved.shape)}: make the layer "
                "with the density and block shape of the one that was saved"
            )
        if rows.shape != saved.shape[:1]:
            raise ValueError(
                f"expected the state dict's {prefix}rows to have {saved.shape[0]} elements, one for each block, but "
                f"got shape {list(rows.shape)}"
            )
        grid = grid_of((self.out_features, self.in_features), self.block_shape)
        for name, blocks in (("row_order", grid[0]), ("column_order", grid[1])):
            lines = state_dict.get(prefix + name)
            if lines is not None and lines.shape != (blocks,):
                raise ValueError(
                    f"expected the state dict's {prefix}{name} to have shape [{blocks}], for the blocks that cover "
                    f"{self.shape}, but got {list(lines.shape)}: the layer that was saved has other sizes"
                )
        if rows.is_meta:
            return
        try:
            pattern = BlockPattern.from_indices(rows, columns, self.shape, self.block_shape)
        except (IndexError, TypeError, ValueError) as error:
            raise ValueError(f"the state dict's {prefix}rows and {prefix}columns: {error}") from None
        state_dict.update(zip((prefix + name for name in _INDICES), pattern.tensors(), strict=True))


def block_scores(elements: Tensor, block_shape: Sequence[int]) -> Tensor:
    """The norm of each block of a matrix ``[out, in]``, in float32 or float64: ``[R, C]``."""
    pattern = BlockPattern.full(elements.shape, block_shape, device=elements.device)
    wide = torch.promote_types(elements.dtype, torch.float32)
    return torch.linalg.vector_norm(pattern.from_dense(elements), dim=(1, 2), dtype=wide).view(pattern.grid)


def _important(linear: torch.nn.Linear, importance: Importance) -> Tensor:
    weight = linear.weight.detach()
    if importance == "magnitude":
        return weight
    if importance != "gradient":
        raise ValueError(f'{_WHO}: expected importance to be "magnitude" or "gradient", but got {importance!r}')
    if linear.weight.grad is None:
        raise ValueError(f'{_WHO}: importance="gradient" wants the gradient of the weight, but weight.grad is None')
    return weight * linear.weight.grad
