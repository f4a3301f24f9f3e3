// The whole prelude: all that stands in front of emitted text. Before it come abi.h, the TSL_ definitions and TslArgs
// (backend/source.h).
#pragma once

#include "prelude/target.h"
#include "prelude/half.h"
#include "prelude/types.h"
#include "prelude/vectors.h"
#include "prelude/matrix.h"
#include "prelude/components.h"
#include "prelude/math_scalar.h"
#include "prelude/math_half.h"
#include "prelude/integers.h"
#include "prelude/atomics.h"
#include "prelude/mark.h"
#include "prelude/views.h"
#include "prelude/gradients.h"
#include "prelude/wave_operators.h"
#include "prelude/kernel_base.h"
#include "prelude/checks.h"
#include "prelude/host_loop.h"
#include "prelude/host_meet.h"
#include "prelude/waves.h"
#include "prelude/map.h"
