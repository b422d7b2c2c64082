// Recorded programs for Python. An operand is (value, bytes), with value -1 if missing; heads are (value, bytes, token
// stride, head stride), strides in floats; an extent is (coefficient, symbol, symbol, constant), with symbol -1 if missing.

#include <nanobind/stl/pair.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <algorithm>
#include <numeric>
#include <stdexcept>
#include <string>
#include <tuple>
#include <utility>

#include "base/limits.h"
#include "bind/bind.h"
#include "program/decode_step.h"
#include "program/instructions.h"

namespace nb = nanobind;

namespace antiphon {
namespace {

using OperandTuple = std::pair<int, std::int64_t>;
using HeadsTuple = std::tuple<int, std::int64_t, std::int64_t, std::int64_t>;
using ExtentTuple = std::tuple<std::int64_t, int, int, std::int64_t>;
using Strides = std::pair<std::int64_t, std::int64_t>;

Operand operand(const OperandTuple &p) { return {p.first, p.second}; }
HeadsOperand heads_at(const HeadsTuple &h) { return {{std::get<0>(h), std::get<1>(h)}, std::get<2>(h), std::get<3>(h)}; }
Extent extent(const ExtentTuple &e) { return {std::get<0>(e), std::get<1>(e), std::get<2>(e), std::get<3>(e)}; }

template <class Kind, class Fill> void append(Program &program, Fill fill) {
    auto instruction = std::make_unique<Kind>();
    fill(*instruction);
    program.append(std::move(instruction));
}

void make(Program *self, std::size_t num_addresses, const std::vector<std::tuple<int, int, std::int64_t>> &areas,
          const std::vector<std::pair<int, std::int64_t>> &buffers, const std::vector<std::uintptr_t> &constants) {
    std::vector<Area> own_areas;
    for (const auto &area : areas) own_areas.push_back({std::get<0>(area), std::get<1>(area), std::get<2>(area)});
    std::vector<Buffer> own_buffers;
    for (const auto &buffer : buffers) own_buffers.push_back({buffer.first, buffer.second});
    new (self) Program(num_addresses, std::move(own_areas), std::move(own_buffers), constants);
}

void embed(Program &program, std::uintptr_t matrix, OperandTuple ids, bool wide, double scale, OperandTuple out,
           ExtentTuple tokens) {
    append<EmbedInstruction>(program, [&](EmbedInstruction &i) {
        i.matrix = at<const Matrix>(matrix);
        i.ids = operand(ids);
        i.wide = wide;
        i.scale = float(scale);
        i.out = operand(out);
        i.tokens = extent(tokens);
    });
}

void fill_linear(LinearInstruction &i, std::uintptr_t matrix, OperandTuple x, std::int64_t x_stride, OperandTuple bias,
                 int activation, bool gated, OperandTuple residual, std::int64_t residual_stride, OperandTuple out,
                 std::int64_t out_stride, ExtentTuple tokens) {
    i.matrix = at<const Matrix>(matrix);
    i.x = operand(x);
    i.x_stride = x_stride;
    i.bias = operand(bias);
    i.activation = Activation(activation);
    i.gated = gated;
    i.residual = operand(residual);
    i.residual_stride = residual_stride;
    i.out = operand(out);
    i.out_stride = out_stride;
    i.tokens = extent(tokens);
}

void linear(Program &program, std::uintptr_t matrix, OperandTuple x, std::int64_t x_stride, OperandTuple bias, int activation,
            bool gated, OperandTuple residual, std::int64_t residual_stride, OperandTuple out, std::int64_t out_stride,
            ExtentTuple tokens) {
    append<LinearInstruction>(program, [&](LinearInstruction &i) {
        fill_linear(i, matrix, x, x_stride, bias, activation, gated, residual, residual_stride, out, out_stride, tokens);
    });
}

void adapted_linear(Program &program, const AdapterTable &adapters, OperandTuple slots, std::uintptr_t matrix, OperandTuple x,
                    std::int64_t x_stride, OperandTuple bias, int activation, bool gated, OperandTuple residual,
                    std::int64_t residual_stride, OperandTuple out, std::int64_t out_stride, ExtentTuple tokens) {
    append<AdaptedLinearInstruction>(program, [&](AdaptedLinearInstruction &i) {
        i.adapters = &adapters;
        i.slots = operand(slots);
        fill_linear(i.linear, matrix, x, x_stride, bias, activation, gated, residual, residual_stride, out, out_stride,
                    tokens);
    });
}

void norm(Program &program, bool centred, OperandTuple x, Strides x_strides, OperandTuple residual, Strides residual_strides,
          std::int64_t inner, std::int64_t width, OperandTuple weight, OperandTuple bias, double eps, OperandTuple y,
          OperandTuple total, ExtentTuple outer) {
    append<NormInstruction>(program, [&](NormInstruction &i) {
        i.centred = centred;
        i.x = operand(x);
        i.x_outer = x_strides.first;
        i.x_inner = x_strides.second;
        i.residual = operand(residual);
        i.residual_outer = residual_strides.first;
        i.residual_inner = residual_strides.second;
        i.inner = inner;
        i.width = width;
        i.weight = operand(weight);
        i.bias = operand(bias);
        i.eps = float(eps);
        i.y = operand(y);
        i.total = operand(total);
        i.outer = extent(outer);
    });
}

void rotary(Program &program, HeadsTuple q, HeadsTuple k, std::int64_t heads, std::int64_t kv_heads, std::int64_t head_dim,
            OperandTuple positions, OperandTuple table, std::int64_t table_rows, std::int64_t rotated, OperandTuple q_out,
            OperandTuple k_out, ExtentTuple tokens) {
    append<RotaryInstruction>(program, [&](RotaryInstruction &i) {
        i.q = heads_at(q);
        i.k = heads_at(k);
        i.heads = heads;
        i.kv_heads = kv_heads;
        i.head_dim = head_dim;
        i.positions = operand(positions);
        i.table = operand(table);
        i.table_rows = table_rows;
        i.rotated = rotated;
        i.q_out = operand(q_out);
        i.k_out = operand(k_out);
        i.tokens = extent(tokens);
    });
}

void store_kv(Program &program, const Pages &pages, HeadsTuple k, HeadsTuple v, int group, ExtentTuple tokens) {
    append<StoreInstruction>(program, [&](StoreInstruction &i) {
        i.pages = &pages;
        i.k = heads_at(k);
        i.v = heads_at(v);
        i.group = group;
        i.tokens = extent(tokens);
    });
}

void heads(Program &program, const Pages &pages, HeadsTuple q, HeadsTuple k, HeadsTuple v, std::int64_t num_heads,
           OperandTuple q_norm, double q_eps, OperandTuple k_norm, double k_eps, OperandTuple positions, OperandTuple table,
           std::int64_t table_rows, std::int64_t rotated, int group, OperandTuple q_out, ExtentTuple tokens) {
    append<HeadsInstruction>(program, [&](HeadsInstruction &i) {
        i.pages = &pages;
        i.q = heads_at(q);
        i.k = heads_at(k);
        i.v = heads_at(v);
        i.heads = num_heads;
        i.q_norm = operand(q_norm);
        i.q_eps = float(q_eps);
        i.k_norm = operand(k_norm);
        i.k_eps = float(k_eps);
        i.positions = operand(positions);
        i.table = operand(table);
        i.table_rows = table_rows;
        i.rotated = rotated;
        i.group = group;
        i.q_out = operand(q_out);
        i.tokens = extent(tokens);
    });
}

void paged_attention(Program &program, const Pages &pages, HeadsTuple q, std::int64_t num_heads, int group, double scale,
                     bool causal, std::int64_t window, std::int64_t sink_tokens, OperandTuple sinks, double softcap,
                     OperandTuple bias, Strides bias_strides, OperandTuple out, ExtentTuple tokens) {
    append<PagedAttentionInstruction>(program, [&](PagedAttentionInstruction &i) {
        i.pages = &pages;
        i.q = heads_at(q);
        i.heads = num_heads;
        i.group = group;
        i.masking = {float(scale), causal, window, sink_tokens, nullptr, float(softcap), nullptr, bias_strides.first,
                     bias_strides.second};
        i.sinks = operand(sinks);
        i.bias = operand(bias);
        i.out = operand(out);
        i.tokens = extent(tokens);
    });
}

void attention(Program &program, HeadsTuple q, HeadsTuple k, HeadsTuple v, std::int64_t num_heads, std::int64_t kv_heads,
               std::int64_t head_dim, OperandTuple seq_start, double scale, bool causal, OperandTuple bias,
               Strides bias_strides, bool rounded, OperandTuple out, ExtentTuple tokens, ExtentTuple sequences) {
    append<AttentionInstruction>(program, [&](AttentionInstruction &i) {
        i.q = heads_at(q);
        i.k = heads_at(k);
        i.v = heads_at(v);
        i.heads = num_heads;
        i.kv_heads = kv_heads;
        i.head_dim = head_dim;
        i.seq_start = operand(seq_start);
        i.masking = {float(scale), causal, 0, 0, nullptr, 0, nullptr, bias_strides.first, bias_strides.second};
        i.bias = operand(bias);
        i.rounded = rounded;
        i.out = operand(out);
        i.tokens = extent(tokens);
        i.sequences = extent(sequences);
    });
}

void gather_rows(Program &program, OperandTuple x, std::int64_t x_stride, std::int64_t width, OperandTuple rows, bool wide,
                 OperandTuple out, ExtentTuple source, ExtentTuple count) {
    append<GatherInstruction>(program, [&](GatherInstruction &i) {
        i.x = operand(x);
        i.x_stride = x_stride;
        i.width = width;
        i.rows = operand(rows);
        i.wide = wide;
        i.out = operand(out);
        i.source = extent(source);
        i.count = extent(count);
    });
}

void add(Program &program, OperandTuple x, std::int64_t x_stride, OperandTuple y, std::int64_t y_stride, std::int64_t width,
         OperandTuple out, ExtentTuple rows, ExtentTuple y_rows, std::int64_t most_y_rows) {
    append<AddInstruction>(program, [&](AddInstruction &i) {
        i.x = operand(x);
        i.x_stride = x_stride;
        i.y = operand(y);
        i.y_stride = y_stride;
        i.width = width;
        i.out = operand(out);
        i.rows = extent(rows);
        i.y_rows = extent(y_rows);
        i.most_y_rows = most_y_rows;
    });
}

void segment_mean(Program &program, OperandTuple x, std::int64_t x_stride, std::int64_t width, OperandTuple seq_start,
                  OperandTuple out, ExtentTuple tokens, ExtentTuple segments) {
    append<SegmentMeanInstruction>(program, [&](SegmentMeanInstruction &i) {
        i.x = operand(x);
        i.x_stride = x_stride;
        i.width = width;
        i.seq_start = operand(seq_start);
        i.out = operand(out);
        i.tokens = extent(tokens);
        i.segments = extent(segments);
    });
}

void l2_normalize(Program &program, OperandTuple x, std::int64_t x_stride, std::int64_t width, OperandTuple out,
                  ExtentTuple rows) {
    append<UnitRowsInstruction>(program, [&](UnitRowsInstruction &i) {
        i.x = operand(x);
        i.x_stride = x_stride;
        i.width = width;
        i.out = operand(out);
        i.rows = extent(rows);
    });
}

void conv1d(Program &program, OperandTuple panels, std::int64_t kernel, std::int64_t out_channels, OperandTuple x,
            std::int64_t channels, std::int64_t stride, std::int64_t left, OperandTuple bias, int activation,
            OperandTuple out, ExtentTuple windows, ExtentTuple frames, ExtentTuple out_frames) {
    append<ConvolutionInstruction>(program, [&](ConvolutionInstruction &i) {
        i.panels = operand(panels);
        i.kernel = kernel;
        i.out_channels = out_channels;
        i.x = operand(x);
        i.channels = channels;
        i.stride = stride;
        i.left = left;
        i.bias = operand(bias);
        i.activation = Activation(activation);
        i.out = operand(out);
        i.windows = extent(windows);
        i.frames = extent(frames);
        i.out_frames = extent(out_frames);
    });
}

void empty(Program &program) { program.append(std::make_unique<EmptyInstruction>()); }

using GroupTuple = std::tuple<std::uintptr_t, std::int64_t, std::uintptr_t, std::int64_t, std::int64_t, std::uintptr_t,
                              std::uintptr_t, std::int64_t>;

std::int64_t run(Program &program, const std::vector<std::int64_t> &symbols, const std::vector<std::uintptr_t> &addresses,
                 const std::vector<GroupTuple> &groups, int threads, std::size_t variant) {
    thread_local std::vector<GroupTables> tables;
    tables.clear();
    for (const GroupTuple &g : groups) {
        tables.push_back({at<const std::int64_t>(std::get<0>(g)), std::get<1>(g), at<const std::int32_t>(std::get<2>(g)),
                          std::get<3>(g), std::get<4>(g), at<const std::int32_t>(std::get<5>(g)),
                          at<const std::int32_t>(std::get<6>(g)), std::get<7>(g)});
    }
    return program.run(symbols, addresses, tables, threads, variant_at(variant));
}

using TablesTuple = std::tuple<std::uintptr_t, std::int64_t, std::int64_t, bool>;

void make_decode_step(DecodeStep *self, Program &program, std::int64_t num_symbols, std::int64_t logit_width,
                      const std::vector<std::uintptr_t> &columns, const std::vector<TablesTuple> &groups) {
    if (columns.size() != 9) throw std::invalid_argument("a step needs 9 arrays over rows");
    RowArrays rows{at<std::int32_t>(columns[0]),
                   at<const std::int32_t>(columns[1]),
                   {at<const float>(columns[2]), at<const std::int32_t>(columns[3]), at<const float>(columns[4]),
                    at<const float>(columns[5]), at<const std::int64_t>(columns[6]), at<const std::int64_t>(columns[7])},
                   at<std::int64_t>(columns[7]),
                   at<const std::int32_t>(columns[8]),
                   {}};
    for (const TablesTuple &g : groups) {
        rows.groups.push_back({at<const std::int32_t>(std::get<0>(g)), std::get<1>(g), std::get<2>(g), std::get<3>(g)});
    }
    new (self) DecodeStep(program, std::move(rows), num_symbols, logit_width);
}

std::tuple<std::vector<std::int64_t>, std::vector<std::int64_t>, std::int64_t, std::int64_t> run_decode(
    DecodeStep &step, const std::vector<std::int64_t> &rows, const std::vector<std::int64_t> &positions,
    const std::vector<std::int64_t> &drafted, const std::vector<std::int32_t> &drafts, std::uintptr_t logits,
    std::int64_t vocabulary, int threads, std::size_t variant) {
    if (rows.size() != positions.size()) throw std::invalid_argument("every row has one position");
    const std::int64_t total = std::accumulate(drafted.begin(), drafted.end(), std::int64_t(0));
    const bool positive = std::all_of(drafted.begin(), drafted.end(), [](std::int64_t count) { return count >= 0; });
    if ((!drafted.empty() && drafted.size() != rows.size()) || !positive || total != std::int64_t(drafts.size())) {
        throw std::invalid_argument("drafts of " + std::to_string(drafts.size()) + " tokens, and numbers of them for " +
                                    std::to_string(drafted.size()) + " of " + std::to_string(rows.size()) +
                                    " rows that add up to " + std::to_string(total));
    }
    auto result = step.run({rows, positions, drafted, drafts}, at<float>(logits), vocabulary, threads, variant_at(variant));
    return {std::move(result.tokens), std::move(result.kept), result.program_nanoseconds, result.sample_nanoseconds};
}

using ProfileTuple = std::tuple<std::int64_t, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;

std::vector<ProfileTuple> profiles(const Program &program) {
    std::vector<ProfileTuple> found;
    for (const Profile &p : program.profiles()) {
        found.emplace_back(p.calls, p.nanoseconds, p.effort.rows, p.effort.pairs, p.effort.keys);
    }
    return found;
}

double machine_read_rate(std::size_t bytes, int repeats, int threads, std::size_t variant) {
    return read_rate(bytes, repeats, threads, *variant_at(variant).limits);
}

double machine_multiply_rate(double seconds, int threads, std::size_t variant) {
    return multiply_rate(seconds, threads, *variant_at(variant).limits);
}

}  // namespace

void bind_program(nb::module_ &module) {
    using Unlocked = nb::call_guard<nb::gil_scoped_release>;
    // A program keeps the pages that its instructions read alive. Matrices are passed by address: Python keeps them alive.
    using Keeps = nb::keep_alive<1, 2>;
    nb::class_<Program>(module, "Program", "Recorded forward pass, run in one call.")
        .def("__init__", &make, "addresses of a run, areas (symbol, symbol, bytes), buffers (area, offset), constants.")
        .def("embed", &embed)
        .def("linear", &linear)
        .def("adapted_linear", &adapted_linear, Keeps(), "Append a linear layer in which each token may have an adapter.")
        .def("norm", &norm)
        .def("rotary", &rotary)
        .def("store_kv", &store_kv, Keeps())
        .def("heads", &heads, Keeps(), "Append norm, rotary embedding and store to the pages, in one pass.")
        .def("paged_attention", &paged_attention, Keeps())
        .def("attention", &attention)
        .def("gather_rows", &gather_rows)
        .def("add", &add)
        .def("segment_mean", &segment_mean)
        .def("l2_normalize", &l2_normalize)
        .def("conv1d", &conv1d)
        .def("empty", &empty, "Append an instruction that does nothing.")
        .def("workspace_bytes", &Program::workspace_bytes)
        .def("profile", &Program::profile, "Choose whether runs time every instruction.")
        .def("profiles", &profiles, "Return, for each instruction: calls, nanoseconds, rows, pairs of query and key, keys.")
        .def("run", &run, Unlocked(),
             "symbols, addresses, groups (slots, number, tables, stride, blocks, lengths, starts, requests), threads, "
             "variant: the nanoseconds that it took.");
    nb::class_<DecodeStep>(module, "DecodeStep", "Decode step, from rows to sampled tokens: the newest token of each request and its draft.")
        .def("__init__", &make_decode_step, Keeps(),
             "program, its symbols, width of the logits, addresses of the arrays over rows (last token, cross tokens, "
             "temperature, top k, top p, min p, seed, output index, adapter or 0), tables (address, stride, block's tokens, cross).")
        .def("run", &run_decode, Unlocked(),
             "rows, positions, drafted tokens of each or none, these tokens, address of the logits, vocabulary, threads, "
             "variant: a token after each that was computed, how many each row keeps, and the nanoseconds of the program and "
             "of drawing them.");
    module.def("read_rate", &machine_read_rate, Unlocked(), "Measure the bytes per second read from a buffer: bytes, repeats, threads, variant.");
    module.def("multiply_rate", &machine_multiply_rate, Unlocked(),
               "fp32 multiplications with additions a second: seconds to try, threads, variant.");
    module.def("int8_multiply_rate", &int8_multiply_rate, Unlocked(),
               "int8 multiplications with additions a second, or 0: seconds to try, threads.");
}

}  // namespace antiphon
