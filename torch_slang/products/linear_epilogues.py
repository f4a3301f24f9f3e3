"""The epilogues of linear layers, dense and block-sparse: functions of ``ops/epilogues/linear.slang``, by name."""

from __future__ import annotations

from typing import Literal, get_args

__all__ = ["LinearEpilogue", "expect_epilogue", "operator_name"]

LinearEpilogue = Literal["relu", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh"]


def expect_epilogue(who: str, epilogue: LinearEpilogue | None, for_others: str) -> None:
    """Raises ValueError for an unknown name. `for_others`: what takes functions of the user's."""
    known = get_args(LinearEpilogue)
    if epilogue is not None and epilogue not in known:
        raise ValueError(
            f"{who}: expected epilogue to be None or one of {', '.join(known)}, but got {epilogue!r}; {for_others} "
            "takes functions of yours"
        )


def operator_name(epilogue: LinearEpilogue | None, bias: bool) -> str:
    """What operators with an epilogue call it."""
    return "_".join(["linear", *([epilogue] if epilogue else []), *(["bias"] if bias else [])])
