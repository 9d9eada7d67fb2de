// properties_r0600.h: the layout that hipDeviceProp_t has from HIP 6 on.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

namespace hipfront {

/// hipDeviceProp_t as HIP 6 lays it out (R0600).
struct PropertiesR0600 {
  char name[256];
  char uuid[16], luid[8];
  unsigned luid_mask;
  std::size_t total_bytes, shared_bytes_per_block;
  int registers_per_block, warp_size;
  std::size_t max_pitch;
  int max_threads_per_block, max_threads_dim[3], max_grid[3], clock_khz;
  std::size_t constant_bytes;
  int major, minor;
  std::size_t texture_alignment, texture_pitch_alignment;
  int device_overlap, processors, kernel_timeout, integrated, can_map_host, compute_mode;
  int textures_and_surfaces[40];
  std::size_t surface_alignment;
  int concurrent_kernels, ecc, pci_bus, pci_device, pci_domain, tcc, async_engines, unified_addressing;
  int memory_clock_khz, memory_bus_bits, l2_bytes, persisting_l2_bytes, max_threads_per_processor;
  int stream_priorities, global_l1, local_l1;
  std::size_t shared_bytes_per_processor;
  int registers_per_processor, managed_memory, multi_gpu_board, multi_gpu_board_group, host_native_atomics;
  int single_to_double, pageable_access, concurrent_managed_access, preemption, host_pointer_for_registered;
  int cooperative_launch, cooperative_multi_device_launch;
  std::size_t shared_bytes_opt_in;
  int pageable_host_tables, direct_managed_access, max_blocks_per_processor, access_window_bytes;
  std::size_t reserved_shared_bytes;
  int host_register, sparse_arrays, host_register_read_only, timeline_semaphores, memory_pools, gpu_direct;
  unsigned gpu_direct_flush;
  int gpu_direct_ordering;
  unsigned pool_handle_types;
  int deferred_mapping, ipc_events, cluster_launch, unified_functions, reserved[63], hip_reserved[32];
  char arch_name[256];
  std::size_t max_shared_bytes_per_processor;
  int clock_instruction_rate;
  hipDeviceArch_t arch;
  unsigned *hdp_memory_flush, *hdp_register_flush;
  int unmatched_function, unmatched_grid, unmatched_block, unmatched_shared, large_bar, asic_revision;
};
static_assert(sizeof(PropertiesR0600) == 1472, "HIP 6's hipDeviceProp_t has 1472 bytes: compare the members");

}  // namespace hipfront
