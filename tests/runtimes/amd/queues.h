// queues.h: queues of packets (AQL), each processed in order by a thread of its own.
#pragma once

#include "abi.h"

namespace hsa_cpu {

/// The doorbell of a queue: its thread looks for packets.
void ring_doorbell(amd_signal_t* doorbell);

}  // namespace hsa_cpu
