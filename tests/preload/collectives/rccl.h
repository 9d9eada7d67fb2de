// rccl.h: the part of RCCL's interface that fake_rccl.cpp has.
#pragma once

#include <hip/hip_runtime_api.h>

#include <cstddef>

extern "C" {
typedef struct ncclComm* ncclComm_t;
typedef enum {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclInternalError = 3,
  ncclInvalidArgument = 4
} ncclResult_t;
typedef enum { ncclInt = 2 } ncclDataType_t;
typedef enum { ncclSum = 0 } ncclRedOp_t;

ncclResult_t ncclCommInitAll(ncclComm_t* comms, int count, const int* devices);
ncclResult_t ncclAllReduce(const void* send, void* receive, std::size_t count, ncclDataType_t type, ncclRedOp_t op,
                           ncclComm_t comm, hipStream_t stream);
/// Waits until nobody holds what the communicator gave to graphs; ncclInternalError, with a line on stderr, after 30 s.
ncclResult_t ncclCommDestroy(ncclComm_t comm);

/// What the communicator gave to graphs that is still held, and how often its host function has run. RCCL has no such
/// functions.
int fakeRcclHeld(ncclComm_t comm);
unsigned long fakeRcclProxied(ncclComm_t comm);
}

/// In a test: the call succeeds, or the test ends.
#define NCCL_OK(call)               \
  do {                              \
    ASSERT_EQ(ncclSuccess, (call)); \
  } while (false)
