// Operations on frames of sound for Python.

#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <tuple>
#include <vector>

#include "bind/bind.h"
#include "half/convolution.h"
#include "sound/convolution.h"
#include "sound/tasks.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

void convolution(std::uintptr_t panels, std::int64_t kernel, std::int64_t out_channels, std::uintptr_t x,
                 std::int64_t windows, std::int64_t frames, std::int64_t channels, std::int64_t out_frames,
                 std::int64_t stride, std::int64_t left, std::uintptr_t bias, int activation, std::uintptr_t out,
                 int threads, std::size_t variant) {
    run_convolution({at<const float>(panels), kernel, out_channels, at<const float>(x), windows, frames, channels,
                     out_frames, stride, left, at<const float>(bias), Activation(activation), at<float>(out)},
                    threads, variant_at(variant));
}

const Variant &with_half(std::size_t index) {
    const Variant &variant = variant_at(index);
    if (!variant.half) throw std::invalid_argument("this instruction set has no kernels for 16-bit floats");
    return variant;
}

// Returns the number of the 16-bit type that a variant computes in, and the divisor of the number of inputs.
std::tuple<int, std::int64_t> half_format(std::size_t variant) {
    const HalfKernels *const half = variant_at(variant).half;
    return half ? std::make_tuple(int(half->format), half->columns) : std::make_tuple(int(HalfFormat::none), std::int64_t(1));
}

void half_convolution(std::uintptr_t panels, std::int64_t taps, std::int64_t outputs, std::uintptr_t x, std::int64_t rows,
                      std::int64_t frames, std::int64_t inputs, std::int64_t out_frames, std::int64_t stride,
                      std::int64_t left, std::int64_t dilation, int transform, std::uintptr_t bias, int activation, std::uintptr_t residual,
                      std::uintptr_t out, std::uintptr_t half_out, int threads, std::size_t variant) {
    const Variant &chosen = with_half(variant);
    if (inputs % chosen.half->columns) throw std::invalid_argument("inputs are not filled up");
    if (transform && (chosen.half->format != HalfFormat::fp16 || stride != 1 || dilation > 6 || (transform == 3 ? taps != 3 : transform != 4))) {
        throw std::invalid_argument("no such transform of a convolution");
    }
    const std::int64_t groups = transform ? (taps + transform - 1) / transform : 1;
    run_half_convolution({{at<const std::uint16_t>(panels), taps, inputs, dilation, stride, left, transform, groups,
                           at<const std::uint16_t>(x), frames, nullptr},
                          rows, out_frames, outputs, at<const float>(bias), at<const float>(residual),
                          Activation(activation), at<float>(out), at<std::uint16_t>(half_out)},
                         threads, chosen);
}

void round_to_half(std::uintptr_t x, std::uintptr_t out, std::int64_t count, int threads, std::size_t variant) {
    run_rounding(at<const float>(x), at<std::uint16_t>(out), count, threads, with_half(variant));
}

void adaptive_norm(std::uintptr_t x, std::int64_t frames, std::int64_t channels, std::uintptr_t scale, std::uintptr_t shift,
                   std::uintptr_t alpha, double eps, int function, double slope, std::uintptr_t out,
                   std::uintptr_t half_out, int threads, std::size_t variant) {
    run_adaptive_norm({at<const float>(x), frames, channels, at<const float>(scale), at<const float>(shift),
                       at<const float>(alpha), eps, FrameFunction(function), float(slope), at<float>(out),
                       at<std::uint16_t>(half_out)},
                      threads, half_out ? with_half(variant) : variant_at(variant));
}

void depthwise(std::uintptr_t x, std::int64_t rows, std::int64_t frames, std::int64_t channels, std::uintptr_t weight,
               std::int64_t taps, std::int64_t dilation, std::int64_t left, std::uintptr_t bias, std::uintptr_t out,
               int threads, std::size_t variant) {
    run_depthwise({at<const float>(x), frames, channels, taps, dilation, left, at<const float>(weight),
                   at<const float>(bias), at<float>(out)},
                  rows, threads, variant_at(variant));
}

void pulse_train(std::uintptr_t pitch, std::int64_t frames, std::int64_t hop, double rate, double lowest, double highest,
                 std::uintptr_t out, int threads, std::size_t variant) {
    run_pulses({at<const float>(pitch), frames, hop, rate, float(lowest), float(highest), nullptr, nullptr, at<float>(out)},
               threads, variant_at(variant));
}

void sum_spectra(std::uintptr_t source, std::uintptr_t spectra, std::uintptr_t noise, std::int64_t noise_stride,
                 std::int64_t frames, std::int64_t bins, std::uintptr_t out, int threads, std::size_t variant) {
    run_spectra({at<const float>(source), at<const float>(spectra), at<const float>(noise), noise_stride, bins,
                 at<float>(out)},
                frames, threads, variant_at(variant));
}

// Inputs, steps, out, backward, panels, h, c.
using Sequence = std::tuple<std::uintptr_t, std::int64_t, std::uintptr_t, bool, std::uintptr_t, std::uintptr_t, std::uintptr_t>;

void recurrences(const std::vector<Sequence> &sequences, std::int64_t hidden, std::int64_t inputs_stride,
                 std::int64_t out_stride, int threads, std::size_t variant) {
    std::vector<Recurrence> all;
    for (const auto &[inputs, steps, out, backward, panels, h, c] : sequences) {
        all.push_back({at<const float>(panels), hidden, steps, at<const float>(inputs), inputs_stride, at<float>(out),
                       out_stride, backward, at<float>(h), at<float>(c), nullptr});
    }
    run_recurrences(all.data(), std::int64_t(all.size()), threads, variant_at(variant));
}

}  // namespace

void bind_sound(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    module.def("convolution", &convolution, Unlocked(), "Convolve frames [windows, frames, channels] with panels of taps.");
    module.def("half_format", &half_format, "Return the 16-bit type of a variant's convolutions, and the multiple of its columns.");
    module.def("half_convolution", &half_convolution, Unlocked(), "Convolve 16-bit frames with 16-bit panels of taps.");
    module.def("round_to_half", &round_to_half, Unlocked(), "Round floats to the variant's 16-bit type.");
    module.def("adaptive_norm", &adaptive_norm, Unlocked(), "Norm frames over time by channel, and apply a function.");
    module.def("depthwise", &depthwise, Unlocked(), "Convolve each channel of frames on its own.");
    module.def("pulse_train", &pulse_train, Unlocked(), "Compute a vocoder's source: all harmonics of a pitch.");
    module.def("sum_spectra", &sum_spectra, Unlocked(), "Compute a vocoder's spectra from source, noise and their filters.");
    module.def("recurrences", &recurrences, Unlocked(), "Compute the directions of an LSTM over sequences.");
}

}  // namespace antiphon
