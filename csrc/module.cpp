// The Python module of the kernels, and what its files share.

#include "bind.h"

#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <vector>

namespace antiphon {
namespace {

constexpr std::size_t kAlignment = 64;

struct AlignedDelete {
    void operator()(char *memory) const { ::operator delete[](memory, std::align_val_t(kAlignment)); }
};

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

char *workspace(std::size_t bytes) {
    thread_local std::unique_ptr<char[], AlignedDelete> memory;
    thread_local std::size_t size = 0;
    if (size < bytes) {
        size = 0;
        memory.reset();
        memory.reset(static_cast<char *>(::operator new[](bytes, std::align_val_t(kAlignment))));
        size = bytes;
    }
    return memory.get();
}

}  // namespace antiphon

NB_MODULE(_native, module) {
    module.doc() = "Antiphon's native kernels";
    antiphon::bind_product(module);
    antiphon::bind_attention(module);
    antiphon::bind_rows(module);
    antiphon::bind_sampling(module);
    antiphon::bind_program(module);
    module.def("variants", &antiphon::variant_names,
               "The instruction sets that this processor can run kernels of, the best first.");
}
