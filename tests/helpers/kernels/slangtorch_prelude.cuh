// What slangtorch_prelude.slang asks for.
__device__ float offset_from_header(float v) { return v + 2.0f; }
