// What texts of elementwise functions have beyond prelude.h.
#pragma once

#include "prelude/map_device.h"
#include "prelude/map_host.h"
#include "prelude/map_sums.h"
