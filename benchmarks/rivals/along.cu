// y = slope * x + start * start, and its backward: three gradients, each element with one writer.
#include "tile.cuh"

extern "C" __global__ void __launch_bounds__(BLOCK)
    forward(const Element* x, const Element* slope, const Element* start, Element* y, Index count) {
  elementwise<3, 1>(count, {x, slope, start}, {y}, [](const Number (&in)[3], Number (&out)[1]) {
    out[0] = in[1] * in[0] + in[2] * in[2];
  });
}

extern "C" __global__ void __launch_bounds__(BLOCK) backward(
    const Element* grad, const Element* x, const Element* slope, const Element* start, Element* grad_x,
    Element* grad_slope, Element* grad_start, Index count) {
  elementwise<4, 3>(
      count, {grad, x, slope, start}, {grad_x, grad_slope, grad_start},
      [](const Number (&in)[4], Number (&out)[3]) {
        out[0] = in[0] * in[2];
        out[1] = in[0] * in[1];
        out[2] = Number(2) * in[0] * in[3];
      });
}
