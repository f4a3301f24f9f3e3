// A pass: refuses texts that read the tangents of a struct behind an interface from the wrong place.
#pragma once

#include "compiler/ctext/emitted_code.h"

namespace torch_slang {

// Note [misplaced tangents]
//   A variable of an interface holds its struct in an `AnyValue16`, as large as the largest struct that has the interface. In forward mode
//   Slang packs two of these one behind the other, the value and the tangent (`packAnyValue32(Tuple *)`), and unpacks them as one struct of
//   both (`DiffPair_A unpackAnyValue32(...)`), whose tangent begins where the value ends. Of a struct that is smaller than the largest
//   that is inside the first part: the tangent is what fills it up, 0. So the first word of each such `differential` is compared with
//   the size of the first part. Words cannot be exchanged instead: numbers of 8 and of 4 bytes are aligned in another way.
//   Throws RefusedText.
void refuse_misplaced_tangents(const EmittedCode& code);

}  // namespace torch_slang
