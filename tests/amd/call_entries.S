// call_entries.S: the functions that call_journal.cpp stands in for. Each keeps what may hold arguments, asks where to go
// on, and jumps there.
.macro KEEP
  push %rdi
  push %rsi
  push %rdx
  push %rcx
  push %r8
  push %r9
  push %rax
  sub $128, %rsp
  movups %xmm0, (%rsp)
  movups %xmm1, 16(%rsp)
  movups %xmm2, 32(%rsp)
  movups %xmm3, 48(%rsp)
  movups %xmm4, 64(%rsp)
  movups %xmm5, 80(%rsp)
  movups %xmm6, 96(%rsp)
  movups %xmm7, 112(%rsp)
.endm
.macro GO_ON
  mov %rax, %r11
  movups (%rsp), %xmm0
  movups 16(%rsp), %xmm1
  movups 32(%rsp), %xmm2
  movups 48(%rsp), %xmm3
  movups 64(%rsp), %xmm4
  movups 80(%rsp), %xmm5
  movups 96(%rsp), %xmm6
  movups 112(%rsp), %xmm7
  add $128, %rsp
  pop %rax
  pop %r9
  pop %r8
  pop %rcx
  pop %rdx
  pop %rsi
  pop %rdi
  jmp *%r11
.endm

.text
.p2align 4
entry:
  KEEP
  mov %r11, %rdi
  mov 184(%rsp), %rsi  // the return address
  call journal_call@PLT
  GO_ON

.hidden journal_malloc_entry
.globl journal_malloc_entry
.type journal_malloc_entry, @function
.p2align 4
journal_malloc_entry:
  KEEP
  mov 184(%rsp), %rdi
  call journal_malloc@PLT
  GO_ON

.set row, 0
#define CALL(name, fallible) .globl name; .type name, @function; name: mov $row, %r11d; jmp entry; .set row, row + 1
#include "call_names.inc"

.section .note.GNU-stack, "", @progbits
