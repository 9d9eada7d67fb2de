// images.cpp: HSA's images, which here are linear memory: rows of pixels, one after the other. AMD's runtime (clr)
// makes HIP's arrays of images, and refuses pitched memory on a device without images.
#include <cstring>

#include "agents.h"
#include "memory.h"
#include "settings.h"

namespace hsa_cpu {
namespace {

constexpr std::size_t kRowAlignment = 256;

/// What an image's handle points to. Kernels get its first 32 bytes in registers.
struct Image {
  char* base;
  std::uint32_t width, height, depth, pixel_bytes;
  std::uint64_t row_bytes, slice_bytes;
};

std::size_t channels_of(hsa_ext_image_channel_order32_t order) {
  switch (order) {
    case HSA_EXT_IMAGE_CHANNEL_ORDER_RG:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_RA:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_RGX:
      return 2;
    case HSA_EXT_IMAGE_CHANNEL_ORDER_RGB:
      return 3;
    case HSA_EXT_IMAGE_CHANNEL_ORDER_A:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_R:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_RX:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_INTENSITY:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_LUMINANCE:
    case HSA_EXT_IMAGE_CHANNEL_ORDER_DEPTH:
      return 1;
    default:
      return 4;
  }
}

std::size_t channel_bytes(hsa_ext_image_channel_type32_t type) {
  switch (type) {
    case HSA_EXT_IMAGE_CHANNEL_TYPE_SNORM_INT8:
    case HSA_EXT_IMAGE_CHANNEL_TYPE_UNORM_INT8:
    case HSA_EXT_IMAGE_CHANNEL_TYPE_SIGNED_INT8:
    case HSA_EXT_IMAGE_CHANNEL_TYPE_UNSIGNED_INT8:
      return 1;
    case HSA_EXT_IMAGE_CHANNEL_TYPE_SIGNED_INT32:
    case HSA_EXT_IMAGE_CHANNEL_TYPE_UNSIGNED_INT32:
    case HSA_EXT_IMAGE_CHANNEL_TYPE_FLOAT:
      return 4;
    default:
      return 2;
  }
}

struct Shape {
  Image image;
  std::size_t bytes;
};
Shape shape_of(const hsa_ext_image_descriptor_t& wanted, std::size_t row_bytes, std::size_t slice_bytes) {
  const auto at_least_one = [](std::size_t value) { return static_cast<std::uint32_t>(value == 0 ? 1 : value); };
  Image image{};
  image.width = at_least_one(wanted.width);
  image.height = at_least_one(wanted.height);
  image.depth = at_least_one(wanted.depth != 0 ? wanted.depth : wanted.array_size);
  image.pixel_bytes =
      static_cast<std::uint32_t>(channels_of(wanted.format.channel_order) * channel_bytes(wanted.format.channel_type));
  image.row_bytes = row_bytes != 0 ? row_bytes : round_up(image.width * image.pixel_bytes, kRowAlignment);
  image.slice_bytes = slice_bytes != 0 ? slice_bytes : image.row_bytes * image.height;
  return {image, image.slice_bytes * image.depth};
}

hsa_status_t make(const hsa_ext_image_descriptor_t& wanted, const void* data, std::size_t row_bytes,
                  std::size_t slice_bytes, hsa_ext_image_t* out) {
  auto* const image = new Image(shape_of(wanted, row_bytes, slice_bytes).image);
  image->base = static_cast<char*>(const_cast<void*>(data));
  out->handle = reinterpret_cast<std::uint64_t>(image);
  return HSA_STATUS_SUCCESS;
}

/// Copies the rows of a region between an image and linear memory. A pitch of 0 means that the rows, or slices, of the
/// linear memory follow each other without gaps. `to_image`: the image is what is written.
hsa_status_t copy_region(hsa_ext_image_t handle, char* linear, std::size_t row_bytes, std::size_t slice_bytes,
                         const hsa_ext_image_region_t* region, bool to_image) {
  const Image& image = *reinterpret_cast<const Image*>(handle.handle);
  if (linear == nullptr || region == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const auto& from = region->offset;
  const auto& range = region->range;
  if (from.x + range.x > image.width || from.y + range.y > image.height || from.z + range.z > image.depth)
    return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const std::size_t bytes = std::size_t{range.x} * image.pixel_bytes;
  if (row_bytes == 0) row_bytes = bytes;
  if (slice_bytes == 0) slice_bytes = row_bytes * range.y;
  for (std::uint32_t z = 0; z < range.z; ++z) {
    for (std::uint32_t y = 0; y < range.y; ++y) {
      char* const pixels = image.base + (from.z + z) * image.slice_bytes + (from.y + y) * image.row_bytes +
                           std::size_t{from.x} * image.pixel_bytes;
      char* const row = linear + z * slice_bytes + y * row_bytes;
      std::memcpy(to_image ? pixels : row, to_image ? row : pixels, bytes);
    }
  }
  return HSA_STATUS_SUCCESS;
}

/// A sampler: how a kernel reads an image. Only its making and its end are here: the interpreter has no instruction
/// that reads an image, and refuses a kernel that has one.
struct Sampler {
  hsa_ext_sampler_coordinate_mode32_t coordinates;
  hsa_ext_sampler_filter_mode32_t filter;
  hsa_ext_sampler_addressing_mode32_t beyond[3];
};
hsa_status_t make_sampler(const Sampler& wanted, hsa_ext_sampler_t* out) {
  if (out == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  out->handle = reinterpret_cast<std::uint64_t>(new Sampler(wanted));
  return HSA_STATUS_SUCCESS;
}

}  // namespace
}  // namespace hsa_cpu

using namespace hsa_cpu;

HSA_CPU_API hsa_status_t hsa_ext_image_data_get_info(hsa_agent_t, const hsa_ext_image_descriptor_t* wanted,
                                                     hsa_access_permission_t, hsa_ext_image_data_info_t* out) {
  *out = {shape_of(*wanted, 0, 0).bytes, kPage};
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_ext_image_create(hsa_agent_t, const hsa_ext_image_descriptor_t* wanted, const void* data,
                                              hsa_access_permission_t, hsa_ext_image_t* out) {
  return make(*wanted, data, 0, 0, out);
}
HSA_CPU_API hsa_status_t hsa_ext_image_create_with_layout(hsa_agent_t, const hsa_ext_image_descriptor_t* wanted,
                                                          const void* data, hsa_access_permission_t,
                                                          hsa_ext_image_data_layout_t, std::size_t row_bytes,
                                                          std::size_t slice_bytes, hsa_ext_image_t* out) {
  return make(*wanted, data, row_bytes, slice_bytes, out);
}
HSA_CPU_API hsa_status_t hsa_amd_image_create(hsa_agent_t, const hsa_ext_image_descriptor_t* wanted,
                                              const hsa_amd_image_descriptor_t*, const void* data,
                                              hsa_access_permission_t, hsa_ext_image_t* out) {
  return make(*wanted, data, 0, 0, out);
}
HSA_CPU_API hsa_status_t hsa_ext_image_destroy(hsa_agent_t, hsa_ext_image_t image) {
  delete reinterpret_cast<Image*>(image.handle);
  return HSA_STATUS_SUCCESS;
}
HSA_CPU_API hsa_status_t hsa_ext_image_export(hsa_agent_t, hsa_ext_image_t image, void* memory, std::size_t row_bytes,
                                              std::size_t slice_bytes, const hsa_ext_image_region_t* region) {
  return copy_region(image, static_cast<char*>(memory), row_bytes, slice_bytes, region, false);
}
HSA_CPU_API hsa_status_t hsa_ext_image_import(hsa_agent_t, const void* memory, std::size_t row_bytes,
                                              std::size_t slice_bytes, hsa_ext_image_t image,
                                              const hsa_ext_image_region_t* region) {
  return copy_region(image, static_cast<char*>(const_cast<void*>(memory)), row_bytes, slice_bytes, region, true);
}

HSA_CPU_API hsa_status_t hsa_ext_sampler_create(hsa_agent_t, const hsa_ext_sampler_descriptor_t* wanted,
                                                hsa_ext_sampler_t* out) {
  if (wanted == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  const auto beyond = wanted->address_mode;
  return make_sampler({wanted->coordinate_mode, wanted->filter_mode, {beyond, beyond, beyond}}, out);
}
HSA_CPU_API hsa_status_t hsa_ext_sampler_create_v2(hsa_agent_t, const SamplerDescription* wanted,
                                                   hsa_ext_sampler_t* out) {
  if (wanted == nullptr) return HSA_STATUS_ERROR_INVALID_ARGUMENT;
  return make_sampler({wanted->coordinates, wanted->filter, {wanted->beyond[0], wanted->beyond[1], wanted->beyond[2]}},
                      out);
}
HSA_CPU_API hsa_status_t hsa_ext_sampler_destroy(hsa_agent_t, hsa_ext_sampler_t sampler) {
  delete reinterpret_cast<Sampler*>(sampler.handle);
  return HSA_STATUS_SUCCESS;
}
