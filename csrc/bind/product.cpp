// Matrices and their products for Python.

#include <sys/mman.h>

#include <nanobind/stl/shared_ptr.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <memory>
#include <new>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "base/thread_pool.h"
#include "bind/bind.h"
#include "linear/adapters.h"
#include "linear/kernels.h"
#include "linear/product.h"
#include "linear/quantize.h"
#include "packed/format.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

constexpr std::size_t kHugePage = std::size_t(2) << 20;

// Memory for packed weights: one span of zeros, in huge pages if the system has any, used from front to back.
class Store {
public:
    explicit Store(std::size_t bytes) : size_((bytes + kHugePage - 1) / kHugePage * kHugePage) {
        if (!size_) return;
        void *const memory = mmap(nullptr, size_ + kHugePage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (memory == MAP_FAILED) throw std::bad_alloc();
        mapped_ = static_cast<std::uint8_t *>(memory);
        const std::uintptr_t address = reinterpret_cast<std::uintptr_t>(mapped_);
        begin_ = mapped_ + ((kHugePage - address % kHugePage) % kHugePage);
#if defined(MADV_HUGEPAGE)
        madvise(begin_, size_, MADV_HUGEPAGE);
#endif
    }
    Store(const Store &) = delete;
    ~Store() {
        if (mapped_) munmap(mapped_, size_ + kHugePage);
    }

    std::uint8_t *take(std::size_t bytes) {
        if (bytes > size_ - used_) {
            throw std::invalid_argument(std::to_string(bytes) + " bytes do not fit into a store of " + std::to_string(size_) +
                                        " bytes of which " + std::to_string(used_) + " are used");
        }
        std::uint8_t *const begin = begin_ + used_;
        used_ += bytes;
        return begin;
    }

private:
    std::size_t size_, used_ = 0;
    std::uint8_t *mapped_ = nullptr, *begin_ = nullptr;
};

struct Packing {
    int type;
    const std::uint8_t *encoded;
    std::size_t row_bytes;
    std::int64_t rows, columns, tiles_per_task;
    std::uint8_t *packed;

    static void run(void *context, std::uint32_t index, int) {
        const Packing &work = *static_cast<const Packing *>(context);
        const std::int64_t tiles = (work.rows + kPackedRows - 1) / kPackedRows, begin = index * work.tiles_per_task;
        const std::int64_t end = begin + work.tiles_per_task < tiles ? begin + work.tiles_per_task : tiles;
        pack_tiles(work.type, work.encoded, work.row_bytes, work.rows, work.columns, begin, end, work.packed);
    }
};

// Quantises and packs rows of floats, a tile at a time.
struct Quantizing {
    int type;
    const TypeKernels *decoder;  // kernels of the floats' type
    const std::uint8_t *floats;
    std::size_t row_bytes;
    std::int64_t rows, columns;
    std::uint8_t *packed;

    static void run(void *context, std::uint32_t tile, int) {
        const Quantizing &work = *static_cast<const Quantizing *>(context);
        const std::int64_t first = tile * kPackedRows, left = work.rows - first, count = left < kPackedRows ? left : kPackedRows;
        const std::size_t quantized_bytes = quantized_row_bytes(work.type, work.columns);
        std::vector<float> row(work.columns);
        std::vector<std::uint8_t> quantized(count * quantized_bytes);
        for (std::int64_t r = 0; r < count; ++r) {
            work.decoder->decode_row(work.floats + (first + r) * work.row_bytes, work.columns, nullptr, row.data());
            quantize_row(work.type, row.data(), work.columns, quantized.data() + r * quantized_bytes);
        }
        pack_tiles(work.type, quantized.data(), quantized_bytes, count, work.columns, 0, 1,
                   work.packed + packed_bytes(work.type, first, work.columns));
    }
};

// Matrix for Python. It keeps the memory of packed parts alive; the memory of encoded parts must outlive it.
class BoundMatrix {
public:
    explicit BoundMatrix(std::int64_t columns) : matrix_{columns} {}

    void append(int type, std::uintptr_t data, std::size_t row_bytes, std::int64_t rows, std::uintptr_t codebook) {
        if (!variants().front().find(type)) throw std::invalid_argument("no kernel for tensor type " + std::to_string(type));
        matrix_.append(type, false, at<const std::uint8_t>(data), row_bytes, rows, at<const std::uint8_t>(codebook));
        bytes_ += row_bytes * rows;
    }

    void pack(int type, std::uintptr_t data, std::size_t row_bytes, std::int64_t rows, std::shared_ptr<Store> store,
              int threads) {
        const std::size_t bytes = packed_bytes(type, rows, matrix_.columns);
        std::uint8_t *const packed = store->take(bytes);
        const std::int64_t tiles = (rows + kPackedRows - 1) / kPackedRows, per_task = 8;
        Packing work{type, at<const std::uint8_t>(data), row_bytes, rows, matrix_.columns, per_task, packed};
        run_tasks(std::uint32_t((tiles + per_task - 1) / per_task), threads, Packing::run, &work);
        matrix_.append(type, true, packed, 0, rows, nullptr);
        store_ = std::move(store);
        bytes_ += bytes;
    }

    void quantize(int type, int target, std::uintptr_t data, std::size_t row_bytes, std::int64_t rows,
                  std::shared_ptr<Store> store, int threads) {
        const TypeKernels *const decoder = variants().front().find(type);
        if (!decoder || !quantizes_to(target) || matrix_.columns % kPackedGroup) {
            throw std::invalid_argument("rows of type " + std::to_string(type) + " and " + std::to_string(matrix_.columns) +
                                        " columns cannot be quantised to type " + std::to_string(target));
        }
        const std::size_t bytes = packed_bytes(target, rows, matrix_.columns);
        std::uint8_t *const packed = store->take(bytes);
        Quantizing work{target, decoder, at<const std::uint8_t>(data), row_bytes, rows, matrix_.columns, packed};
        run_tasks(std::uint32_t((rows + kPackedRows - 1) / kPackedRows), threads, Quantizing::run, &work);
        matrix_.append(target, true, packed, 0, rows, nullptr);
        store_ = std::move(store);
        bytes_ += bytes;
    }

    void multiply(std::uintptr_t x, std::int64_t x_stride, std::int64_t tokens, std::uintptr_t bias, int activation,
                  bool gated, std::uintptr_t residual, std::int64_t residual_stride, std::uintptr_t out,
                  std::int64_t out_stride, int threads, std::size_t variant) const {
        run_linear({&matrix_, at<const float>(x), x_stride, tokens, at<const float>(bias), Activation(activation), gated,
                    at<const float>(residual), residual_stride, at<float>(out), out_stride, threads, &variant_at(variant)});
    }

    void multiply_adapted(const AdapterTable &adapters, std::uintptr_t slots, std::uintptr_t x, std::int64_t x_stride,
                          std::int64_t tokens, std::uintptr_t bias, int activation, bool gated, std::uintptr_t residual,
                          std::int64_t residual_stride, std::uintptr_t out, std::int64_t out_stride, int threads,
                          std::size_t variant) const {
        run_adapted_linear({&matrix_, at<const float>(x), x_stride, tokens, at<const float>(bias), Activation(activation),
                            gated, at<const float>(residual), residual_stride, at<float>(out), out_stride, threads,
                            &variant_at(variant)},
                           adapters, at<const std::int32_t>(slots));
    }

    void take_rows(std::uintptr_t ids, std::int64_t count, std::uintptr_t out, std::size_t variant) const {
        antiphon::take_rows(matrix_, at<const std::int64_t>(ids), count, at<float>(out), variant_at(variant));
    }

    std::size_t bytes() const { return bytes_; }
    bool is_packed() const { return matrix_.any_packed(); }
    std::uintptr_t address() const { return reinterpret_cast<std::uintptr_t>(&matrix_); }

private:
    Matrix matrix_;
    std::shared_ptr<Store> store_;
    std::size_t bytes_ = 0;
};

using UpTuple = std::tuple<std::uintptr_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

void set_adapter(AdapterTable &table, std::size_t slot, std::int64_t rows, std::uintptr_t down, const std::vector<UpTuple> &ups) {
    AdapterSlot entry{at<const Matrix>(down), {}};
    for (const UpTuple &up : ups) {
        entry.ups.push_back({at<const float>(std::get<0>(up)), std::get<1>(up), std::get<2>(up), std::get<3>(up),
                             std::get<4>(up)});
    }
    table.set(slot, std::move(entry), rows);
}

bool supports(int type) { return variants().front().find(type) != nullptr; }
bool packs(int type, std::int64_t columns) { return packed_form(type) && columns % kPackedGroup == 0; }

}  // namespace

void bind_product(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    nb::class_<Store>(module, "Store", "Memory for packed weights, used from front to back.")
        .def(nb::init<std::size_t>(), "bytes");
    nb::class_<BoundMatrix>(module, "Matrix", "A matrix of rows, encoded as in a file or packed.")
        .def(nb::init<std::int64_t>(), "columns")
        .def("append", &BoundMatrix::append,
             "Append rows in memory that must outlive the matrix: type, address, bytes of a row, rows, codebook's address or 0.")
        .def("pack", &BoundMatrix::pack, Unlocked(), "Append packed copies of rows: type, address, bytes of a row, rows, store, threads.")
        .def("quantize", &BoundMatrix::quantize, Unlocked(),
             "Append rows of floats, quantised: float type, new type, address, bytes of a row, rows, store, threads.")
        .def("multiply", &BoundMatrix::multiply, Unlocked(), "out = activation(x · Wᵀ + bias) + residual, in fp32.")
        .def("multiply_adapted", &BoundMatrix::multiply_adapted, Unlocked(),
             "Multiply with adapters: their table, address of int32 slots by token, then the arguments of `multiply`.")
        .def("take_rows", &BoundMatrix::take_rows, Unlocked(), "out[count, columns] = the rows named by int64 ids, decoded.")
        .def_prop_ro("nbytes", &BoundMatrix::bytes, "Bytes of all rows as they are stored.")
        .def_prop_ro("is_packed", &BoundMatrix::is_packed, "Whether some rows are multiplied in int8.")
        .def_prop_ro("address", &BoundMatrix::address, "Address of the C++ `Matrix`, for recorded programs.");
    nb::class_<AdapterTable>(module, "AdapterTable", "Low-rank adapters of one linear layer, by slot.")
        .def(nb::init<>())
        .def("set", &set_adapter,
             "slot, rows of the layer, address of the down matrix, ups (address of fp32 [rank, width], rank, width, first "
             "row, offset). Their memory must outlive the slot.")
        .def("clear", &AdapterTable::clear, "slot");
    module.def("supports", &supports, "Return whether there are kernels for a GGUF type id.");
    module.def("packs", &packs, "Return whether rows of a GGUF type id with this number of columns have a packed form.");
    module.def("packed_bytes", &packed_bytes, "Return the bytes of packed rows: type, rows, columns.");
}

}  // namespace antiphon
