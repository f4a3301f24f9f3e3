// The instructions of Slang's that are looked for: the numbers that it keeps from version to version
// (slang-ir-insts-stable-names.lua).
#pragma once

#include <cstdint>

namespace torch_slang {

enum Opcode : int32_t {
  kInt8Type = 4,
  kUInt64Type = 11,
  kHalf = 12,
  kFloat = 13,
  kDouble = 14,
  kVectorType = 31,
  kMatrixType = 32,
  kAttributedType = 34,
  kRateQualifiedType = 52,
  kFunction = 132,
  kGeneric = 133,
  kBlock = 145,
  kIntegerConstant = 147,
  kFloatConstant = 148,
  kStringConstant = 151,
  kBlobConstant = 152,
  kSpecialize = 166,
  kLookupWitness = 167,
  kMakeMatrixFromScalar = 175,
  kCall = 205,
  kParameter = 218,
  kMakeVectorFromScalar = 276,
  kReturn = 280,
  kLoop = 283,
  kAdd = 302,
  kSub = 303,
  kMul = 304,
  kDiv = 305,
  kFRem = 307,
  kComplement = 323,
  kImport = 442,
  kExport = 443,
  kConstructor = 493,
  kDebugLocation = 538,
  kBuiltinCast = 555,
  kDebugLine = 639,
  kAnnotation = 807,
};

}  // namespace torch_slang
