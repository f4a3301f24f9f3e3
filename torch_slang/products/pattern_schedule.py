"""``torch_slang.nn.sparsify`` and ``PatternSchedule``: layers made block-sparse, and patterns that follow training."""

from __future__ import annotations

import fnmatch
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import Any

import torch
from torch import Tensor

from torch_slang.products.block_pattern import BlockPattern
from torch_slang.products.block_sparse_linear import BlockSparseLinear, Importance, block_scores
from torch_slang.products.sharded import assign, is_sharded, reshard, whole

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
            names. A layer takes the first that fits. One that chooses no layer is an error, so that none stays dense
            by a slip. Nothing is replaced where anything is wrong.
        block_shape, importance: as in :meth:`BlockSparseLinear.from_linear`.

    Optimisers must be made afterwards: parameters are new ones.
    """
    who = "torch_slang.nn.sparsify"
    places = [
        (name, module) for name, module in model.named_modules(remove_duplicate=False) if _is_linear(name, module)
    ]
    chosen: dict[torch.nn.Module, str] = {}  # the name pattern of each layer, which may stand in several places
    fits: set[str] = set()
    for name, linear in places:
        fitting = [pattern for pattern in densities if fnmatch.fnmatchcase(name, pattern)]
        fits.update(fitting)
        if fitting:
            chosen.setdefault(linear, fitting[0])
    if unknown := [pattern for pattern in densities if pattern not in fits]:
        raise ValueError(
            f"{who}: expected each name pattern to fit a torch.nn.Linear, but {', '.join(map(repr, unknown))} fits "
            f"none of {', '.join(name for name, _ in places) or 'a model that has none'}"
        )
    if shadowed := [pattern for pattern in densities if pattern not in chosen.values()]:
        raise ValueError(
            f"{who}: expected each name pattern to choose a layer, but those that {shadowed[0]!r} fits are chosen by "
            "one in front of it: put the more specific pattern first"
        )
    for name, linear in places:
        if linear in chosen:
            _check_place(who, model, name, linear)
    made = {}
    for linear, pattern in chosen.items():
        try:
            made[linear] = BlockSparseLinear.from_linear(
                linear,
                densities[pattern],
                block_shape,
                importance=importance,
            )
        except (TypeError, ValueError) as error:
            name = next(name for name, module in places if module is linear)
            raise type(error)(f"{who}: layer {name}: {error}") from None
    for name, linear in places:
        if linear in made:
            parent, _, attribute = name.rpartition(".")
            setattr(model.get_submodule(parent), attribute, made[linear])
    return model


def _is_linear(name: str, module: torch.nn.Module) -> bool:
    return type(module) is torch.nn.Linear and name != ""


def _check_place(who: str, model: torch.nn.Module, name: str, linear: torch.nn.Module) -> None:
    parent = model.get_submodule(name.rpartition(".")[0])
    if isinstance(parent, torch.nn.TransformerEncoderLayer) and torch.backends.mha.get_fastpath_enabled():
        raise ValueError(
            f"{who}: {name} is a part of torch.nn.TransformerEncoderLayer, whose fast path for inference reads the "
            "weight by itself: call torch.backends.mha.set_fastpath_enabled(False) first"
        )
    hooks = sum(len(value) for key, value in vars(linear).items() if key.endswith("_hooks") and value)
    if hooks and not is_sharded(linear.weight):  # which from_linear refuses; the hooks are then FSDP2's
        raise ValueError(
            f"{who}: expected {name} to have no hooks, since a block-sparse layer would come without them, but it has "
            f"{hooks}: remove them first, as torch.nn.utils.prune.remove does"
        )
    for other_name, other in model.named_modules():
        shares = any(parameter is linear.weight for parameter in other.parameters(recurse=False))
        if other is not linear and shares:
            raise ValueError(
                f"{who}: the weight of {name} is a parameter of {other_name} too, and a block-sparse one could not be"
            )


class _Watcher:
    """A hook on one layer's forward: in steps that end with a change it sums the gradient of the dense weight."""

    def __init__(self, schedule: PatternSchedule, name: str, module: BlockSparseLinear) -> None:
        self.schedule = schedule
        self.name = name or type(module).__name__
        self.module = module
        self.gradient: Tensor | None = None
        self.handle = module.register_forward_hook(self, with_kwargs=True)

    def __call__(
        self, _: torch.nn.Module, inputs: tuple[Tensor, ...], named: dict[str, Tensor], output: Tensor
    ) -> None:
        if not (self.schedule._is_watching and output.requires_grad):
            return
        x = (inputs[0] if inputs else named["x"]).detach()

        def add(gradient: Tensor) -> None:
            wide = torch.promote_types(gradient.dtype, torch.float32)
            with torch.autocast(x.device.type, enabled=False):
                of_sums = self.module._gradient_of_sums(x, gradient)
                rows, outputs = (one.reshape(-1, one.shape[-1]).to(wide) for one in (x, of_sums))
                dense = outputs.mT @ rows
            self.gradient = dense if self.gradient is None else self.gradient.add_(dense)

        output.register_hook(add)

    def __reduce__(self) -> tuple[Any, ...]:
        return _no_watcher, ()  # a saved model comes without its schedule


def _nothing(*_: Any) -> None:
    pass


def _no_watcher() -> Any:
    return _nothing


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

    With torch.distributed all ranks come to the same patterns: what they choose by is averaged over `process_group`,
    and all of its ranks must have these layers, with one pattern to begin with. A step whose gradient is not finite
    changes nothing. Of weights that FSDP2 (``fully_shard``) has sharded, values and the optimiser's state move between
    ranks, one tensor of one layer gathered at a time.

    Args:
        model: its :class:`BlockSparseLinear` layers; there must be one at least.
        optimizer: whose state of the weights is moved along; it must hold them.
        every: steps from one change to the next.
        fraction: of the blocks that are there, in (0, 1): one block at least, but never the last.
        until: the number of steps after which patterns stay; None: never.
        process_group: of torch.distributed; None for the ranks that a weight is sharded over, if those are a mesh of
            one dimension, else for the default one.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        *,
        every: int,
        fraction: float = 0.2,
        until: int | None = None,
        process_group: Any = None,
    ) -> None:
        _expect_steps("every", every, 1)
        if until is not None:
            _expect_steps("until", until, 0)
        if not (_is_number(fraction) and 0 < fraction < 1):
            raise ValueError(f"{_SCHEDULE}: expected fraction to be between 0 and 1, but got {fraction!r}")
        layers = [(name, module) for name, module in model.named_modules() if isinstance(module, BlockSparseLinear)]
        if not layers:
            raise ValueError(f"{_SCHEDULE}: expected model to have a BlockSparseLinear, but it has none")
        reshard(model)
        held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
        for name, module in layers:
            if module.weight.dim() != 3:
                raise ValueError(
                    f"{_SCHEDULE}: expected the weight of {name} to be [n, r, c], but got shape "
                    f"{list(module.weight.shape)}: FullyShardedDataParallel makes it flat, fully_shard does not"
                )
            if id(module.weight) not in held:
                raise ValueError(
                    f"{_SCHEDULE}: expected optimizer to hold the weight of {name}, but it does not: make it "
                    "after sparsify and fully_shard"
                )
            _expect_gradients(name, module)
        self.optimizer = optimizer
        self.every = int(every)
        self.fraction = fraction
        self.until = until
        self.process_group = process_group
        self.steps = 0
        self._model = model
        self._layers = [_Watcher(self, name, module) for name, module in layers]

    def step(self) -> bool:
        """To be called after each step of the optimiser; whether a pattern has changed."""
        ends_with_change = self._is_watching
        self.steps += 1
        if ends_with_change:
            reshard(self._model)
        changed = [self._change(layer) for layer in self._layers] if ends_with_change else []
        return any(changed)

    def remove(self) -> None:
        """Takes the schedule off the model, whose patterns stay as they are."""
        for layer in self._layers:
            layer.handle.remove()
        self._layers = []

    def state_dict(self) -> dict[str, Any]:
        return {"steps": self.steps}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        self.steps = int(state["steps"])

    @property
    def _is_watching(self) -> bool:
        """The step under way ends with a change."""
        step = self.steps + 1
        return step % self.every == 0 and (self.until is None or step <= self.until)

    @torch.no_grad()
    def _change(self, layer: _Watcher) -> bool:
        module, gradient = layer.module, layer.gradient
        layer.gradient = None
        _expect_gradients(layer.name, module)
        if gradient is None:
            raise RuntimeError(
                f"{_SCHEDULE}: expected a backward through {layer.name} before step number {self.steps}, which changes "
                "its pattern, but there was none"
            )
        before = module.pattern
        known = self._known_of_blocks(layer)
        places = before._places()
        group = self._group(module)
        self._expect_one_pattern(layer, places, group)
        missing = before.grid[0] * before.grid[1] - before.count
        moved = min(max(round(self.fraction * before.count), 1), before.count - 1, missing)
        gradient = _averaged(gradient, group)
        if moved <= 0 or not bool(gradient.isfinite().all()):
            return False
        wide = torch.promote_types(module.weight.dtype, torch.float32)
        norms = _averaged(whole(torch.linalg.vector_norm(module.weight, dim=(1, 2), dtype=wide)), group)
        slopes = block_scores(gradient, before.block_shape).flatten()
        # The highest scores stay or come. What goes may not come back at once: it would lose its values.
        slopes.index_fill_(0, places, -torch.inf)
        staying = norms.argsort(descending=True, stable=True)[: before.count - moved]
        coming = slopes.argsort(descending=True, stable=True)[:moved]
        after = BlockPattern._of_places(
            before.shape, before.block_shape, torch.cat([places[staying], coming]).sort().values
        )
        self._move(module, before, after, known)
        return True

    def _known_of_blocks(self, layer: _Watcher) -> list[Tensor]:
        """The optimizer's state of each block: tensors ``[n, ...]``."""
        weight = layer.module.weight
        known = {
            name: value
            for name, value in self.optimizer.state.get(weight, {}).items()
            if isinstance(value, Tensor) and value.numel() > 1  # others are of the whole weight
        }
        for name, value in known.items():
            # Adafactor knows sums of each block's rows and columns: [n, r, 1], [n, 1, c].
            if value.dim() != 3 or value.shape[0] != weight.shape[0]:
                raise RuntimeError(
                    f"{_SCHEDULE}: expected the optimizer's state of the weight of {layer.name} to be tensors "
                    f"[{weight.shape[0]}, ...] by blocks, which can be moved along, but {name} of "
                    f"{type(self.optimizer).__name__} has shape {list(value.shape)}"
                )
        return list(known.values())

    def _group(self, module: BlockSparseLinear) -> Any:
        """The ranks that choose together; None for the default group."""
        weight: Any = module.weight
        if self.process_group is None and is_sharded(weight) and weight.device_mesh.ndim == 1:
            return weight.device_mesh.get_group()
        return self.process_group

    def _expect_one_pattern(self, layer: _Watcher, places: Tensor, group: Any) -> None:
        if not _has_ranks():
            return
        extremes = torch.stack([places, -places])
        torch.distributed.all_reduce(extremes, torch.distributed.ReduceOp.MAX, group)
        if not torch.equal(extremes[0], -extremes[1]):
            raise RuntimeError(
                f"{_SCHEDULE}: expected {layer.name} to have one pattern on all ranks, but they differ: make it with "
                "one seed, or broadcast model.buffers() before training"
            )

    def _move(
        self, module: BlockSparseLinear, before: BlockPattern, after: BlockPattern, known: Sequence[Tensor]
    ) -> None:
        """Values and the optimiser's tensors of blocks go where they are now; those of new blocks are zero."""
        old = torch.full((before.grid[0] * before.grid[1],), -1, dtype=torch.long, device=before.device)
        old[before._places()] = torch.arange(before.count, device=before.device)
        source = old[after._places()]
        is_new = (source < 0).view(-1, 1, 1)

        def move(tensor: Tensor) -> None:
            assign(tensor, whole(tensor)[source.clamp(min=0)].masked_fill(is_new, 0))

        move(module.weight)
        if module.weight.grad is not None:
            move(module.weight.grad)
        for tensor in known:
            move(tensor)
        for buffer, indices in zip(module._indices(), after.tensors(), strict=True):
            buffer.copy_(indices)


def _is_number(value: object) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool)


def _expect_steps(name: str, value: Any, least: int) -> None:
    if not (_is_number(value) and value >= least and value % 1 == 0):
        raise ValueError(
            f"{_SCHEDULE}: expected {name} to be a whole number of steps, at least {least}, but got {value!r}"
        )


def _expect_gradients(name: str, module: BlockSparseLinear) -> None:
    if not module.weight.requires_grad:
        raise ValueError(
            f"{_SCHEDULE}: expected the weight of {name} to require gradients, which say where blocks are missing, but "
            "it is frozen (requires_grad=False): schedule a part of the model that has no frozen ones"
        )


def _has_ranks() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


def _averaged(tensor: Tensor, group: Any) -> Tensor:
    """Over all ranks, if there are several."""
    if _has_ranks():
        torch.distributed.all_reduce(tensor, group=group)
        tensor /= torch.distributed.get_world_size(group)
    return tensor
