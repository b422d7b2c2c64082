// Buffer that is reused from call to call.

#pragma once

#include <cstddef>
#include <new>

namespace antiphon {

// Memory that grows and never shrinks, aligned to 64 bytes. Growing loses the contents.
class Scratch {
public:
    Scratch() = default;
    Scratch(const Scratch &) = delete;
    Scratch &operator=(const Scratch &) = delete;
    ~Scratch() { release(); }

    char *reserve(std::size_t bytes) {
        if (size_ < bytes) {
            release();
            memory_ = static_cast<char *>(::operator new[](bytes, kAlignment));
            size_ = bytes;
        }
        return memory_;
    }

private:
    static constexpr std::align_val_t kAlignment{64};

    void release() {
        ::operator delete[](memory_, kAlignment);
        memory_ = nullptr;
        size_ = 0;
    }

    char *memory_ = nullptr;
    std::size_t size_ = 0;
};

}  // namespace antiphon
