#!/usr/bin/env bash
# On a machine with a GPU and no network: build with what scripts/make_sdk.py collected in .sdk, run every test with no
# skip for want of a GPU, the sanitizers of CUDA's own on kernels that share memory, and the benchmarks. Logs go to $OUT.
set -uo pipefail
cd "$(dirname "$0")/.."
export SLANG_DIR=$PWD/.sdk BOOST_DIR=$PWD/.sdk/include PYTHONPATH=$PWD:/tmp/torch_slang_site
export MAX_JOBS=${MAX_JOBS:-$(nproc)} PYTHONUNBUFFERED=1 TORCH_SLANG_REQUIRE_CUDA=1
OUT=${OUT:-out}
mkdir -p "$OUT"

python3 setup.py --quiet build_ext --inplace > "$OUT/build.log" 2>&1 || { grep -E "error|FAILED" "$OUT/build.log" | head -30; exit 1; }
python3 setup.py --quiet build_cpp_tests >> "$OUT/build.log" 2>&1 || { tail -20 "$OUT/build.log"; exit 1; }
echo "built after $SECONDS s"

TORCH_SLANG_CPP_TESTS=$(echo "$PWD"/build/*/tests) timeout "${TEST_SECONDS:-300}" \
  python3 -m pytest -n "${WORKERS:-12}" -q -p no:benchmark tests > "$OUT/pytest.log" 2>&1
grep -E "^(FAILED|ERROR) |passed|failed" "$OUT/pytest.log" | cut -c1-250 | tail -40
echo "tested after $SECONDS s"

for tool in memcheck racecheck; do
  timeout 150 compute-sanitizer --tool $tool --error-exitcode 9 python3 scripts/gpu_sanitize.py > "$OUT/$tool.log" 2>&1
  echo "$tool: exit $?; $(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY|values' "$OUT/$tool.log" | tr '\n' ' ')"
done
echo "CUDA's sanitizers after $SECONDS s"

# The C++ tests under address and undefined-behaviour checks, GPU tests included. The driver needs the shadow gap, and
# leaks on purpose; the sanitizer's dlopen does not look where the program says.
TORCH_LIBRARIES=$(dirname "$(python3 cmake/locate.py torch)")/torch/lib
export ASAN_OPTIONS=protect_shadow_gap=0:detect_leaks=0
TORCH_SLANG_BUILD_DIR=build/sanitize TORCH_SLANG_CMAKE_ARGS=-DTORCH_SLANG_SANITIZE=ON \
  timeout 200 python3 setup.py --quiet build_cpp_tests > "$OUT/sanitize.log" 2>&1 || tail -20 "$OUT/sanitize.log"
(cd build/sanitize && LD_LIBRARY_PATH=$TORCH_LIBRARIES timeout 150 ctest -j 8 --output-on-failure) >> "$OUT/sanitize.log" 2>&1
grep -E "Failed|tests passed|ERROR: |runtime error" "$OUT/sanitize.log" | head -20
unset ASAN_OPTIONS
echo "sanitized after $SECONDS s"

timeout 200 python3 -m benchmarks 2>&1 | tee "$OUT/bench.log" | tail -30
# A checkout of slang-torch in .sdk/st: its own tests and examples through the drop-in.
if [ -d .sdk/st ]; then
  timeout 200 python3 scripts/slangtorch_evidence.py .sdk/st --device cuda > "$OUT/evidence.log" 2>&1
  grep -E "ran:|failed:" "$OUT/evidence.log" | cut -c1-150
fi
for example in gaussian_image_fit photometric forces pinn; do
  timeout 60 python3 examples/$example/fit.py 2>&1 | tail -1 | tr '\r' '\n' | tail -1
done
echo "done after $SECONDS s"
