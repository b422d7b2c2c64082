// Epilogue of a product: bias, activation, gate, residual. Compiled once per instruction set, with ANTIPHON_VARIANT
// naming the set.

#include "rows/kernels.h"

#include "base/functions.h"

namespace antiphon {
namespace {

struct Identity {
    ANTIPHON_INLINE_MEMBER Floats operator()(Floats x) const { return x; }
};
struct Relu {
    ANTIPHON_INLINE_MEMBER Floats operator()(Floats x) const { return relu(x); }
};
struct Gelu {
    ANTIPHON_INLINE_MEMBER Floats operator()(Floats x) const { return gelu(x); }
};
struct GeluTanh {
    ANTIPHON_INLINE_MEMBER Floats operator()(Floats x) const { return gelu_tanh(x); }
};
struct Silu {
    ANTIPHON_INLINE_MEMBER Floats operator()(Floats x) const { return silu(x); }
};

template <class Function, class Part>
ANTIPHON_INLINE void finish_vector(const Epilogue &e, const float *y, const float *value, const float *residual,
                                   std::int64_t column, float *out, Part part) {
    Floats x = part.load(y);
    if (e.bias) x = x + part.load(e.bias + column);
    x = Function()(x);
    if (e.gated) {
        Floats gated = part.load(value);
        if (e.bias) gated = gated + part.load(e.bias + e.columns + column);
        x = x * gated;
    }
    if (residual) x = x + part.load(residual + column);
    part.store(out + column, x);
}

template <class Function>
void finish_with(const Epilogue &e, std::int64_t tokens, std::int64_t begin, std::int64_t end, const float *y,
                 const float *value, std::int64_t stride) {
    for (std::int64_t t = 0; t < tokens; ++t) {
        const float *const residual = e.residual ? e.residual + t * e.residual_stride : nullptr;
        float *const out = e.out + t * e.out_stride;
        std::int64_t i = 0;
        for (; i + kLanes <= end - begin; i += kLanes) {
            finish_vector<Function>(e, y + t * stride + i, value + t * stride + i, residual, begin + i, out, Whole{});
        }
        if (i < end - begin) {
            const Rest rest{int(end - begin - i)};
            finish_vector<Function>(e, y + t * stride + i, value + t * stride + i, residual, begin + i, out, rest);
        }
    }
}

}  // namespace

namespace ANTIPHON_VARIANT {

void finish(const Epilogue &e, std::int64_t tokens, std::int64_t begin, std::int64_t end, const float *y,
            const float *value, std::int64_t stride) {
    switch (e.activation) {
    case Activation::none: return finish_with<Identity>(e, tokens, begin, end, y, value, stride);
    case Activation::relu: return finish_with<Relu>(e, tokens, begin, end, y, value, stride);
    case Activation::gelu: return finish_with<Gelu>(e, tokens, begin, end, y, value, stride);
    case Activation::gelu_tanh: return finish_with<GeluTanh>(e, tokens, begin, end, y, value, stride);
    case Activation::silu: return finish_with<Silu>(e, tokens, begin, end, y, value, stride);
    }
}

}  // namespace ANTIPHON_VARIANT

}  // namespace antiphon
