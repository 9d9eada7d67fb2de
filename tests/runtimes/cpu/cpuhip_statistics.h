/* cpuhip_statistics.h: what the CPU runtime holds and does at this moment, for tests that prove that nothing grows, or
 * that something waits. Exported by the CPU runtime only; tests that run on others too look it up:
 * dlsym(RTLD_DEFAULT, "cpuhip_statistics"). */
#ifndef CPUHIP_STATISTICS_H
#define CPUHIP_STATISTICS_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

struct cpuhip_statistics_t {
  size_t graphs; /* live graphs, those inside child nodes too */
  size_t nodes;  /* live nodes of live graphs */
  size_t execs;  /* live executable graphs, those destroyed but still running too */
  size_t user_objects;
  size_t captures;            /* streams that take part in a capture */
  size_t node_argument_bytes; /* kernel arguments held by nodes */
  size_t exec_argument_bytes; /* kernel arguments held by execs; every update takes new space until the exec is gone */
  size_t graph_memory_bytes;  /* memory of alloc nodes */
  size_t launches;            /* graph launches that have not finished */
  size_t helper_threads;      /* threads started for branches of graphs */
  size_t device_bytes;        /* memory of all devices in use, physical memory of handles too */
  size_t streams;             /* live streams, null streams that were used too */
  size_t events;              /* live events */
  size_t reservations;        /* reserved ranges of addresses */
  size_t physical_handles;    /* handles of physical memory, those released but still mapped too */
  size_t waiting_calls;       /* threads in a call that waits for work */
};

void cpuhip_statistics(struct cpuhip_statistics_t* out);

/* Whether what comes next in the stream's queue waits for work of other streams: it is at the head, and only that keeps
 * it. stream: a hipStream_t. */
int cpuhip_held_up(void* stream);

/* Whether a function refuses a destroyed handle with CPUHIP_GONE=looked_up. noun: "graph", "executable graph" or
 * "graph node". */
int cpuhip_looks_up(const char* function, const char* noun);

/* The after-th call from now on, whatever its name and thread, returns code; 0 disarms it. As CPUHIP_FAIL, but for one
 * program of several in a process. */
void cpuhip_fail(unsigned long long after, int code);

#ifdef __cplusplus
}
#endif

#endif
