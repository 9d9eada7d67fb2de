// forward.S: the exported functions of rows without a body, whatever their parameters: count, then jump to next.
// A call takes the slow way first until the library has started, and while a capture is open: then the library must
// learn of operations that it does not understand, and of calls that may have invalidated the capture.
// Also here: the table of our exported addresses, and the stubs of dlsym and dlvsym, which must jump to the real
// functions because these look at their return address.

#define HIP_HOOK(result, name, params, args, node, declared, effect) .set gp_slot, gp_slot + 8 ;
#ifdef GP_TIME_CALLS  // entry_points.cpp has the exported function, which calls this one
#define HIP_NEXT(result, name, params, args, node, declared, effect) \
  .hidden gp_untimed_##name ; HIP_FORWARD(gp_untimed_##name, node, effect)
#else
#define HIP_NEXT(result, name, params, args, node, declared, effect) HIP_FORWARD(name, node, effect)
#endif
#define HIP_FORWARD(name, node, effect) \
  .globl name ; .type name, @function ; .p2align 4 ; \
name: endbr64 ; \
  incq gp_calls + gp_slot(%rip) ; \
  cmpb $0, gp_attention(%rip) ; \
  jne 1f ; \
  jmp *gp_next + gp_slot(%rip) ; \
1: pushq $(gp_slot / 8) ; \
  jmp gp_slow ; \
  .size name, . - name ; \
  .set gp_slot, gp_slot + 8 ;

  .text
  .set gp_slot, 0
#include "shim/hip/hip_hooks.def"

// The entry's index is on the stack. Saves everything that can hold an argument, asks gp_forward_slow(index) for the
// address to jump to.
  .type gp_slow, @function
gp_slow:
  pushq %rax
  pushq %rdi
  pushq %rsi
  pushq %rdx
  pushq %rcx
  pushq %r8
  pushq %r9
  subq $136, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
  movq 192(%rsp), %rdi
  call gp_forward_slow
  movq %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  addq $136, %rsp
  popq %r9
  popq %r8
  popq %rcx
  popq %rdx
  popq %rsi
  popq %rdi
  popq %rax
  addq $8, %rsp
  jmp *%r11
  .size gp_slow, . - gp_slow

// void* dlsym(void* handle, const char* name), void* dlvsym(void* handle, const char* name, const char* version).
// gp_lookup(handle, name, version or null, caller) returns {address, answered}; not answered: the next function is
// entered with the caller's own frame.
  .globl dlsym, gp_dlsym
  .hidden gp_dlsym
  .type dlsym, @function
dlsym:
gp_dlsym:
  endbr64
  pushq %rdi
  pushq %rsi
  pushq %rdx
  xorl %edx, %edx
  movq 24(%rsp), %rcx
  call gp_lookup
  movq %rdx, %r11
  popq %rdx
  popq %rsi
  popq %rdi
  testq %r11, %r11
  jne 1f
  jmp *gp_next_dlsym(%rip)
1: ret
  .size dlsym, . - dlsym

  .globl dlvsym, gp_dlvsym
  .hidden gp_dlvsym
  .type dlvsym, @function
dlvsym:
gp_dlvsym:
  endbr64
  pushq %rdi
  pushq %rsi
  pushq %rdx
  movq 24(%rsp), %rcx
  call gp_lookup
  movq %rdx, %r11
  popq %rdx
  popq %rsi
  popq %rdi
  testq %r11, %r11
  jne 1f
  jmp *gp_next_dlvsym(%rip)
1: ret
  .size dlvsym, . - dlvsym

// Other names of the same entries; jumps, as entries with a body are defined elsewhere.
#define HIP_ALIAS(name, exported) \
  .globl exported ; .type exported, @function ; .p2align 4 ; \
exported: endbr64 ; \
  jmp name@PLT ; \
  .size exported, . - exported ;
#include "shim/hip/hip_aliases.def"

// Our exported address of every entry, by id.
#undef HIP_HOOK
#undef HIP_NEXT
#undef HIP_FORWARD
#define HIP_HOOK(result, name, params, args, node, declared, effect) .quad name ;
#define HIP_NEXT(result, name, params, args, node, declared, effect) .quad name ;
#define HIP_FORWARD(name, node, effect) .quad name ;
  .section .data.rel.ro, "aw"
  .globl gp_entries
  .hidden gp_entries
  .p2align 3
gp_entries:
#include "shim/hip/hip_hooks.def"

  .section .note.GNU-stack, "", @progbits
