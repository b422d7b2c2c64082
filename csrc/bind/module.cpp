// Python module of the kernels.

#include "bind/bind.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <stdexcept>
#include <string>
#include <vector>

namespace antiphon {
namespace {

std::vector<std::string> variant_names() {
    std::vector<std::string> names;
    for (const auto &variant : variants()) names.emplace_back(variant.name);
    return names;
}

}  // namespace

const Variant &variant_at(std::size_t index) {
    if (index >= variants().size()) throw std::invalid_argument("no such variant: " + std::to_string(index));
    return variants()[index];
}

}  // namespace antiphon

NB_MODULE(_native, module) {
    module.doc() = "Antiphon's native kernels";
    nanobind::set_leak_warnings(false);  // an engine still open when Python exits is not a leak
    antiphon::bind_product(module);
    antiphon::bind_attention(module);
    antiphon::bind_sound(module);
    antiphon::bind_row_scaled(module);
    antiphon::bind_rows(module);
    antiphon::bind_sampling(module);
    antiphon::bind_program(module);
    module.def("variants", &antiphon::variant_names,
               "Return the instruction sets with kernels that this processor can run, best first.");
}
