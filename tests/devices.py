"""The devices that tests run on: "cuda" is skipped without a GPU, unless TORCH_SLANG_REQUIRE_CUDA=1 wants one."""

import os

import pytest
import torch

_REQUIRED = os.environ.get("TORCH_SLANG_REQUIRE_CUDA") == "1"
needs_cuda = pytest.mark.skipif(not torch.cuda.is_available() and not _REQUIRED, reason="no GPU")
DEVICES = ["cpu", pytest.param("cuda", marks=needs_cuda)]
