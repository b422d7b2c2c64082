// Table of the frame kernels. Compiled once per instruction set, with ANTIPHON_VARIANT naming the set.

#include "sound/kernels.h"

namespace antiphon {
namespace ANTIPHON_VARIANT {

void frame_sums(const FrameSums &, std::int64_t, std::int64_t);
void frame_norm(const FrameNorm &, std::int64_t, std::int64_t);
void depthwise(const Depthwise &, std::int64_t, std::int64_t);
void convolve(const Convolution &, std::int64_t, std::int64_t);
void recur(const Recurrence &);
void begin_pulses(const PulseTrain &);
void pulses(const PulseTrain &, std::int64_t, std::int64_t);
void sum_spectra(const SpectraSum &, std::int64_t, std::int64_t);

extern const FrameKernels frames;
const FrameKernels frames = {frame_sums, frame_norm, depthwise, convolve, recur, begin_pulses, pulses, sum_spectra};

}  // namespace ANTIPHON_VARIANT
}  // namespace antiphon
