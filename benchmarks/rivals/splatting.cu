// Draws splats, and their gradients, as the best renderers that are written by hand do: a block for a tile of 16 x 16
// pixels, its splats staged in shared memory, and a backward that walks from the last splat to the first, undoes the
// light step by step, and sums gradients over each warp by shuffles before one lane adds them.
// The splats are rows of nine: centre, opacity, conic, colour; `ends` are where each tile's list ends.

constexpr int SIDE = 16;
constexpr int THREADS = SIDE * SIDE;
constexpr float LEAST_OPACITY = 1.0f / 255, MOST_OPACITY = 0.99f, LEAST_LIGHT = 1e-4f;

struct Staged {
  float4 shape[THREADS];  // centre, opacity, conic.x
  float4 color[THREADS];  // conic.y, conic.z, red, green
  float blue[THREADS];
  int number[THREADS];
};

struct Tile {
  int column, row, thread;
  long long first, last;
  bool inside;
};

static __device__ __forceinline__ Tile tile_of(const long long* ends, int width, int height) {
  Tile tile;
  tile.column = blockIdx.x * SIDE + threadIdx.x;
  tile.row = blockIdx.y * SIDE + threadIdx.y;
  tile.thread = threadIdx.y * SIDE + threadIdx.x;
  const int number = blockIdx.y * gridDim.x + blockIdx.x;
  tile.first = number > 0 ? ends[number - 1] : 0;
  tile.last = ends[number];
  tile.inside = tile.column < width && tile.row < height;
  return tile;
}

static __device__ __forceinline__ void stage(Staged& staged, int place, const float* splats, int number) {
  const float* row = splats + 9ll * number;
  staged.shape[place] = make_float4(row[0], row[1], row[2], row[3]);
  staged.color[place] = make_float4(row[4], row[5], row[6], row[7]);
  staged.blue[place] = row[8];
  staged.number[place] = number;
}

struct Seen {
  float dx, dy, falloff, alpha;
};

static __device__ __forceinline__ Seen see(float4 shape, float4 color, float x, float y) {
  Seen seen;
  seen.dx = shape.x - x;
  seen.dy = shape.y - y;
  const float power = 0.5f * (shape.w * seen.dx * seen.dx + color.y * seen.dy * seen.dy) + color.x * seen.dx * seen.dy;
  seen.falloff = __expf(-power);
  seen.alpha = fminf(MOST_OPACITY, shape.z * seen.falloff);
  return seen;
}

// `counts`: after how many of the tile's splats a pixel has ended, counting the last that it took.
extern "C" __global__ void __launch_bounds__(THREADS)
    forward(const float* splats, const int* numbers, const long long* ends, const float* background, float4* image,
            int* counts, int width, int height) {
  __shared__ Staged staged;
  const Tile tile = tile_of(ends, width, height);
  const float x = tile.column + 0.5f, y = tile.row + 0.5f;
  float light = 1.0f, red = 0.0f, green = 0.0f, blue = 0.0f;
  int count = 0;
  bool done = !tile.inside;
  for (long long first = tile.first; first < tile.last; first += THREADS) {
    if (__syncthreads_count(done) == THREADS) break;
    if (first + tile.thread < tile.last) stage(staged, tile.thread, splats, numbers[first + tile.thread]);
    __syncthreads();
    const int here = int(min((long long)THREADS, tile.last - first));
    for (int i = 0; i < here && !done; ++i) {
      const float4 shape = staged.shape[i], color = staged.color[i];
      const Seen seen = see(shape, color, x, y);
      if (seen.alpha < LEAST_OPACITY) continue;
      const float next = light * (1.0f - seen.alpha);
      if (next < LEAST_LIGHT) {
        done = true;
        break;
      }
      const float weight = light * seen.alpha;
      red += weight * color.z;
      green += weight * color.w;
      blue += weight * staged.blue[i];
      light = next;
      count = int(first - tile.first) + i + 1;
    }
  }
  if (!tile.inside) return;
  const int pixel = tile.row * width + tile.column;
  image[pixel] = make_float4(
      red + light * background[0], green + light * background[1], blue + light * background[2], light);
  counts[pixel] = count;
}

static __device__ __forceinline__ float warp_sum(float value) {
#pragma unroll
  for (int step = 16; step > 0; step /= 2) value += __shfl_down_sync(0xffffffffu, value, step);
  return value;
}

static __device__ __forceinline__ int warp_most(int value) { return __reduce_max_sync(0xffffffffu, value); }

// grad_splats holds zeros.
extern "C" __global__ void __launch_bounds__(THREADS)
    backward(const float4* grad_image, const float* splats, const int* numbers, const long long* ends,
             const float* background, const float4* image, const int* counts, float* grad_splats, int width, int height) {
  __shared__ Staged staged;
  const Tile tile = tile_of(ends, width, height);
  const float x = tile.column + 0.5f, y = tile.row + 0.5f;
  const int pixel = tile.row * width + tile.column;
  const float4 zero = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  const float4 grad = tile.inside ? grad_image[pixel] : zero;
  const float through = tile.inside ? image[pixel].w : 1.0f;
  const int count = tile.inside ? counts[pixel] : 0;
  // By the light that comes through all splats.
  const float by_through =
      through * (grad.x * background[0] + grad.y * background[1] + grad.z * background[2] + grad.w);
  float light = through, behind = by_through;
  const int lane = tile.thread % 32, most = warp_most(count);
  const int length = int(tile.last - tile.first);
  const int batches = (length + THREADS - 1) / THREADS;
  for (int batch = 0; batch < batches; ++batch) {
    __syncthreads();
    const int end = length - batch * THREADS;  // of this batch, whose splats are staged from the last to the first
    if (end - 1 - tile.thread >= 0) {
      stage(staged, tile.thread, splats, numbers[tile.first + end - 1 - tile.thread]);
    }
    __syncthreads();
    for (int i = max(0, end - most); i < min(THREADS, end); ++i) {
      const float4 shape = staged.shape[i], color = staged.color[i];
      const float last = staged.blue[i];
      bool takes = end - 1 - i < count;
      Seen seen;
      if (takes) {
        seen = see(shape, color, x, y);
        takes = seen.alpha >= LEAST_OPACITY;
      }
      if (!__any_sync(0xffffffffu, takes)) continue;
      float sums[9] = {};
      if (takes) {
        const float inverse = 1.0f / (1.0f - seen.alpha);
        light *= inverse;
        const float weight = light * seen.alpha;
        const float shine = grad.x * color.z + grad.y * color.w + grad.z * last;
        const float by_alpha = light * shine - behind * inverse;
        behind += weight * shine;
        sums[6] = weight * grad.x;
        sums[7] = weight * grad.y;
        sums[8] = weight * grad.z;
        if (shape.z * seen.falloff <= MOST_OPACITY) {
          const float by_power = -shape.z * seen.falloff * by_alpha;
          sums[0] = by_power * (shape.w * seen.dx + color.x * seen.dy);
          sums[1] = by_power * (color.x * seen.dx + color.y * seen.dy);
          sums[2] = seen.falloff * by_alpha;
          sums[3] = 0.5f * by_power * seen.dx * seen.dx;
          sums[4] = by_power * seen.dx * seen.dy;
          sums[5] = 0.5f * by_power * seen.dy * seen.dy;
        }
      }
#pragma unroll
      for (int k = 0; k < 9; ++k) sums[k] = warp_sum(sums[k]);
      if (lane == 0) {
        float* row = grad_splats + 9ll * staged.number[i];
#pragma unroll
        for (int k = 0; k < 9; ++k) atomicAdd(row + k, sums[k]);
      }
    }
  }
}
