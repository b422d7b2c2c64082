#include "base/workspace.h"

#include <memory>
#include <new>

namespace antiphon {
namespace {

constexpr std::size_t kAlignment = 64;

struct AlignedDelete {
    void operator()(char *memory) const { ::operator delete[](memory, std::align_val_t(kAlignment)); }
};

}  // namespace

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
