// The full source text of a kernel, the same for both targets but for the launcher. The prelude's files are embedded in
// the binary; an `#include "name.h"` among them is replaced by that file's text where it is met first, so that a source
// needs no include path.
//
// Layout, each part with a #line of its own so that diagnostics name it:
//     abi.h
//     #define TSL_VIEW_COUNT, TSL_SLOT_COUNT, TSL_DIM_COUNT, TSL_GRADIENT_SCALARS, TSL_INDEPENDENT, TSL_CHECKS, TSL_POLLS, TSL_FAST_MATH, TSL_BARRIERS, TSL_WAVES, TSL_SCATTERED_WAVES,
//     TSL_VALUE_SUMS, TSL_SAMPLE_DIMS, TSL_TANGENTS, TSL_BLOCK, TSL_LOCATE
//     struct TslArgs
//     prelude.h, mma.h           tsl::KernelBase<Own>, TensorView, all that emitted text may name; declares tsl_make_view
//     text.file_scope
//     tsl_make_view, struct Own
//     struct Kernel : tsl::KernelBase<Own> { text.body };
//     launcher                   the backend's
#pragma once

#include <string>
#include <string_view>

#include "common/quoted_files.h"
#include "source/kernel_source.h"

namespace torch_slang {

std::string assemble_source(const KernelSource& source, std::string_view launcher);

// The files that messages about this source may quote.
UsersFiles users_files(const KernelSource& source);

// A file of the prelude with those that it includes: "host_function.h".
std::string prelude_file(std::string_view name);

// Size of TslArgs, in bytes, without the maps of a kernel that multiplies matrices: what launch() must be given at least.
size_t argument_block_size(const KernelSource& source);

// Where a GPU's argument block has the steps of its samples, [pointers, dimensions] of int64, and behind them the dimensions' sizes and
// the number of the launch's first sample, of 32 bits.
size_t sample_steps_offset(const KernelSource& source);

// Whether blocks multiply matrices: Note [matrix kernels] in prelude/mma.h. A GPU's argument block then has, from
// matrix_layouts_offset on, a word that says whether all views that it fetches by have a map, and a TslMatrixLayout for each
// view; from matrix_maps_offset on, a TslMatrixMap for each.
bool multiplies(const DeviceText& text);
bool multiplies(const KernelSource& source);
size_t matrix_layouts_offset(const KernelSource& source);
size_t matrix_maps_offset(const KernelSource& source);

}  // namespace torch_slang
