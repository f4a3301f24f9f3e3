// What the run-time offers to the C++ of [TorchEntryPoint] functions. The run-time includes this header, and its text also
// stands at the top of every such source, so both sides agree by construction. Plain C++ without includes.
//
// Note [host functions]
//   Slang emits the function as C++ against torch's headers; host_function.h stands in for those, and everything it does
//   with a tensor is a call through TslHostTable. A tensor is an opaque pointer that owns one reference. A call that returns
//   a status returns 0, or has recorded an error in `call`; the text then unwinds to its entry, which returns 1, and the
//   run-time throws the recorded error. So no exception ever crosses from one compiler's code into the other's.
//   Arguments, results and the arguments of a dispatch are flat lists of components in the order of declaration: a tensor,
//   or one number of a scalar, vector, matrix or array, row by row.
#pragma once

// Those element types that Slang's emitted text can name, with torch_slang::ElementType's numbers.
enum TslElementType {
  kTslFloat16 = 0,
  kTslBFloat16 = 1,
  kTslFloat32 = 2,
  kTslFloat64 = 3,
  kTslInt8 = 4,
  kTslInt16 = 5,
  kTslInt32 = 6,
  kTslInt64 = 7,
  kTslUInt8 = 8,
  kTslBool = 12,
};

enum TslComponentKind { kTslTensor, kTslReal, kTslInteger };

struct TslComponent {
  int kind;
  union {
    void* tensor;
    double real;  // exact for every floating-point type
    long long integer;  // of every integer type and bool; the bits of an unsigned 64-bit one
  };
};

struct TslHostTable {
  void (*retain)(void* tensor);
  void (*release)(void* tensor);
  // `type`: a TslElementType. Results own one reference.
  int (*empty)(void* call, const long long* sizes, int count, int type, void** result);
  int (*empty_like)(void* call, void* other, int type, void** result);
  int (*fill)(void* call, void* tensor, const TslComponent* value, int count);  // `count` components of each element
  int (*dims)(void* call, void* tensor, long long* result);
  int (*size)(void* call, void* tensor, long long dimension, long long* result);
  int (*stride)(void* call, void* tensor, long long dimension, long long* result);  // in elements
  int (*data)(void* call, void* tensor, void** result);
  int (*launch)(void* call, const char* kernel, const unsigned* grid, const unsigned* block,
                const TslComponent* arguments, int count);
  int (*synchronize)(void* call);
  int (*may_go_on)(void* call);  // asked by loops, if they poll: Note [stopped launches] in polls.h
  int (*refuse_index)(void* call, int kind, long long index, long long count);  // `kind`: a tsl::LocalKind
};

// The entry point of each function: 0; 1 if an error was recorded; 2 if something else was thrown.
typedef int TslHostEntry(const TslHostTable* table, void* call, const TslComponent* arguments, TslComponent* results);
