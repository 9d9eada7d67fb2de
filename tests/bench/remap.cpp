// remap.cpp: two ways to put other memory under a fixed address, by size and by number of devices: remapping (wait for
// the devices, unmap, map, grant access to all of them) and a slot (a copy on the device, in the stream's order). Each
// device has an address and two pieces of memory of its own; a cycle serves all devices. Microseconds a cycle.
#include <string>

#include "timing.h"

namespace {

struct Device {
  void *place = nullptr, *source = nullptr;
  hipMemGenericAllocationHandle_t memory[2] = {};
  hipStream_t stream = nullptr;
};

hipMemAllocationProp properties_of(int device) {
  hipMemAllocationProp properties{};
  properties.type = hipMemAllocationTypePinned;
  properties.location = {hipMemLocationTypeDevice, device};
  return properties;
}

class Remap {
 public:
  Remap(int devices, std::size_t bytes) : bytes_(bytes), devices_(static_cast<std::size_t>(devices)) {
    for (int i = 0; i < devices; ++i)
      access_.push_back({{hipMemLocationTypeDevice, i}, hipMemAccessFlagsProtReadWrite});
    for (int i = 0; i < devices; ++i) {
      Device& device = devices_[static_cast<std::size_t>(i)];
      const hipMemAllocationProp properties = properties_of(i);
      bench::check(hipSetDevice(i));
      bench::check(hipStreamCreateWithFlags(&device.stream, hipStreamNonBlocking));
      bench::check(hipMemAddressReserve(&device.place, bytes_, 0, nullptr, 0));
      for (hipMemGenericAllocationHandle_t& memory : device.memory)
        bench::check(hipMemCreate(&memory, bytes_, &properties, 0));
      bench::check(hipMalloc(&device.source, bytes_));
      map(device, 0);
      bench::check(hipMemset(device.source, 0, bytes_));
    }
    synchronize();
  }
  Remap(const Remap&) = delete;
  Remap& operator=(const Remap&) = delete;
  ~Remap() {
    synchronize();
    for (const Device& device : devices_) {
      bench::check(hipMemUnmap(device.place, bytes_));
      for (const hipMemGenericAllocationHandle_t& memory : device.memory) bench::check(hipMemRelease(memory));
      bench::check(hipMemAddressFree(device.place, bytes_));
      bench::check(hipFree(device.source));
      bench::check(hipStreamDestroy(device.stream));
    }
  }

  double remap_us() {
    return us_per_cycle([&](int cycle) {
      synchronize();
      for (const Device& device : devices_) {
        bench::check(hipMemUnmap(device.place, bytes_));
        map(device, cycle % 2);
      }
    });
  }

  double slot_us() {
    return us_per_cycle([&](int) {
      for (const Device& device : devices_)
        bench::check(hipMemcpyAsync(device.place, device.source, bytes_, hipMemcpyDeviceToDevice, device.stream));
    });
  }

 private:
  /// The median over batches of cycles, complete on the devices at the end of each batch.
  template <typename Cycle>
  double us_per_cycle(Cycle&& cycle) {
    constexpr int kBatches = 9, kCycles = 6;
    std::vector<double> results;
    for (int batch = -1; batch < kBatches; ++batch) {
      const auto start = std::chrono::steady_clock::now();
      for (int i = 1; i <= kCycles; ++i) cycle(i);
      synchronize();
      const std::chrono::duration<double, std::micro> elapsed = std::chrono::steady_clock::now() - start;
      if (batch >= 0) results.push_back(elapsed.count() / kCycles);
    }
    return bench::median(results);
  }

  void map(const Device& device, int which) {
    bench::check(hipMemMap(device.place, bytes_, 0, device.memory[which], 0));
    bench::check(hipMemSetAccess(device.place, bytes_, access_.data(), access_.size()));
  }

  void synchronize() {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      bench::check(hipSetDevice(static_cast<int>(i)));
      bench::check(hipDeviceSynchronize());
    }
  }

  const std::size_t bytes_;
  std::vector<hipMemAccessDesc> access_;
  std::vector<Device> devices_;
};

}  // namespace

int main(int argc, char** argv) {
  const std::size_t most = (argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1024) << 20;
  int present = 0;
  bench::check(hipGetDeviceCount(&present));
  for (int devices = 1; devices <= present; devices *= 2) {
    for (std::size_t bytes = std::size_t{2} << 20; bytes <= most; bytes *= 2) {
      Remap remap(devices, bytes);
      const std::string name = std::to_string(devices) + (devices == 1 ? " device, " : " devices, ") +
                               std::to_string(bytes >> 20) + " MiB: ";
      bench::print((name + "remap").c_str(), remap.remap_us(), "us");
      bench::print((name + "slot").c_str(), remap.slot_us(), "us");
    }
  }
  return 0;
}
