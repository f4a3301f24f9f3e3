// Attributes that load(annotations=) gives to kernels whose source must stay as it is: what [Shape], [Out], [Fill], [In],
// [LaunchTotal] and [BlockSize] would say.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "program/program.h"

namespace torch_slang {

// `annotations` is JSON: {"kernel": {"x": "Shape(N)", "y": "Out(N), Fill(0)", "launch_total": ["N"], "block_size": [256]}}.
// Parameters are named as in the source ("x", "cfg.gain") or as the operator names them ("cfg_gain"). Replaces what the
// source says. A block size may be an expression of integer defines, `constants`. Throws c10::Error that names the kernel,
// the parameter and the fault.
std::vector<Function> annotate(std::vector<Function> functions, const std::string& annotations,
                               const std::vector<std::pair<std::string, int64_t>>& constants = {});

}  // namespace torch_slang
