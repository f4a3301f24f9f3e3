"""How a kernel was compiled, and which statements hinder it: the result of :meth:`torch_slang.Module.explain`."""

from __future__ import annotations

import linecache
from dataclasses import dataclass
from typing import Any

from torch_slang.audit import Finding, findings


@dataclass(frozen=True)
class Gradient:
    """How a backward gathers one gradient.

    ``kept``: ``"registers"``, each thread has elements of its own, stored plainly and once; ``"atomics"``, added in
    memory; ``"replicas"`` or ``"records"``, as the view's type says; ``"parts"``, a value's sums over waves or blocks;
    ``"memory"``, plain additions to memory; ``"unwanted"``. Of a plain function: ``"stored"``, each element once;
    ``"stored, then summed"`` over the dimensions in which the argument was broadcast; ``"parts"`` (``"parts of rows"``,
    ``"parts of columns"``), sums that the loop makes, which are then added up; ``"unwanted"``. Of a tensor that it sees
    whole as of a kernel's view, or ``"sums, then atomics"`` (``"replicas"``), each thread's sums of all elements.
    ``summed_along``: the axis (``"y"``) of the launch whose threads add up in registers what then goes to memory, or
    empty.
    """

    argument: str
    kept: str
    summed_along: str
    why: str
    places: tuple[tuple[str, int], ...]

    def __str__(self) -> str:
        text = f"gradient of {self.argument}: {self.kept}"
        if self.summed_along:
            text += f" of sums that threads along {self.summed_along} made in registers"
        if self.why:
            text += f", since {self.why}"
        for file, line in self.places:
            text += f"\n    {file}:{line}: {linecache.getline(file, line).strip()}"
        return text


@dataclass(frozen=True)
class CompiledKernel:
    """One compiled kernel of an operator.

    ``values``: those of tuned variables, in a variant that was chosen.
    ``virtual_threads``: threads of the launch that a GPU thread runs, along ``axis``; ``lanes`` of them follow each
    other along x and load and store vectors together; ``measured``: for its last launch, they were measured
    (:func:`torch_slang.tuning.choices` has the times). ``registers``: of a GPU thread. ``block``: the threads a
    block of the only launches that it serves, where registers do not suffice for a kernel for any block; else empty.
    ``threads`` and ``bytes``: of its last launch, bytes those of its tensors, each element once.
    ``wave_sums``: lanes of a GPU's wave that add to the same elements of gradients at the same time sum first.
    ``tiled_waves``: its waves are 8 x 4 threads of a block, not threads that follow each other along x.
    ``loop``: of a plain function, over ``"elements"`` or, where strides or sums of rows and columns matter, ``"rows"``;
    ``lanes`` are then the elements that are loaded and stored together, and ``threads`` the last call's elements.
    """

    kind: str
    values: str
    types: tuple[str, ...]
    device: str
    loop: str
    registers: int
    block: tuple[int, ...]
    virtual_threads: int
    measured: bool
    lanes: int
    axis: str
    has_bounds: bool
    wave_sums: bool
    tiled_waves: bool
    meets: bool
    independent: bool
    strided: tuple[str, ...]
    threads: int
    bytes: int
    gradients: tuple[Gradient, ...]

    def __str__(self) -> str:
        types = f" of {', '.join(self.types)}" if self.types else ""
        values = f" with {self.values}" if self.values else ""
        lines = [f"{self.kind}{types}{values} on {self.device}: {self._what()}"]
        if self.threads and self.loop:
            lines.append(f"last call: {self.threads} elements")
        elif self.threads:
            lines.append(f"last launch: {self.threads} threads, {self.bytes} bytes of tensors")
        if self.strided:
            lines.append(f"read with their strides: {', '.join(self.strided)}")
        if not self.independent:
            lines.append("arguments share memory: no load is moved over a store")
        if self.wave_sums:
            lines.append("lanes of a wave that add to the same elements sum first")
        if self.tiled_waves:
            lines.append("a wave is a tile of 8 x 4 threads")
        lines += map(str, self.gradients)
        return "\n  ".join(lines)

    def _what(self) -> str:
        if self.loop:
            lanes = f", {self.lanes} at a time" if self.lanes > 1 else ""
            rows = "rows of elements" if self.loop == "rows" else "elements"
            return f"a loop over {rows}{lanes}" + (f"; {self.registers} registers" if self.registers else "")
        if not self.registers:
            return "fibers, since its threads meet" if self.meets else "a loop over threads"
        if self.meets:
            threads = "a virtual thread each, since its threads meet"
        elif self.virtual_threads == 1 and self.measured:
            threads = "a virtual thread each, as measured"
        elif self.virtual_threads == 1:
            threads = "a virtual thread each, since the launch is small or its threads read much"
        else:
            bounds = "bounds known in full tiles" if self.has_bounds else "bounds not known"
            measured = " as measured" if self.measured else ""
            threads = f"{self.virtual_threads} virtual threads{measured}, {self._along()}, {bounds}"
        block = f", for blocks of {list(self.block)} alone" if self.block else ""
        return f"{threads}; {self.registers} registers{block}"

    def _along(self) -> str:
        groups = self.virtual_threads // self.lanes
        lanes = f"{self.lanes} together along x in vectors" if self.lanes > 1 else ""
        along = f"{groups} along {self.axis}" if groups > 1 else ""
        return " and ".join(filter(None, [lanes, along]))


class Explanation(tuple[CompiledKernel, ...]):
    """The compiled kernels of one operator, and what audits found of its derivatives; ``print`` shows both as text."""

    audits: tuple[Finding, ...] = ()

    def __str__(self) -> str:
        if not self:
            return "nothing is compiled yet: call the operator first"
        return "\n".join([*map(str, self), *map(str, self.audits)])


def explanation(kernels: list[dict[str, Any]], audits: list[dict[str, Any]]) -> Explanation:
    """From what the native module tells."""
    made = Explanation(
        CompiledKernel(**{**kernel, "gradients": tuple(Gradient(**gradient) for gradient in kernel["gradients"])})
        for kernel in kernels
    )
    made.audits = tuple(findings(audits))
    return made
