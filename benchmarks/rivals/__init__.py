"""What torch_slang is compared with: CUDA and Triton as an expert writes them by hand, and a C++ operator."""
