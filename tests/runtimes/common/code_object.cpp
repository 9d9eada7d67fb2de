#include "common/code_object.h"

#include <algorithm>
#include <cstdint>
#include <msgpack.hpp>
#include <string_view>

#include "common/elf_object.h"

namespace hipfront {
namespace {

std::size_t kernarg_bytes(const ObjectEntry& kernel) {
  std::size_t end = 0;
  for (const KernelArgument& argument : kernel.arguments) end = std::max(end, argument.offset + argument.bytes);
  return (end + 3) / 4 * 4;
}

using Packer = msgpack::packer<msgpack::sbuffer>;

void pack_argument(Packer& packer, std::size_t offset, std::size_t bytes, const char* kind, bool global) {
  packer.pack_map(global ? 4 : 3);
  if (global) packer.pack(".address_space").pack("global");
  packer.pack(".offset").pack(offset).pack(".size").pack(bytes).pack(".value_kind").pack(kind);
}

/// The map of one kernel, keys in AMD's order; the figures that mean nothing on a CPU but must be there are 0.
void pack_kernel(Packer& packer, const ObjectEntry& kernel, bool prints) {
  struct Hidden {
    const char* kind;
    bool global;
  };
  static constexpr Hidden kHidden[] = {{"hidden_global_offset_x", false},
                                       {"hidden_global_offset_y", false},
                                       {"hidden_global_offset_z", false},
                                       {"hidden_hostcall_buffer", true},
                                       {"hidden_none", true},
                                       {"hidden_none", true},
                                       {"hidden_multigrid_sync_arg", true}};
  const std::size_t explicit_bytes = kernarg_bytes(kernel);
  std::size_t bytes = explicit_bytes, align = kernel.args_align;
  if (prints) {
    bytes = (explicit_bytes + 7) / 8 * 8 + sizeof(std::uint64_t) * std::size(kHidden);
    align = std::max<std::size_t>(align, 8);
  }
  packer.pack_map(13);
  packer.pack(".args").pack_array(
      static_cast<std::uint32_t>(kernel.arguments.size() + (prints ? std::size(kHidden) : 0)));
  for (const KernelArgument& argument : kernel.arguments)
    pack_argument(packer, argument.offset, argument.bytes, argument.pointer ? "global_buffer" : "by_value",
                  argument.pointer);
  if (prints) {
    std::size_t offset = (explicit_bytes + 7) / 8 * 8;
    for (const Hidden& hidden : kHidden) {
      pack_argument(packer, offset, sizeof(std::uint64_t), hidden.kind, hidden.global);
      offset += sizeof(std::uint64_t);
    }
  }
  packer.pack(".group_segment_fixed_size").pack(kernel.static_shared_bytes);
  packer.pack(".kernarg_segment_align").pack(align);
  packer.pack(".kernarg_segment_size").pack(bytes);
  packer.pack(".language").pack("OpenCL C");
  packer.pack(".language_version").pack(std::vector<int>{2, 0});
  packer.pack(".max_flat_workgroup_size").pack(kernel.max_threads);
  packer.pack(".name").pack(kernel.name);
  packer.pack(".private_segment_fixed_size").pack(0);
  packer.pack(".sgpr_count").pack(0);
  packer.pack(".symbol").pack(kernel.name + ".kd");
  packer.pack(".vgpr_count").pack(0);
  packer.pack(".wavefront_size").pack(64);
}

const msgpack::object* member(const msgpack::object& map, std::string_view key) {
  if (map.type != msgpack::type::MAP) return nullptr;
  for (const msgpack::object_kv& item : std::span(map.via.map.ptr, map.via.map.size))
    if (item.key.type == msgpack::type::STR && std::string_view(item.key.via.str.ptr, item.key.via.str.size) == key)
      return &item.val;
  return nullptr;
}

template <typename T>
T value_of(const msgpack::object& map, std::string_view key) {
  const msgpack::object* item = member(map, key);
  if (item == nullptr) broken("metadata without " + std::string(key));
  return item->as<T>();
}

std::span<const msgpack::object> array_of(const msgpack::object& map, std::string_view key) {
  const msgpack::object* item = member(map, key);
  if (item == nullptr || item->type != msgpack::type::ARRAY) broken("metadata without " + std::string(key));
  return {item->via.array.ptr, item->via.array.size};
}

std::vector<ObjectEntry> parse_metadata_or_throw(Bytes note) {
  const msgpack::unpack_limit limit(4096, 4096, note.size(), note.size(), note.size(), 16);
  const msgpack::object_handle handle =
      msgpack::unpack(reinterpret_cast<const char*>(note.data()), note.size(), nullptr, nullptr, limit);
  std::vector<ObjectEntry> kernels;
  for (const msgpack::object& item : array_of(handle.get(), "amdhsa.kernels")) {
    ObjectEntry kernel;
    kernel.is_kernel = true;
    kernel.name = value_of<std::string>(item, ".name");
    kernel.args_align = value_of<std::size_t>(item, ".kernarg_segment_align");
    kernel.max_threads = value_of<unsigned>(item, ".max_flat_workgroup_size");
    kernel.static_shared_bytes = value_of<unsigned>(item, ".group_segment_fixed_size");
    for (const msgpack::object& argument : array_of(item, ".args")) {
      const auto kind = value_of<std::string>(argument, ".value_kind");
      if (kind.starts_with("hidden_")) continue;
      kernel.arguments.push_back({value_of<std::size_t>(argument, ".offset"), value_of<std::size_t>(argument, ".size"),
                                  kind == "global_buffer"});
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

}  // namespace

std::string pack_metadata(std::span<const ObjectEntry* const> kernels, const char* target, bool prints) {
  msgpack::sbuffer buffer;
  Packer packer(buffer);
  packer.pack_map(3);
  packer.pack("amdhsa.kernels").pack_array(static_cast<std::uint32_t>(kernels.size()));
  for (const ObjectEntry* kernel : kernels) pack_kernel(packer, *kernel, prints);
  packer.pack("amdhsa.target").pack(target);
  packer.pack("amdhsa.version").pack(std::vector<int>{1, 1});
  return {buffer.data(), buffer.size()};
}

std::vector<ObjectEntry> parse_metadata(Bytes note) {
  try {
    return parse_metadata_or_throw(note);
  } catch (const std::exception& error) {
    broken(std::string("metadata: ") + error.what());
  }
}

std::vector<ObjectEntry> read_metadata(std::span<const std::byte> bytes) {
  const auto notes = read_notes(Elf(bytes));
  const auto metadata = notes.find("AMDGPU");
  if (metadata == notes.end()) broken("no AMDGPU note");
  return parse_metadata(metadata->second);
}

}  // namespace hipfront
