"""Where SlangPy has its function that makes a device."""

from torch_slang.slangpy._module import create_torch_device

__all__ = ["create_torch_device"]
