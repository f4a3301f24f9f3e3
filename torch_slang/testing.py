"""Checks of an operator beyond PyTorch's own.

``torch.library.opcheck`` and ``torch.autograd.gradcheck`` run an operator on the arguments they are given and on
contiguous gradients. Training does more: gradients arrive expanded, arguments are views, some parameters are frozen,
some results are unused. :func:`check` runs both and then these.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from torch.autograd import forward_ad, gradcheck, gradgradcheck

from torch_slang import audit
from torch_slang._descriptor import describe
from torch_slang._module import Module, members_of
from torch_slang.checks.arguments import UnknownShapeError, draw_arguments, float64_is_allowed
from torch_slang.checks.report import Finding, Report
from torch_slang.checks.vmap import check_vmap, has_batching_rule
from torch_slang.functions.function import Function
from torch_slang.kernels.kernel import Kernel

__all__ = ["Finding", "Report", "check"]

_ALL_SUBSETS = 4  # of so many arguments or results; of more, one alone and all but one


def check(
    op: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    reference: Callable[..., Any] | None = None,
    gradcheck_dtype: torch.dtype | None = torch.float64,
    nondet_tol: float = 0.0,
    empty: bool = True,
    vmap: bool = True,
    order: int = 2,
    rtol: float | None = None,
    atol: float | None = None,
    device: torch.device | str = "cpu",
) -> Report:
    """Raises an error if an operator misbehaves; ``args`` and ``kwargs`` are one good call of it.

    Gradients are checked of the tensors that require grad. Small tensors whose dimensions have different sizes find the
    most. The checks:

    - ``reference`` has the same results and gradients, in the arguments' dtype
    - a call and its backward change nothing that the caller owns, by one bit
    - strided, misaligned and expanded arguments and output gradients give what contiguous ones give
    - on the meta device, results and gradients have their real shapes, strides and dtypes; so have those of empty
      tensors, made by taking every dimension of one size as 0 wherever the operator's shapes allow it
    - with any choice of arguments frozen, the others keep their gradients
    - an undefined gradient of one of several results counts as zeros
    - ``torch.autograd.gradcheck``: finite differences, with the floating-point tensors in ``gradcheck_dtype``; of the
      backward (``gradgradcheck``) and in forward mode too, and both batched by vmap
    - under ``torch.vmap``, results and gradients are those of a loop over the samples, whatever is mapped over: of
      operators that have a batching rule, as all of torch_slang's have
    - an audit of the derivatives, whatever ``torch_slang.audit.mode()`` is but ``"off"``
    - ``torch.library.opcheck``: schema, autograd registration, fake tensors, AOTAutograd

    Args:
        op: ``torch.ops.slang.name``, its overload, or a kernel or function of a loaded module. Or a whole module: all
            its operators are checked, with arguments drawn from their shapes (``args`` must be left out).
        reference: plain torch; it takes the arguments in the order of the operator's schema.
        gradcheck_dtype: None leaves finite differences out, for kernels that take only narrower types.
        nondet_tol: how far two runs may differ where sums have no fixed order, as in gradcheck.
        empty: False leaves out empty tensors, for kernels that find their elements by an index in another tensor.
        vmap: False leaves out torch.vmap, for operators that are refused under it.
        order: 1 leaves out the double backward, forward mode and batched gradients.
        rtol, atol: of comparisons; by default those of ``torch.testing.assert_close`` for the dtype.
        device: where the arguments of a module's operators are drawn.

    Returns:
        A report of what passed, and of what the operator refuses (a double backward, forward mode, vmap) with its
        reason. ``print`` shows it as a table.

    Raises:
        The error of the first check that failed, after all have run; the report is among its notes.
    """
    report = Report()
    options = _Options(reference, gradcheck_dtype, nondet_tol, empty, vmap, order, rtol, atol)
    with _audits_first():
        if isinstance(op, Module):
            if args or kwargs or reference is not None:
                raise TypeError(
                    "torch_slang.testing.check: a module's operators draw their arguments; check one with args"
                )
            errors = _check_module(op, options, report, device)
        else:
            errors = _check_one(*_overload_and_values(op, args, dict(kwargs or {})), options, report)
    if errors:
        errors[0].add_note(str(report))
        raise errors[0]
    return report


@contextlib.contextmanager
def _audits_first() -> Iterator[None]:
    before = audit.mode()
    if before != "off":
        audit.mode("first")
    try:
        yield
    finally:
        audit.mode(before)


@dataclass(frozen=True)
class _Options:
    reference: Callable[..., Any] | None
    gradcheck_dtype: torch.dtype | None
    nondet_tol: float
    empty: bool
    vmap: bool
    order: int
    rtol: float | None
    atol: float | None


def _check_module(module: Module, options: _Options, report: Report, device: torch.device | str) -> list[Exception]:
    errors: list[Exception] = []
    members = members_of(module)
    for name, callee in members.callees().items():
        full_name = f"{module.namespace}.{name}"
        about = describe(members.handle, name)
        try:
            values = draw_arguments(about, device)
            overload, values = _overload_and_values(callee.op, values, {})
            overload(*(v.detach() if isinstance(v, Tensor) else v for v in values))
        except (UnknownShapeError, RuntimeError) as error:
            report.findings.append(Finding(full_name, "arguments", "refused", f"give some to check(op, args): {error}"))
            continue
        fitting = options if float64_is_allowed(about) else replace(options, gradcheck_dtype=None)
        errors += _check_one(overload, values, fitting, report)
    return errors


def _check_one(op: Any, values: list[Any], options: _Options, report: Report) -> list[Exception]:
    """The errors of the checks that failed."""
    checker = _Checker(op, values, options.rtol, options.atol)
    errors: list[Exception] = []

    def run(check: str, function: Callable[[], object], *, may_be_refused: bool = False) -> None:
        error = report.run(str(op), check, function, may_be_refused=may_be_refused)
        if error is not None:
            errors.append(error)

    reference, dtype = options.reference, options.gradcheck_dtype
    if reference is not None:
        run("the reference's results and gradients", lambda: checker.agrees_with(reference))
    run("the caller's memory", checker.leaves_the_callers_memory_alone)
    run("layouts of arguments", checker.takes_arguments_of_any_layout)
    run("the meta device", checker.foretells_shapes)
    if options.empty:
        run("empty tensors", lambda: checker.takes_empty_tensors(reference))
    if checker.wanted:
        run("layouts of gradients", checker.takes_gradients_of_any_layout)
        run("frozen arguments", checker.takes_frozen_arguments)
        run("undefined gradients", checker.takes_undefined_gradients)
        if dtype is not None:
            for check, derivative in _DERIVATIVES.items():
                if check == _BACKWARD or options.order > 1:
                    run(
                        check,
                        lambda derivative=derivative: checker.matches_finite_differences(  # type: ignore[misc]
                            derivative, dtype, options.nondet_tol
                        ),
                        may_be_refused=check != _BACKWARD,
                    )
    run("opcheck", lambda: checker.passes_opcheck(options.rtol, options.atol))
    if options.vmap and has_batching_rule(op):
        run("vmap", lambda: check_vmap(op, checker.values, rtol=options.rtol, atol=options.atol), may_be_refused=True)
    report.audits[str(op)] = [one for one in audit.report() if one.name == op._schema.name]
    return errors


_BACKWARD = "backward"
# PyTorch's checks by finite differences.
_DERIVATIVES: dict[str, Callable[..., bool]] = {
    _BACKWARD: functools.partial(gradcheck, check_undefined_grad=True),
    "double backward": functools.partial(gradgradcheck, check_undefined_grad=True),
    "forward mode": functools.partial(
        gradcheck, check_backward_ad=False, check_forward_ad=True, check_undefined_grad=False
    ),
    "batched gradients": functools.partial(gradcheck, check_batched_grad=True, check_undefined_grad=False),
    "batched tangents": functools.partial(
        gradcheck,
        check_backward_ad=False,
        check_forward_ad=True,
        check_batched_forward_grad=True,
        check_undefined_grad=False,
    ),
}
_OF_TANGENTS = (_DERIVATIVES["forward mode"], _DERIVATIVES["batched tangents"])


def _overload_and_values(op: Any, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[Any, list[Any]]:
    """The overload, and the call's arguments in the order of its schema."""
    if isinstance(op, Kernel | Function):
        args, kwargs = (), op.flatten(*args, **kwargs)
        op = op.op
    overload = getattr(op, "default", op)
    arguments = overload._schema.arguments
    if len(args) > len(arguments):
        raise TypeError(f"{overload} takes {len(arguments)} arguments, but got {len(args)}")
    given = {**{argument.name: value for argument, value in zip(arguments, args, strict=False)}, **kwargs}
    missing = [a.name for a in arguments if a.name not in given and not a.has_default_value()]
    unknown = [name for name in given if name not in {a.name for a in arguments}]
    if missing or unknown:
        raise TypeError(f"{overload}: arguments missing: {missing}, unknown: {unknown}")
    return overload, [given.get(a.name, a.default_value) for a in arguments]


class _Checker:
    def __init__(self, op: Any, values: list[Any], rtol: float | None, atol: float | None) -> None:
        self.op = op
        self.names = [argument.name for argument in op._schema.arguments]
        self.values = values
        self.rtol, self.atol = rtol, atol
        self.tensors = [i for i, value in enumerate(values) if isinstance(value, Tensor)]
        self.wanted = [i for i in self.tensors if values[i].requires_grad]

    def agrees_with(self, reference: Callable[..., Any]) -> None:
        values = self._leaves()
        self._same(
            "differs from the reference", self._outcome(self.op, values), self._outcome(reference, self._leaves())
        )

    def leaves_the_callers_memory_alone(self) -> None:
        values = self._leaves()
        tensors = {self.names[i]: values[i] for i in self.tensors}
        before = {name: (tensor._version, _bits(tensor)) for name, tensor in tensors.items()}
        results = _results(self.op(*values))
        tensors |= {f"result {i}": result for i, result in enumerate(results) if result is not None}
        before |= {name: (tensor._version, _bits(tensor)) for name, tensor in tensors.items() if name not in before}
        if self.wanted:
            grads = _random_gradients(results)
            tensors |= {f"gradient of result {i}": grad for i, grad in enumerate(grads) if grad is not None}
            before |= {name: (tensor._version, _bits(tensor)) for name, tensor in tensors.items() if name not in before}
            _differentiate(results, [values[i] for i in self.wanted], grads)
        for name, (version, bits) in before.items():
            if tensors[name]._version != version or not torch.equal(_bits(tensors[name]), bits):
                self._fail(f"changes {name}")

    def takes_arguments_of_any_layout(self) -> None:
        for chosen in [*([i] for i in self.tensors), self.tensors]:
            for layout, arrange in _LAYOUTS.items():
                arranged, packed = self._leaves(), self._leaves()
                for i in chosen:
                    arranged[i] = arrange(self.values[i].detach()).requires_grad_(i in self.wanted)
                    packed[i] = arranged[i].detach().clone(memory_format=torch.contiguous_format)
                    packed[i].requires_grad_(i in self.wanted)
                what = f"depends on the layout: {layout} {self._listed(chosen)}"
                self._same(what, self._outcome(self.op, arranged), self._outcome(self.op, packed))

    def takes_gradients_of_any_layout(self) -> None:
        for layout, arrange in _LAYOUTS.items():
            outcomes = []
            for packed in (False, True):
                values = self._leaves()
                results = _results(self.op(*values))
                grads = [None if grad is None else arrange(grad) for grad in _random_gradients(results)]
                if packed:
                    grads = [None if grad is None else grad.contiguous() for grad in grads]
                outcomes.append(_differentiate(results, [values[i] for i in self.wanted], grads))
            self._same(f"depends on the layout of output gradients: {layout}", outcomes[0], outcomes[1])

    def foretells_shapes(self) -> None:
        self._same_form("on the meta device", self._form(self._meta(self._leaves())), self._form(self._leaves()))

    def takes_empty_tensors(self, reference: Callable[..., Any] | None) -> None:
        for size in sorted({size for i in self.tensors for size in self.values[i].shape if size != 0}):
            emptied = self._leaves(lambda tensor, size=size: _without(tensor, size))  # type: ignore[misc]
            try:
                expected = self._form(self._meta(emptied))
            except RuntimeError:
                continue  # the operator's shapes do not allow it
            self._same_form(f"with every dimension of size {size} empty", expected, self._form(emptied))
            if reference is not None:
                what = f"differs from the reference with every dimension of size {size} empty"
                actual, wanted = self._outcome(self.op, emptied), self._outcome(reference, emptied)
                # Some of torch's own backwards give no gradient in the place of zeros, or of one without elements.
                if len(actual) == len(wanted):
                    pairs = zip(actual, wanted, strict=True)
                    wanted = [
                        one if other is None and one is not None and not one.any() else other for one, other in pairs
                    ]
                self._same(what, actual, wanted)

    def takes_frozen_arguments(self) -> None:
        all_gradients = dict(zip(self.wanted, self._gradients(self._leaves(), self.wanted), strict=True))
        for chosen in _proper_subsets(self.wanted):
            expected = [all_gradients[i] for i in chosen]
            thawed = self._leaves()
            for i in self.wanted:
                thawed[i].requires_grad_(i in chosen)
            self._same(f"where only {self._listed(chosen)} require grad", self._gradients(thawed, chosen), expected)
            asked = self._gradients(self._leaves(), chosen)
            self._same(f"where only the gradients of {self._listed(chosen)} are asked for", asked, expected)
        frozen = _results(self.op(*(v.detach() if isinstance(v, Tensor) else v for v in self.values)))
        if any(result is not None and result.requires_grad for result in frozen):
            self._fail("gives a result that requires grad where no argument does")

    def takes_undefined_gradients(self) -> None:
        values = self._leaves()
        results = _results(self.op(*values))
        inputs = [values[i] for i in self.wanted]
        grads = _random_gradients(results)
        for chosen in _proper_subsets([i for i, grad in enumerate(grads) if grad is not None]):
            some = [grad if i in chosen else None for i, grad in enumerate(grads)]
            zeroed = [grad if grad is None or i in chosen else torch.zeros_like(grad) for i, grad in enumerate(grads)]
            self._same(
                f"where only results {chosen} have a gradient",
                _differentiate(results, inputs, some),
                _differentiate(results, inputs, zeroed),
            )

    def matches_finite_differences(
        self, derivative: Callable[..., bool], dtype: torch.dtype, nondet_tol: float
    ) -> None:
        values = self._leaves(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

        def differentiable_results(*inputs: Tensor) -> tuple[Tensor, ...]:
            called = list(values)
            for i, tensor in zip(self.wanted, inputs, strict=True):
                called[i] = tensor
            return tuple(r for r in _results(self.op(*called)) if r is not None and r.is_floating_point())

        inputs = tuple(values[i] for i in self.wanted)
        if derivative in _OF_TANGENTS:
            _refuse_if_without_tangents(differentiable_results, inputs)
        derivative(differentiable_results, inputs, nondet_tol=nondet_tol)

    def passes_opcheck(self, rtol: float | None, atol: float | None) -> None:
        torch.library.opcheck(self.op, tuple(self._leaves()), rtol=rtol, atol=atol)

    def _leaves(self, change: Callable[[Tensor], Tensor] | None = None) -> list[Any]:
        """The arguments as new leaves of autograd's graph, in memory of their own."""
        leaves = list(self.values)
        for i in self.tensors:
            copy = leaves[i].detach().clone()
            leaves[i] = (copy if change is None else change(copy)).detach().requires_grad_(i in self.wanted)
        return leaves

    def _meta(self, values: Iterable[Any]) -> list[Any]:
        return [
            torch.empty_like(v, device="meta").requires_grad_(v.requires_grad) if isinstance(v, Tensor) else v
            for v in values
        ]

    def _outcome(self, function: Callable[..., Any], values: list[Any]) -> list[Tensor | None]:
        """Results, and gradients of the wanted arguments for random gradients of the results."""
        results = _results(function(*values))
        if not self.wanted:
            return results
        return [*results, *_differentiate(results, [values[i] for i in self.wanted], _random_gradients(results))]

    def _gradients(self, values: list[Any], chosen: Iterable[int]) -> list[Tensor | None]:
        results = _results(self.op(*values))
        return _differentiate(results, [values[i] for i in chosen], _random_gradients(results))

    def _form(self, values: list[Any]) -> list[Any]:
        return [
            None if t is None else (tuple(t.shape), tuple(t.stride()), t.dtype, t.requires_grad)
            for t in self._outcome(self.op, values)
        ]

    def _same_form(self, where: str, foretold: list[Any], real: list[Any]) -> None:
        if foretold != real:
            self._fail(f"{where}, results and gradients are foretold as {foretold}, but are {real}")

    def _same(self, what: str, actual: Sequence[Tensor | None], expected: Sequence[Tensor | None]) -> None:
        if len(actual) != len(expected):
            self._fail(f"{what}: {len(actual)} results, but expected {len(expected)}")
        for i, (one, other) in enumerate(zip(actual, expected, strict=True)):
            if (one is None) != (other is None):
                self._fail(f"{what}: result {i} is {_name(one)}, but expected {_name(other)}")
            if one is not None:
                torch.testing.assert_close(
                    one.detach(),
                    other.detach(),  # type: ignore[union-attr]
                    rtol=self.rtol,
                    atol=self.atol,
                    equal_nan=True,
                    msg=lambda text, i=i: f"{self.op}: {what}: result or gradient {i}\n{text}",
                )

    def _listed(self, indices: Iterable[int]) -> str:
        return ", ".join(self.names[i] for i in indices)

    def _fail(self, what: str) -> None:
        raise AssertionError(f"{self.op}: {what}")


def _refuse_if_without_tangents(function: Callable[..., tuple[Tensor, ...]], inputs: tuple[Tensor, ...]) -> None:
    """Some operators drop tangents without an error: PyTorch's custom_op does."""
    with forward_ad.dual_level():
        results = function(*(forward_ad.make_dual(t.detach(), torch.ones_like(t)) for t in inputs))
        if all(forward_ad.unpack_dual(result).tangent is None for result in results):
            raise NotImplementedError("its results have no tangents")


def _results(returned: Any) -> list[Tensor | None]:
    return list(returned) if isinstance(returned, (tuple, list)) else [returned]


def _random_gradients(results: Sequence[Tensor | None]) -> list[Tensor | None]:
    """The same for every call: one for each result that has a gradient."""
    generator = torch.Generator().manual_seed(0)
    grads: list[Tensor | None] = []
    for result in results:
        if result is None or not result.requires_grad:
            grads.append(None)
        elif result.is_meta:
            grads.append(torch.empty_like(result))
        else:
            grad = torch.randn(result.shape, generator=generator, dtype=torch.float64)
            grads.append(grad.to(result.device, result.dtype))
    return grads


def _differentiate(
    results: Sequence[Tensor | None], inputs: list[Tensor], grads: Sequence[Tensor | None]
) -> list[Tensor | None]:
    pairs = [(result, grad) for result, grad in zip(results, grads, strict=True) if grad is not None]
    if not pairs:
        return [None] * len(inputs)
    outputs, given = zip(*pairs, strict=True)
    return list(torch.autograd.grad(outputs, inputs, given, allow_unused=True, retain_graph=True))


def _proper_subsets(items: Sequence[int]) -> Iterator[tuple[int, ...]]:
    every = range(1, len(items))
    for count in every if len(items) <= _ALL_SUBSETS else {1, len(items) - 1}:
        yield from itertools.combinations(items, count)


def _strided(tensor: Tensor) -> Tensor:
    """Every second element of each dimension."""
    room = tensor.new_empty([2 * size for size in tensor.shape] or [2])
    view = room[tuple(slice(None, None, 2) for _ in tensor.shape)] if tensor.dim() else room[1]
    return view.copy_(tensor)


def _transposed(tensor: Tensor) -> Tensor:
    order = tuple(reversed(range(tensor.dim())))
    return tensor.permute(order).contiguous().permute(order)


def _misaligned(tensor: Tensor) -> Tensor:
    """One element after where an allocation starts."""
    return tensor.new_empty(tensor.numel() + 1)[1:].view(tensor.shape).copy_(tensor)


def _expanded(tensor: Tensor) -> Tensor:
    """One row for all."""
    return tensor[:1].expand(tensor.shape) if tensor.dim() else tensor


def _spread(tensor: Tensor) -> Tensor:
    """One element for all, as `sum` gives its argument's gradient."""
    return tensor.flatten()[:1].view([1] * tensor.dim()).expand(tensor.shape) if tensor.numel() else tensor


_LAYOUTS: dict[str, Callable[[Tensor], Tensor]] = {
    "strided": _strided,
    "transposed": _transposed,
    "misaligned": _misaligned,
    "expanded": _expanded,
    "spread": _spread,
}


def _without(tensor: Tensor, size: int) -> Tensor:
    return tensor.new_empty([0 if own == size else own for own in tensor.shape])


def _bits(tensor: Tensor) -> Tensor:
    return tensor.detach().clone(memory_format=torch.contiguous_format).view(-1).view(torch.uint8)


def _name(tensor: Tensor | None) -> str:
    return "undefined" if tensor is None else f"a tensor of shape {list(tensor.shape)}"
