// Declarations that the files of bind/ share. Tensors are passed as addresses; Python checks types, shapes and strides.

#pragma once

#include <nanobind/nanobind.h>

#include <cstddef>
#include <cstdint>

#include "base/variant.h"

namespace antiphon {

template <class T> T *at(std::uintptr_t address) { return reinterpret_cast<T *>(address); }

// Returns the kernels of the instruction set at `index`, best first. Throws if there are fewer.
const Variant &variant_at(std::size_t index);

void bind_product(nanobind::module_ &module);
void bind_attention(nanobind::module_ &module);
void bind_sound(nanobind::module_ &module);
void bind_row_scaled(nanobind::module_ &module);
void bind_rows(nanobind::module_ &module);
void bind_sampling(nanobind::module_ &module);
void bind_program(nanobind::module_ &module);

}  // namespace antiphon
