#include "shim/memory/copy_params.h"

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#include "shim/hip/hip_version.h"
#include "shim/hip/quirks.h"
#include "shim/memory/device_memory.h"

namespace graphpool {
namespace {

// Probes driver_copies_go_by_version and driver_fills_go_by_version.
constexpr int kWideSince = hip_version(6, 0), kOneFillSince = hip_version(7, 0);

/// hipMemoryTypeDevice (probe device_type_goes_by_version).
int device_type() noexcept { return runtime_version() < kWideSince ? 1 : 2; }

/// Whether a side of a driver-style copy is named by its device pointer: not by its host pointer, nor by its array.
bool by_device_pointer(hipMemoryType type) noexcept {
  const bool old = runtime_version() < kWideSince;
  const int host = old ? 0 : 1, array = old ? 2 : 10;
  return static_cast<int>(type) != host && static_cast<int>(type) != array;
}

/// Where a side of a copy begins in its memory, and its shape.
struct Side {
  std::size_t x_bytes, y, z, pitch, slice_rows;
  bool used;  ///< whether the copy uses the pointer: what is beside an array or a host pointer may be anything

  std::size_t begin() const noexcept { return (z * slice_rows + y) * pitch + x_bytes; }
};
struct Extent {
  std::size_t width_bytes, height, depth;
};

/// How many bytes a copy touches, counted from the beginning of the memory.
std::size_t reach(const Side& side, const Extent& extent) noexcept {
  if (extent.width_bytes == 0 || extent.height == 0 || extent.depth == 0) return 0;
  const Side last{side.x_bytes, side.y + extent.height - 1, side.z + extent.depth - 1, side.pitch, side.slice_rows,
                  side.used};
  return last.begin() + extent.width_bytes;
}

/// Returns whether the memory was replaced by other memory, which the runtime refuses: then the side must begin at its
/// base, and the copy have more than one byte. A pointer that the copy does not use is left as it is.
template <typename Pointer>
bool refuse(Pointer& memory, const Side& side, const Extent& extent) noexcept {
  if (!side.used) return false;
  const auto checked = address_guard().operand(memory, reach(side, extent));
  return std::exchange(memory, checked) != checked;
}

/// Makes a row two bytes long at least: one byte may fit into anything.
template <typename Size>
void widen(Size& width_bytes) noexcept {
  if (width_bytes < 2) width_bytes = 2;
}

/// Driver-style parameters as the runtime shall see them. `src_begins`, `dst_begins`: members that say where a side
/// begins.
template <typename Params, typename Src, typename Dst, typename Begin>
const Params* check(const Params* params, Params* copy, Src Params::*src, const Side& src_side,
                    std::initializer_list<Begin> src_begins, Dst Params::*dst, const Side& dst_side,
                    std::initializer_list<Begin> dst_begins, Begin width, const Extent& extent) noexcept {
  *copy = *params;
  const bool src_refused = refuse(copy->*src, src_side, extent);
  const bool dst_refused = refuse(copy->*dst, dst_side, extent);
  if (!src_refused && !dst_refused) return params;
  if (src_refused)
    for (const Begin each : src_begins) copy->*each = 0;
  if (dst_refused)
    for (const Begin each : dst_begins) copy->*each = 0;
  widen(copy->*width);
  return copy;
}

/// Returns whether the memory was replaced.
template <typename Fill>
bool refuse(Fill& fill, std::size_t element_bytes) noexcept {
  const std::size_t row = fill.width * element_bytes;
  const std::size_t last_row = fill.height > 1 ? fill.pitch * (fill.height - 1) + row : row;
  const auto checked = address_guard().operand(fill.dst, std::max(last_row, fill.pitch * fill.height));
  if (std::exchange(fill.dst, checked) == checked) return false;
  if (row < 2) widen(fill.width);
  return true;
}

}  // namespace

const hipMemcpy3DParms* checked_params(const hipMemcpy3DParms* params, ParamsCopy* copy) noexcept {
  if (params == nullptr) return nullptr;
  const bool arrays = params->srcArray != nullptr || params->dstArray != nullptr;
  const Extent extent = arrays ? Extent{} : Extent{params->extent.width, params->extent.height, params->extent.depth};
  const auto side = [](const hipPos& position, const hipPitchedPtr& memory, const void* array) {
    return Side{position.x, position.y, position.z, memory.pitch, memory.ysize, array == nullptr};
  };
  copy->box = *params;
  const bool src_refused = refuse(copy->box.srcPtr.ptr, side(params->srcPos, params->srcPtr, params->srcArray), extent);
  const bool dst_refused = refuse(copy->box.dstPtr.ptr, side(params->dstPos, params->dstPtr, params->dstArray), extent);
  if (!src_refused && !dst_refused) return params;
  if (src_refused) copy->box.srcPos = {};
  if (dst_refused) copy->box.dstPos = {};
  if (!arrays) widen(copy->box.extent.width);
  return &copy->box;
}

const hip_Memcpy2D* checked_params(const hip_Memcpy2D* params, ParamsCopy* copy) noexcept {
  if (params == nullptr) return nullptr;
  using Box = hip_Memcpy2D;
  return check(params, &copy->plane, &Box::srcDevice,
               {params->srcXInBytes, params->srcY, 0, params->srcPitch, 0, by_device_pointer(params->srcMemoryType)},
               {&Box::srcXInBytes, &Box::srcY}, &Box::dstDevice,
               {params->dstXInBytes, params->dstY, 0, params->dstPitch, 0, by_device_pointer(params->dstMemoryType)},
               {&Box::dstXInBytes, &Box::dstY}, &Box::WidthInBytes, {params->WidthInBytes, params->Height, 1});
}

const HIP_MEMCPY3D* checked_params(const HIP_MEMCPY3D* params, ParamsCopy* copy) noexcept {
  if (params == nullptr) return nullptr;
  if (runtime_version() < kWideSince) {
    using Box = HIP_MEMCPY3D;
    return check(params, &copy->driver_box, &Box::srcDevice,
                 {params->srcXInBytes, params->srcY, params->srcZ, params->srcPitch, params->srcHeight,
                  by_device_pointer(params->srcMemoryType)},
                 {&Box::srcXInBytes, &Box::srcY, &Box::srcZ}, &Box::dstDevice,
                 {params->dstXInBytes, params->dstY, params->dstZ, params->dstPitch, params->dstHeight,
                  by_device_pointer(params->dstMemoryType)},
                 {&Box::dstXInBytes, &Box::dstY, &Box::dstZ}, &Box::WidthInBytes,
                 {params->WidthInBytes, params->Height, params->Depth});
  }
  using Box = WideMemcpy3D;
  const auto* const wide = reinterpret_cast<const Box*>(params);
  const Box* const checked = check(wide, &copy->wide_driver_box, &Box::src_device,
                                   {wide->src_x_bytes, wide->src_y, wide->src_z, wide->src_pitch, wide->src_height,
                                    by_device_pointer(wide->src_type)},
                                   {&Box::src_x_bytes, &Box::src_y, &Box::src_z}, &Box::dst_device,
                                   {wide->dst_x_bytes, wide->dst_y, wide->dst_z, wide->dst_pitch, wide->dst_height,
                                    by_device_pointer(wide->dst_type)},
                                   {&Box::dst_x_bytes, &Box::dst_y, &Box::dst_z}, &Box::width_bytes,
                                   {wide->width_bytes, wide->height, wide->depth});
  return reinterpret_cast<const HIP_MEMCPY3D*>(checked);
}

const hipMemsetParams* checked_params(const hipMemsetParams* params, ParamsCopy* copy) noexcept {
  if (params == nullptr) return nullptr;
  copy->fill = *params;
  return refuse(copy->fill, params->elementSize) ? &copy->fill : params;
}

const hipMemsetParams* checked_driver_fill(const hipMemsetParams* params, ParamsCopy* copy) noexcept {
  if (params == nullptr || runtime_version() >= kOneFillSince) return checked_params(params, copy);
  std::memcpy(&copy->driver_fill, static_cast<const void*>(params), sizeof copy->driver_fill);
  const bool refused = refuse(copy->driver_fill, copy->driver_fill.element_bytes);
  return refused ? reinterpret_cast<const hipMemsetParams*>(&copy->driver_fill) : params;
}

bool plain_copy(const HIP_MEMCPY3D* params, hipMemcpy3DParms* plain) noexcept {
  if (params == nullptr) return false;
  WideMemcpy3D wide{};
  if (runtime_version() < kWideSince) {
    const HIP_MEMCPY3D& p = *params;
    wide = {p.srcXInBytes, p.srcY,      p.srcZ,          p.srcLOD,    p.srcMemoryType, p.srcHost,
            p.srcDevice,   p.srcArray,  p.srcPitch,      p.srcHeight, p.dstXInBytes,   p.dstY,
            p.dstZ,        p.dstLOD,    p.dstMemoryType, p.dstHost,   p.dstDevice,     p.dstArray,
            p.dstPitch,    p.dstHeight, p.WidthInBytes,  p.Height,    p.Depth};
  } else {
    std::memcpy(&wide, static_cast<const void*>(params), sizeof wide);
  }
  if (static_cast<int>(wide.src_type) != device_type() || static_cast<int>(wide.dst_type) != device_type() ||
      wide.src_host != nullptr || wide.dst_host != nullptr || wide.src_array != nullptr || wide.dst_array != nullptr ||
      wide.src_level != 0 || wide.dst_level != 0)
    return false;
  *plain = {};
  plain->srcPos = {wide.src_x_bytes, wide.src_y, wide.src_z};
  plain->srcPtr = {wide.src_device, wide.src_pitch, 0, wide.src_height};
  plain->dstPos = {wide.dst_x_bytes, wide.dst_y, wide.dst_z};
  plain->dstPtr = {wide.dst_device, wide.dst_pitch, 0, wide.dst_height};
  plain->extent = {wide.width_bytes, wide.height, wide.depth};
  plain->kind = hipMemcpyDeviceToDevice;
  return true;
}

const HIP_MEMCPY3D* driver_copy(const hipMemcpy3DParms& plain, ParamsCopy* copy) noexcept {
  const auto type = static_cast<hipMemoryType>(device_type());
  if (runtime_version() >= kWideSince) {
    copy->wide_driver_box = {plain.srcPos.x,
                             plain.srcPos.y,
                             plain.srcPos.z,
                             0,
                             type,
                             nullptr,
                             plain.srcPtr.ptr,
                             nullptr,
                             plain.srcPtr.pitch,
                             plain.srcPtr.ysize,
                             plain.dstPos.x,
                             plain.dstPos.y,
                             plain.dstPos.z,
                             0,
                             type,
                             nullptr,
                             plain.dstPtr.ptr,
                             nullptr,
                             plain.dstPtr.pitch,
                             plain.dstPtr.ysize,
                             plain.extent.width,
                             plain.extent.height,
                             plain.extent.depth};
    return reinterpret_cast<const HIP_MEMCPY3D*>(&copy->wide_driver_box);
  }
  const auto narrow = [](std::size_t size) { return static_cast<unsigned>(size); };
  copy->driver_box = {narrow(plain.srcPos.x),
                      narrow(plain.srcPos.y),
                      narrow(plain.srcPos.z),
                      0,
                      type,
                      nullptr,
                      plain.srcPtr.ptr,
                      nullptr,
                      narrow(plain.srcPtr.pitch),
                      narrow(plain.srcPtr.ysize),
                      narrow(plain.dstPos.x),
                      narrow(plain.dstPos.y),
                      narrow(plain.dstPos.z),
                      0,
                      type,
                      nullptr,
                      plain.dstPtr.ptr,
                      nullptr,
                      narrow(plain.dstPtr.pitch),
                      narrow(plain.dstPtr.ysize),
                      narrow(plain.extent.width),
                      narrow(plain.extent.height),
                      narrow(plain.extent.depth)};
  return &copy->driver_box;
}

const hipMemsetParams* plain_fill(const hipMemsetParams* driver, hipMemsetParams* plain) noexcept {
  if (driver == nullptr || runtime_version() >= kOneFillSince) return driver;
  DriverFill fill;
  std::memcpy(&fill, static_cast<const void*>(driver), sizeof fill);
  *plain = {};
  plain->dst = fill.dst;
  plain->elementSize = fill.element_bytes;
  plain->value = fill.value;
  plain->pitch = fill.pitch;
  plain->width = fill.width;
  plain->height = fill.height;
  return plain;
}

const void* checked_node(const void* params, ParamsCopy* copy) noexcept {
  if (params == nullptr) return nullptr;
  const auto* const node = static_cast<const AnyNodeParams*>(params);
  ParamsCopy part;
  if (node->type == AnyNodeParams::kCopy) {
    const hipMemcpy3DParms* const checked = checked_params(&node->copy.params, &part);
    if (checked == &node->copy.params) return params;
    copy->node = *node;
    copy->node.copy.params = *checked;
    return &copy->node;
  }
  if (node->type == AnyNodeParams::kFill) {
    const hipMemsetParams* const checked = checked_params(&node->fill, &part);
    if (checked == &node->fill) return params;
    copy->node = *node;
    copy->node.fill = *checked;
    return &copy->node;
  }
  return params;
}

MemoryOperation* checked_batch(MemoryOperation* operations, std::size_t count, std::vector<MemoryOperation>* copy) {
  constexpr std::size_t kMost = 256;  // HIP takes fewer
  if (operations == nullptr || count >= kMost) return operations;
  for (std::size_t i = 0; i < count; ++i) {
    const int kind = operations[i].kind;
    const bool wide = kind == MemoryOperation::kWait64 || kind == MemoryOperation::kWrite64;
    if (!wide && kind != MemoryOperation::kWait32 && kind != MemoryOperation::kWrite32) continue;
    const std::size_t bytes = value_bytes(operations[i].address, wide ? 8 : 4).bytes;
    void* const checked = address_guard().value_operand(operations[i].address, bytes);
    if (checked == operations[i].address) continue;
    if (copy->empty()) copy->assign(operations, operations + count);
    (*copy)[i].address = checked;
  }
  return copy->empty() ? operations : copy->data();
}

const void* checked_operations(const void* params, ParamsCopy* copy, std::vector<MemoryOperation>* operations) {
  if (params == nullptr) return nullptr;
  copy->operations = *static_cast<const MemoryOperationsNode*>(params);
  MemoryOperation*& named = copy->operations.operations;
  MemoryOperation* const checked = checked_batch(named, copy->operations.count, operations);
  return std::exchange(named, checked) == checked ? params : &copy->operations;
}

}  // namespace graphpool
