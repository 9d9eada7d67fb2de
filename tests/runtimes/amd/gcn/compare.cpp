// compare.cpp: comparisons of lanes, as compare.def has them.
#include "lanes.h"

namespace hsa_cpu::gcn {
namespace {

namespace rows {
using namespace tags;
#define GCN_ROW(name, opcode, extra, type_a, type_b, ...)                                                       \
  struct name {                                                                                                 \
    using SourceA = type_a;                                                                                     \
    using SourceB = type_b;                                                                                     \
    static constexpr u16 traits = extra;                                                                        \
    static bool apply([[maybe_unused]] typename SourceA::Value a, [[maybe_unused]] typename SourceB::Value b) { \
      return __VA_ARGS__;                                                                                       \
    }                                                                                                           \
  };
#define COMPARE(opcode, name, type, ...)                         \
  GCN_ROW(v_cmp_##name, opcode, kPlain, type, type, __VA_ARGS__) \
  GCN_ROW(v_cmpx_##name, opcode, kWritesExec, type, type, __VA_ARGS__)
#define COMPARE_CLASS(opcode, name, type, ...)                  \
  GCN_ROW(v_cmp_##name, opcode, kPlain, type, U32, __VA_ARGS__) \
  GCN_ROW(v_cmpx_##name, opcode, kWritesExec, type, U32, __VA_ARGS__)
#include "compare.def"
#undef COMPARE
#undef COMPARE_CLASS
#undef GCN_ROW
}  // namespace rows

template <class Row>
constexpr Operation operation(const char* name, u32 opcode) {
  return {name,
          Format::Vopc,
          static_cast<u16>(opcode),
          Row::traits,
          Type::None,
          {Row::SourceA::type, Row::SourceB::type, Type::None},
          compare<Row, false>,
          compare<Row, true>,
          nullptr};
}

const Operation kOperations[] = {
#define COMPARE(opcode, name, type, ...) \
  operation<rows::v_cmp_##name>("v_cmp_" #name, opcode), operation<rows::v_cmpx_##name>("v_cmpx_" #name, opcode + 16),
#define COMPARE_CLASS(opcode, name, type, ...) \
  operation<rows::v_cmp_##name>("v_cmp_" #name, opcode), operation<rows::v_cmpx_##name>("v_cmpx_" #name, opcode + 1),
#include "compare.def"
#undef COMPARE
#undef COMPARE_CLASS
};

}  // namespace

Operations compare_operations() { return {std::begin(kOperations), std::end(kOperations)}; }

}  // namespace hsa_cpu::gcn
