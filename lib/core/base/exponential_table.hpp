// The 256 layers of the ziggurat for exponential random numbers (Marsaglia and Tsang 2000), made at compile time.
// Only + - * / are used, so that the layers are the same bytes whatever mathematical library a machine has.
#pragma once
#include <array>
#include <cstddef>

class ExponentialTable {
 public:
  static constexpr std::size_t layers = 256;
  static constexpr double tail_start = 7.69711747013104972;  // right edge of the base layer
  static constexpr double layer_area = 3.9496598225815571993e-3;

  constexpr ExponentialTable() {
    edge[0] = layer_area / exp_of_minus(tail_start);  // as wide as a base layer without a tail would be
    edge[1] = tail_start;
    for (std::size_t i = 1; i + 1 < layers; ++i)
      edge[i + 1] = minus_log(layer_area / edge[i] + exp_of_minus(edge[i]), edge[i]);
    edge[layers] = 0.0;
    for (std::size_t i = 0; i <= layers; ++i) height[i] = exp_of_minus(edge[i]);
    for (std::size_t i = 0; i < layers; ++i) step[i] = edge[i] * 0x1p-53;
  }

  std::array<double, layers + 1> edge{};    // right edge of each layer, falling
  std::array<double, layers + 1> height{};  // exp(-edge)
  std::array<double, layers> step{};        // edge / 2^53: multiplies a 53-bit integer

 private:
  static constexpr double exp_of_minus(double x) {
    const double y = -x / 64;
    double term = 1, sum = 1;
    for (int n = 1; n <= 14; ++n) sum += term = term * y / n;
    for (int doubling = 0; doubling < 6; ++doubling) sum *= sum;
    return sum;
  }
  static constexpr double minus_log(double value, double near) {
    for (int newton = 0; newton < 12; ++newton) near += 1 - value / exp_of_minus(near);
    return near;
  }
};

inline constexpr ExponentialTable exponential_table{};
