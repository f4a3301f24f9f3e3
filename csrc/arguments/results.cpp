#include "arguments/results.h"

namespace torch_slang {
namespace {

thread_local int spoiled_depth = 0;

}  // namespace

SpoiledOutputs::SpoiledOutputs() { ++spoiled_depth; }
SpoiledOutputs::~SpoiledOutputs() { --spoiled_depth; }
bool are_outputs_spoiled() { return spoiled_depth > 0; }

}  // namespace torch_slang
