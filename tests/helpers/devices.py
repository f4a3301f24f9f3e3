"""The devices that tests run on: "cuda" is skipped without a GPU, unless TORCH_SLANG_REQUIRE_CUDA=1 wants one."""

import os
import random
import time
from collections.abc import Callable

import pytest
import torch

_REQUIRED = os.environ.get("TORCH_SLANG_REQUIRE_CUDA") == "1"
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available() and not _REQUIRED, reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
OUT_OF_MEMORY = "CUDA_ERROR_OUT_OF_MEMORY"


def with_memory_for_frames(run: Callable[[], None], attempts: int = 20) -> None:
    """A frame of 100 KB a thread takes 27 GB of an H100 while a kernel runs: workers of one GPU wait for each other."""
    for attempt in range(attempts):
        try:
            run()
            return
        except RuntimeError as error:
            if OUT_OF_MEMORY not in str(error) or attempt == attempts - 1:
                raise
            time.sleep(0.5 + random.random())
