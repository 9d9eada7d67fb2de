#!/usr/bin/env python3
"""operations_test.py RUN_CASES LLVM_MC [PATTERN]: each operation of the tables, assembled by LLVM and run, against model.py.

For every row: its encodings (32 and 64 bits, SDWA, DPP, packed), with registers, scalars, constants, modifiers and execution
masks at random among edge values. A row that nothing here tests is an error. Exit code 77: no assembler (skipped).
"""
import array
import fnmatch
import inspect
import math
import random
import re
import struct
import subprocess
import sys

import model
from model import D, F, H, M16, M32, M64

TARGETS = ('gfx906', 'gfx908', 'gfx90a')
(SOP1, SOP2, SOPK, SOPC, SOPP, SMEM, VOP1, VOP2, VOPC, VOP3, VOP3P, DS, MUBUF, FLAT, GLOBAL, SCRATCH) = range(16)
(NONE, U16, I16, F16, U32, I32, F32, U64, I64, F64, PACKED16, PACKEDF16, PACKEDF32, MIXED) = range(14)
IN, OUT, ACCUMULATES, KEEPS_HIGH, WRITES_EXEC, LITERAL_B, LITERAL_C, IMPLICIT_VCC = (1 << k for k in range(8))
WIDE, HALVES, FLOATS = {U64, I64, F64, PACKEDF32}, {U16, I16, F16}, {F16, F32, F64}
FORMS = {F16: H, F32: F, F64: D}
VCC, M0, EXEC = 106, 124, 126
ALL = M64
MEMORY = 0x200000000000
ENDS = (0xbf810000,)

# struct Case of run_cases.cpp, in words
CODE, S, SCC, MODE, V, A, BYTES, LDS, OWN = 0, 64, 192, 193, 196, 1220, 3268, 3780, 4036
WORDS = 4548
CODE_WORDS = 64
USUAL_MODE = 0xf0

EDGES = [0, 1, 2, 3, 31, 32, 63, 64, 0x7f, 0x80, 0xff, 0x7fff, 0x8000, 0xffff, 0x7fffff, 0x800000, 0xffffff, 0x7fffffff, 0x80000000,
         0xffffffff, 0xfffffffe, 0x3f800000, 0xbf800000, 0x3f000000, 0x40000000, 0x7f800000, 0xff800000, 0x7fc00000, 0x7f7fffff, 0x00800000,
         0x007fffff, 0x4b000000, 0x4f000000, 0x4f800000, 0xcf000000, 0x3f7fffff, 0x40490fdb, 0x3fc00000, 0x40200000]
EDGES64 = [0, 1, 1 << 63, M64, (1 << 63) - 1, 1 << 52, 0x3ff0000000000000, 0xbff0000000000000, 0x4000000000000000, 0x3fe0000000000000,
           0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0x7fefffffffffffff, 0x0010000000000000, 0x000fffffffffffff,
           0x41e0000000000000, 0xc1e0000000000000, 0x41f0000000000000, 0x3ff8000000000000, 0x4004000000000000]
EDGES16 = [0, 1, 0x8000, 0x3c00, 0xbc00, 0x7c00, 0xfc00, 0x7e00, 0x7bff, 0x0400, 0x03ff, 0x4248, 0x3800, 0x4000, 0xffff, 0x7fff, 0x6400]


class Row:
    def __init__(self, line):
        self.name, *numbers = line.split()
        self.format, self.opcode, self.traits, self.result, *self.sources, self.saturates = map(int, numbers)
        self.sources = [t for t in self.sources if t != NONE]

    def has(self, trait):
        return bool(self.traits & trait)


def value(kind, rng):
    """Bits of a source of this type: often an edge, often near another, else any."""
    pick = rng.random()
    if kind in WIDE and kind != PACKEDF32:
        if pick < 0.35: return rng.choice(EDGES64)
        if kind == F64 and pick < 0.8:
            return rng.getrandbits(1) << 63 | (1023 + rng.randint(-40, 40)) << 52 | rng.getrandbits(52) & rng.choice((M64, 0xff00000000000))
        return rng.getrandbits(64)
    def one():
        if kind in HALVES or kind in (PACKED16, PACKEDF16):
            return rng.choice(EDGES16) if rng.random() < 0.4 else rng.getrandbits(16)
        if kind == MIXED and rng.random() < 0.5:
            return rng.getrandbits(15) | rng.getrandbits(1) << 15
        if rng.random() < 0.3: return rng.choice(EDGES)
        if kind in (F32, MIXED, PACKEDF32) and rng.random() < 0.7:
            return rng.getrandbits(1) << 31 | (127 + rng.randint(-30, 30)) << 23 | rng.getrandbits(23) & rng.choice((M32, 0x7f0000))
        return rng.getrandbits(32)
    if kind == PACKEDF32: return one() | one() << 32
    if kind in HALVES or kind in (PACKED16, PACKEDF16): return one() | one() << 16
    return one()


class State:
    """Registers and memory before an instruction."""
    def __init__(self, rng):
        self.words = array.array('I', rng.randbytes(WORDS * 4))
        self.words[SCC], self.words[MODE] = rng.getrandbits(1), USUAL_MODE
        self.words[MODE + 1] = self.words[MODE + 2] = 0

    def copy(self):
        other = State.__new__(State)
        other.words = self.words[:]
        return other

    def s(self, index): return self.words[S + index]
    def s64(self, index): return self.s(index) | self.s(index + 1) << 32
    def set_s(self, index, bits): self.words[S + index] = bits & M32
    def set_s64(self, index, bits): self.set_s(index, bits); self.set_s(index + 1, bits >> 32)
    def v(self, index, lane): return self.words[V + 64 * index + lane]
    def v64(self, index, lane): return self.v(index, lane) | self.v(index + 1, lane) << 32
    def set_v(self, index, lane, bits): self.words[V + 64 * index + lane] = bits & M32
    def set_v64(self, index, lane, bits): self.set_v(index, lane, bits); self.set_v(index + 1, lane, bits >> 32)
    def read(self, index, lane, wide): return self.v64(index, lane) if wide else self.v(index, lane)
    def lanes(self): return [lane for lane in range(64) if self.s64(EXEC) >> lane & 1]
    def bytes(self, start, count):
        return int.from_bytes(self.words.tobytes()[start:start + count], 'little')
    def set_bytes(self, start, count, bits):
        data = bytearray(self.words.tobytes())
        data[start:start + count] = (bits & ((1 << 8 * count) - 1)).to_bytes(count, 'little')
        self.words = array.array('I', bytes(data))


class Case:
    def __init__(self, row, text, before, after, loose=None):
        """after: the State that is expected; loose: {word: function of the bits found} in the place of equality."""
        self.row, self.text, self.before, self.after, self.loose = row, text, before, after, loose or {}
        self.only = None  # the one target that it is for


def agrees(kind, wanted, approximate):
    """How a float result may differ from what the model says: any NaN is a NaN, approximations by some units."""
    form = FORMS[kind]
    if form.is_nan(wanted):
        return form.is_nan
    if approximate:
        def near(found):
            x, y = form.number(found), form.number(wanted)
            return x == y or abs(x - y) <= abs(y) * 4 * 2.0 ** -form.mantissa + 2.0 ** (-20 if form is F else -9 if form is H else -49)
        return near
    return None


# ---- operands as text and as bits
class Operand:
    INTEGERS = {'0': 0, '1': 1, '64': 64, '-1': -1, '-16': -16, '7': 7}
    INLINE = {'1.0': 1.0, '-0.5': -0.5, '4.0': 4.0}

    def __init__(self, kind, where, index=0, text=''):
        self.kind, self.where, self.index, self.constant = kind, where, index, text
        self.negative = self.absolute = self.extend = False
        self.select = 'DWORD'

    def text(self):
        if self.where == 'c':
            return self.constant
        name = f'{self.where}[{self.index}:{self.index + 1}]' if self.kind in WIDE else f'{self.where}{self.index}'
        if self.absolute: name = f'|{name}|'
        if self.extend: name = f'sext({name})'
        return f'-{name}' if self.negative else name

    def raw(self, state, lane):
        wide = self.kind in WIDE
        if self.where == 'v': return state.read(self.index, lane, wide)
        if self.where == 's': return state.s64(self.index) if wide else state.s(self.index)
        if self.constant in self.INTEGERS: return self.INTEGERS[self.constant] & (M64 if wide else M32)
        form = D if wide else H if self.kind in HALVES | {PACKED16, PACKEDF16} else F
        return form.bits_of(self.INLINE[self.constant])

    def bits(self, state, lane, exchanged=None):
        bits = self.raw(state, lane) if exchanged is None else exchanged
        return self.modify(bits)

    def modify(self, bits):
        if self.select != 'DWORD':
            width = 8 if self.select.startswith('BYTE') else 16
            bits = bits >> width * int(self.select[-1]) & ((1 << width) - 1)
            if self.extend and bits >> (width - 1): bits |= M32 & -1 << width
        if self.kind in FLOATS:
            form = FORMS[self.kind]
            if self.kind == F16: bits &= M16
            if self.absolute: bits &= ~form.sign
            if self.negative: bits ^= form.sign
        return bits


# ---- operations on lanes
SOURCES, DESTINATION, MASK_IN, MASK_OUT = (2, 4, 6), 8, 20, 22
SELECTS = ['BYTE_0', 'BYTE_1', 'BYTE_2', 'BYTE_3', 'WORD_0', 'WORD_1', 'DWORD']
LITERAL = 0x40490fdb


def random_state(row, rng, exec_mask):
    state = State(rng)
    state.set_s64(EXEC, exec_mask)
    kinds = row.sources + [row.result if row.result != NONE else U32]
    for kind, index in zip(row.sources, SOURCES):
        for lane in range(64):
            (state.set_v64 if kind in WIDE else state.set_v)(index, lane, value(kind, rng))
        (state.set_s64 if kind in WIDE else state.set_s)(index, value(kind, rng))
    for lane in range(64):
        kind = kinds[-1]
        (state.set_v64 if kind in WIDE else state.set_v)(DESTINATION, lane, value(kind, rng))
    if row.name.startswith(('v_div_scale', 'v_div_f')):
        prepare_division(row, state, rng)
    return state


def prepare_division(row, state, rng):
    kind = row.sources[0]
    for lane in range(64):
        read, write = (state.v64, state.set_v64) if kind == F64 else (state.v, state.set_v)
        if row.name.startswith('v_div_scale'):
            write(2, lane, read(rng.choice((4, 6)), lane))
        elif row.name.startswith('v_div_fixup'):
            form = FORMS[kind]
            keep = (1 << form.bits) - 1
            write(2, lane, model.quotient(form, read(6, lane) & keep, read(4, lane) & keep))


def lane_exchange(control, lane, state):
    """The lane that DPP reads; None where there is none or it is not active."""
    words = control.split(':', 1)
    row, at = lane & ~15, lane & 15
    argument = words[1] if len(words) > 1 else ''
    if words[0] == 'quad_perm':
        other = (lane & ~3) + [int(d) for d in re.findall(r'\d', argument)][lane & 3]
    elif words[0] == 'row_shl': other = row + at + int(argument) if at + int(argument) < 16 else None
    elif words[0] == 'row_shr': other = row + at - int(argument) if at >= int(argument) else None
    elif words[0] == 'row_ror': other = row + (at - int(argument)) % 16
    elif words[0] == 'wave_shl': other = lane + 1 if lane < 63 else None
    elif words[0] == 'wave_rol': other = (lane + 1) % 64
    elif words[0] == 'wave_shr': other = lane - 1 if lane else None
    elif words[0] == 'wave_ror': other = (lane - 1) % 64
    elif words[0] == 'row_mirror': other = row + 15 - at
    elif words[0] == 'row_half_mirror': other = (lane & ~7) + 7 - (lane & 7)
    elif control == 'row_bcast:15': other = row - 1 if row else None
    else: other = 31 if lane >= 32 else None
    return other if other is not None and state.s64(EXEC) >> other & 1 else None


CONTROLS = ['quad_perm:[1,0,3,2]', 'quad_perm:[0,0,2,2]', 'row_shl:1', 'row_shl:15', 'row_shr:1', 'row_shr:8', 'row_ror:4', 'wave_shl:1',
            'wave_rol:1', 'wave_shr:1', 'wave_ror:1', 'row_mirror', 'row_half_mirror', 'row_bcast:15', 'row_bcast:31']


class Variant:
    def __init__(self, row, operands):
        self.row, self.operands = row, operands
        self.suffix, self.tail, self.mask_in, self.mask_out = '', '', VCC, VCC
        self.select, self.unused, self.clamp, self.scale = 'DWORD', 'UNUSED_PAD', False, 1.0
        self.control, self.row_mask, self.bank_mask, self.zero = None, 15, 15, False
        self.compares = row.format == VOPC
        self.high = False

    def text(self):
        row = self.row
        pair = lambda register: 'vcc' if register == VCC else f's[{register}:{register + 1}]'
        parts = []
        if self.compares: parts.append(pair(self.mask_out))
        else: parts.append(Operand(row.result, 'v', DESTINATION).text())
        if row.has(OUT): parts.append(pair(self.mask_out))
        shown = self.operands[:2] if row.has(ACCUMULATES) else self.operands
        parts += [o.text() for o in shown]
        if row.has(IN) and not row.has(IMPLICIT_VCC): parts.append(pair(self.mask_in))
        return f'{row.name}{self.suffix} {", ".join(parts)}{self.tail}'

    def result(self, state, lane):
        row = self.row
        bits = []
        for number, operand in enumerate(self.operands):
            exchanged = None
            if number == 0 and self.control:
                other = lane_exchange(self.control, lane, state)
                exchanged = 0 if other is None else operand.raw(state, other)
            bits.append(operand.bits(state, lane, exchanged))
        if self.compares:
            return model.comparison(row.name)(*bits)
        function = model.LANES[row.name] if not (self.clamp and row.saturates) else None
        if function is None:
            extra = {}
            carry = model.LANES.get(row.name) if row.has(OUT) else None
            if carry:
                names = inspect.signature(carry).parameters
                if 'mask' in names: extra['mask'] = state.s64(self.mask_in) >> lane & 1
                wrapped, bit = carry(*bits, **extra)
                limit = M32 if row.name.startswith('v_add') else 0
                return (limit if bit else wrapped), bit
            return model.saturated(row.name, len(bits))(*bits)
        names = inspect.signature(function).parameters
        extra = {}
        if 'mask' in names: extra['mask'] = state.s64(self.mask_in) >> lane & 1
        if 'lane' in names: extra['lane'] = lane
        return function(*bits, **extra)

    def expect(self, before):
        """The state afterwards, and where it is loose."""
        row, after, loose = self.row, before.copy(), {}
        mask = 0
        for lane in before.lanes():
            outcome = self.result(before, lane)
            if self.compares:
                mask |= outcome << lane
                continue
            bit = 0
            if row.has(OUT): outcome, bit = outcome
            mask |= bit << lane
            if outcome is None:  # the manual does not say
                for word in range(2): loose[V + 64 * (DESTINATION + word) + lane] = lambda found: True
                continue
            if self.control and not self.written(before, lane): continue
            self.put(before, after, loose, lane, outcome)
        if self.compares or row.has(OUT):
            after.set_s64(self.mask_out, mask)
            if row.has(OUT) and row.name.startswith('v_div_scale'): pass
        if row.has(WRITES_EXEC): after.set_s64(EXEC, mask)
        return after, loose

    def written(self, before, lane):
        if not self.row_mask >> lane // 16 & 1 or not self.bank_mask >> lane // 4 % 4 & 1: return False
        return self.zero or lane_exchange(self.control, lane, before) is not None

    def put(self, before, after, loose, lane, bits):
        row, kind = self.row, self.row.result
        word = V + 64 * DESTINATION + lane
        old = before.v(DESTINATION, lane)
        check = None
        if kind in FLOATS:
            form = FORMS[kind]
            if self.scale != 1.0 or self.clamp:
                x = form.number(bits)
                x = form.number(form.bits_of(x * self.scale)) if x == x else x
                if self.clamp: x = (min(x, 1.0) if x > 0 else 0.0)
                bits = form.bits_of(x)
            check = agrees(kind, bits, row.name in model.APPROXIMATE)
        if kind in WIDE:
            after.set_v64(DESTINATION, lane, bits)
            if check: loose[word] = loose[word + 64] = None; loose[word] = ('pair', check)
            return
        width = 8 if self.select.startswith('BYTE') else 16
        if self.select != 'DWORD' or self.high or row.has(KEEPS_HIGH):
            shift = width * int(self.select[-1]) if self.select != 'DWORD' else 16 if self.high else 0
            part = ((1 << width) - 1) << shift
            rest = 0
            if self.high or row.has(KEEPS_HIGH) or self.unused == 'UNUSED_PRESERVE': rest = old & ~part
            elif self.unused == 'UNUSED_SEXT' and bits >> (width - 1) & 1: rest = M32 << (shift + width) & M32 | 0
            if self.unused == 'UNUSED_SEXT' and not self.high and not row.has(KEEPS_HIGH):
                rest = (M32 << (shift + width) & M32) if bits >> (width - 1) & 1 else 0
            after.set_v(DESTINATION, lane, bits << shift & part | rest)
            if check and kind == F16 and width == 16:
                loose[word] = lambda found, check=check, shift=shift, rest=rest, part=part: check(found >> shift & M16) and (
                    self.unused == 'UNUSED_SEXT' or found & ~part & M32 == rest)  # a NaN's sign is free
            elif check: loose[word] = lambda found: True
            return
        after.set_v(DESTINATION, lane, bits)
        if row.name == 'v_pk_fmac_f16':
            loose[word] = lambda found: all(found >> at & M16 == bits >> at & M16 or H.is_nan(bits >> at & M16) and H.is_nan(found >> at & M16)
                                            for at in (0, 16))
        if check: loose[word] = lambda found, check=check, kind=kind: check(found) and (kind != F16 or found <= M16)


def vector_operands(row, rng, first='v', later='v'):
    operands = []
    for number, (kind, index) in enumerate(zip(row.sources, SOURCES)):
        if number == 2 and row.has(ACCUMULATES):
            operands.append(Operand(kind, 'v', DESTINATION))
        else:
            operands.append(Operand(kind, first if number == 0 else later, index))
    return operands


def modify_floats(operands, rng):
    for operand in operands:
        if operand.where == 'v' and operand.index in SOURCES and operand.kind in FLOATS:
            operand.negative, operand.absolute = rng.random() < 0.5, rng.random() < 0.5


def constant(kind, rng):
    choices = list(Operand.INTEGERS) + list(Operand.INLINE)
    return Operand(kind, 'c', text=rng.choice(choices))


def vector_variants(row, rng):
    """(is needed, Variant, execution mask) of each encoding."""
    some = rng.getrandbits(64) | 1
    short = row.format in (VOP1, VOP2, VOPC)
    if short:
        yield True, short_form(row, vector_operands(row, rng)), ALL
        yield True, short_form(row, vector_operands(row, rng)), some
        if row.sources:
            yield False, short_form(row, vector_operands(row, rng, first='s')), some
            operands = vector_operands(row, rng)
            operands[0] = constant(row.sources[0], rng)
            yield False, short_form(row, operands), ALL
        for _ in range(2):
            yield False, sdwa_form(row, rng), rng.choice((ALL, some))
            yield False, dpp_form(row, rng), rng.choice((ALL, some))
    if not row.traits & (LITERAL_B | LITERAL_C):
        for modified in (False, True):
            operands = vector_operands(row, rng)
            variant = long_form(row, operands)
            if modified:
                modify_floats(operands, rng)
                if row.has(OUT):
                    for operand in operands: operand.absolute = False
                if row.result in (F32, F64) and not row.has(OUT):
                    variant.clamp = rng.random() < 0.5
                    variant.scale = rng.choice((1.0, 2.0, 4.0, 0.5))
                    variant.tail = {1.0: '', 2.0: ' mul:2', 4.0: ' mul:4', 0.5: ' div:2'}[variant.scale]
                    if variant.clamp: variant.tail = ' clamp' + variant.tail
            yield not modified and not short, variant, rng.choice((ALL, some))
        operands = vector_operands(row, rng)
        which = rng.randrange(len(operands)) if operands else 0
        if operands and not (which == 2 and row.has(ACCUMULATES)):
            operands[which] = rng.choice((Operand(row.sources[which], 's', SOURCES[which]), constant(row.sources[which], rng)))
            yield False, long_form(row, operands), some
        if row.saturates:
            variant = long_form(row, vector_operands(row, rng))
            variant.clamp, variant.tail = True, ' clamp'
            yield True, variant, some
        if row.format == VOP3 and row.result in HALVES and not row.saturates:
            variant = long_form(row, vector_operands(row, rng))
            chosen = [rng.randrange(2) for _ in row.sources + [0]]
            for operand, high in zip(variant.operands, chosen):
                operand.select = 'WORD_1' if high else 'WORD_0'
            variant.high = bool(chosen[-1])
            variant.tail = f' op_sel:[{",".join(map(str, chosen))}]'
            yield False, variant, some


def short_form(row, operands):
    variant = Variant(row, operands)
    variant.suffix = '_e32'
    if row.has(LITERAL_B) or row.has(LITERAL_C):
        variant.suffix = ''
        literal = LITERAL if row.result == F32 else LITERAL & 0x7fff
        operand = Operand(row.sources[1], 'c', text=hex(literal))
        operand.raw = lambda state, lane: literal
        variant.operands = [operands[0], operand, operands[1]] if row.has(LITERAL_B) else [operands[0], operands[1], operand]
        variant.operands[2 if row.has(LITERAL_B) else 1].index = SOURCES[1]
    return variant


def long_form(row, operands):
    variant = Variant(row, operands)
    variant.suffix = '_e64' if row.format in (VOP1, VOP2, VOPC) else ''
    variant.mask_in = VCC if row.has(IMPLICIT_VCC) else MASK_IN
    variant.mask_out = MASK_OUT
    return variant


def sdwa_form(row, rng):
    operands = vector_operands(row, rng)
    variant = Variant(row, operands)
    variant.suffix = '_sdwa'
    variant.select, variant.unused = rng.choice(SELECTS), rng.choice(('UNUSED_PAD', 'UNUSED_SEXT', 'UNUSED_PRESERVE'))
    tail = '' if variant.compares else f' dst_sel:{variant.select} dst_unused:{variant.unused}'
    for number, operand in enumerate(operands[:2]):
        operand.select = rng.choice(SELECTS)
        if row.name == 'v_cndmask_b32': pass  # LLVM's assembler takes its operands for integers here, for floats elsewhere
        elif operand.kind in FLOATS: operand.negative, operand.absolute = rng.random() < 0.5, rng.random() < 0.5
        else: operand.extend = rng.random() < 0.5
        tail += f' src{number}_sel:{operand.select}'
    variant.tail = tail
    return variant


def dpp_form(row, rng):
    variant = Variant(row, vector_operands(row, rng))
    variant.suffix = '_dpp'
    variant.control = rng.choice(CONTROLS)
    variant.row_mask, variant.bank_mask = rng.choice((15, 15, rng.randrange(16))), rng.choice((15, 15, rng.randrange(16)))
    variant.zero = rng.random() < 0.5
    variant.tail = f' {variant.control} row_mask:{variant.row_mask:#x} bank_mask:{variant.bank_mask:#x}' + (' bound_ctrl:0' if variant.zero else '')
    return variant


def vector_cases(row, rng):
    for needed, variant, exec_mask in vector_variants(row, rng):
        before = random_state(row, rng, exec_mask)
        after, loose = variant.expect(before)
        yield needed, Case(row, variant.text(), before, after, loose)


def packed_cases(row, rng):
    """VOP3P: halves, words, and either of two types."""
    for attempt in range(3):
        before = random_state(row, rng, rng.choice((ALL, rng.getrandbits(64))))
        after, loose = before.copy(), {}
        count = len(row.sources)
        mixed = MIXED in row.sources
        halves = row.sources[0] in (PACKED16, PACKEDF16)
        choosable = mixed or (halves or row.sources[0] == PACKEDF32) and not row.name.startswith('v_dot')
        low, high = [0] * count, [0 if mixed else 1] * count
        negative_low, negative_high = [0] * count, [0] * count
        clamp = attempt == 2 and row.saturates
        if attempt and choosable:
            low, high = ([rng.randrange(2) for _ in range(count)] for _ in range(2))
            if row.sources[0] != PACKED16:
                negative_low, negative_high = ([rng.randrange(2) for _ in range(count)] for _ in range(2))
        operands = ', '.join(Operand(kind, 'v', index).text() for kind, index in zip(row.sources, SOURCES))
        listed = lambda name, values: f' {name}:[{",".join(map(str, values))}]'
        text = f'{row.name} {Operand(row.result, "v", DESTINATION).text()}, {operands}'
        if attempt and choosable:
            if mixed:
                signed = [('-' if negative_low[k] else '') + (f'|v{SOURCES[k]}|' if negative_high[k] else f'v{SOURCES[k]}') for k in range(3)]
                text = f'{row.name} v{DESTINATION}, {", ".join(signed)}'
            text += listed('op_sel', low) + listed('op_sel_hi', high)
            if not mixed and row.sources[0] != PACKED16: text += listed('neg_lo', negative_low) + listed('neg_hi', negative_high)
        if clamp: text += ' clamp'
        for lane in before.lanes():
            raw = [before.read(index, lane, kind in WIDE) for kind, index in zip(row.sources, SOURCES)]
            old = before.v(DESTINATION, lane)
            word = V + 64 * DESTINATION + lane
            if row.sources[0] == PACKEDF32:
                word_of = lambda k, which, negative: (raw[k] >> 32 * which[k] & M32) ^ negative[k] << 31
                for position, which, negative in ((0, low, negative_low), (1, high, negative_high)):
                    result = model.WORDS[row.name](*(word_of(k, which, negative) for k in range(count)))
                    after.set_v(DESTINATION + position, lane, result)
                    check = agrees(F32, result, False)
                    if check: loose[word + 64 * position] = check
            elif mixed:
                bits = []
                for k in range(3):
                    x = F.bits_of(H.number(raw[k] >> 16 * low[k] & M16)) if high[k] else raw[k]
                    if negative_high[k]: x &= 0x7fffffff
                    bits.append(x ^ negative_low[k] << 31)
                result = model.LANES[row.name](*bits)
                if row.result == F32:
                    after.set_v(DESTINATION, lane, result)
                    check = agrees(F32, result, False)
                    if check: loose[word] = check
                else:
                    shift = 16 if 'mixhi' in row.name else 0
                    after.set_v(DESTINATION, lane, old & ~(M16 << shift) | result << shift)
                    if H.is_nan(result):
                        loose[word] = lambda found, shift=shift, old=old: H.is_nan(found >> shift & M16) and (found ^ old) & ~(M16 << shift) & M32 == 0
            elif row.name in model.HALVES:
                result, checks = 0, []
                for position, which, negative in ((0, low, negative_low), (16, high, negative_high)):
                    bits = [raw[k] >> 16 * which[k] & M16 for k in range(count)]
                    if row.sources[0] == PACKEDF16: bits = [x ^ n << 15 for x, n in zip(bits, negative)]
                    if clamp and row.sources[0] == PACKED16:
                        name = row.name.rsplit('_', 1)
                        one = model.saturated(row.name, count)(*bits) if 'mad' in row.name or 'add' in row.name or 'sub' in row.name else model.HALVES[row.name](*bits)
                    else:
                        one = model.HALVES[row.name](*bits)
                        if clamp:
                            x = H.number(one)
                            one = H.bits_of(min(x, 1.0) if x > 0 else 0.0)
                    result |= one << position
                    checks.append((position, one))
                after.set_v(DESTINATION, lane, result)
                if row.sources[0] == PACKEDF16:
                    def check(found, checks=checks):
                        return all(found >> at & M16 == one or H.is_nan(one) and H.is_nan(found >> at & M16) for at, one in checks)
                    loose[word] = check
            else:
                result = model.LANES[row.name](*raw)
                after.set_v(DESTINATION, lane, result)
                if row.result == F32:
                    check = agrees(F32, result, False)
                    if check: loose[word] = check
        yield attempt == 0, Case(row, text, before, after, loose)


# ---- operations on scalars
def width_of(row, number):
    return row.sources[number] in WIDE


def scalar_cases(row, rng):
    name = lambda index, wide: f's[{index}:{index + 1}]' if wide else f's{index}'
    for attempt in range(12):
        before = State(rng)
        before.set_s64(EXEC, rng.getrandbits(64))
        for kind, index in zip(row.sources, SOURCES):
            (before.set_s64 if kind in WIDE else before.set_s)(index, value(kind, rng))
        after = before.copy()
        read = lambda number: before.s64(SOURCES[number]) if width_of(row, number) else before.s(SOURCES[number])
        scc = before.words[SCC]
        wide = row.result in WIDE
        if row.format == SOPC:
            text = f'{row.name} {name(2, width_of(row, 0))}, {name(4, width_of(row, 1))}'
            after.words[SCC] = model.scalar_condition(row.name, read(0), read(1))
        elif row.format == SOPK:
            k = rng.choice((0, 1, 0x7fff, 0x8000, 0xffff, rng.getrandbits(16)))
            before.set_s(DESTINATION, rng.choice((k, model.s16(k) & M32, rng.choice(EDGES), rng.getrandbits(32))))
            after = before.copy()
            text, old = f'{row.name} s{DESTINATION}, {k:#x}', before.s(DESTINATION)
            wanted_k = k if row.name.endswith('u32') else model.s16(k) & M32
            if row.name == 's_movk_i32': after.set_s(DESTINATION, wanted_k)
            elif row.name == 's_cmovk_i32': after.set_s(DESTINATION, wanted_k if scc else old)
            elif row.name == 's_addk_i32':
                result, after.words[SCC] = model.SCALARS['s_add_i32'](old, wanted_k, scc)
                after.set_s(DESTINATION, result)
            elif row.name == 's_mulk_i32': after.set_s(DESTINATION, old * wanted_k)
            else: after.words[SCC] = model.scalar_condition(row.name, old, wanted_k)
        elif 'saveexec' in row.name:
            text = f'{row.name} {name(DESTINATION, True)}, {name(2, True)}'
            result = model.LOGIC[row.name.split('_')[1]](read(0), before.s64(EXEC)) & M64
            after.set_s64(DESTINATION, before.s64(EXEC))
            after.set_s64(EXEC, result)
            after.words[SCC] = int(result != 0)
        else:
            second = f', {name(4, width_of(row, 1))}' if row.format == SOP2 else ''
            text = f'{row.name} {name(DESTINATION, wide)}, {name(2, width_of(row, 0))}{second}'
            result, after.words[SCC] = model.SCALARS[row.name](read(0), read(1) if row.format == SOP2 else 0, scc)
            (after.set_s64 if wide else after.set_s)(DESTINATION, result)
        yield attempt == 0, Case(row, text, before, after)


# ---- memory
SIZES = {'ubyte': 1, 'sbyte': 1, 'byte': 1, 'ushort': 2, 'sshort': 2, 'short': 2, 'u8': 1, 'i8': 1, 'b8': 1, 'u16': 2, 'i16': 2, 'b16': 2,
         'dword': 4, 'dwordx2': 8, 'dwordx3': 12, 'dwordx4': 16, 'b32': 4, 'b64': 8, 'b96': 12, 'b128': 16}


# A device whose registers have ECC clears the half of a register that it does not load.
WHOLE_LOADS = False


def exchange(name, before, after, lane, register, where):
    """One lane's load or store. where: a byte of the case; None: beyond the bounds."""
    words = name.split('_')
    size = SIZES[next(w for w in words if w in SIZES)]
    if 'store' in words or 'write' in words:
        if where is None: return
        bits = sum(before.v(register + k, lane) << 32 * k for k in range(max(1, size // 4)))
        after.set_bytes(where, size, bits >> 16 if name.endswith('hi') else bits)
        return
    bits = 0 if where is None else before.bytes(where, size)
    if any(w in ('sbyte', 'sshort', 'i8', 'i16') for w in words) and bits >> (8 * size - 1):
        bits -= 1 << 8 * size
    if 'd16' in words:
        old = 0 if WHOLE_LOADS else before.v(register, lane)
        bits &= M16
        bits = old & M16 | bits << 16 if name.endswith('hi') else old & ~M16 | bits
    for k in range(max(1, size // 4)): after.set_v(register + k, lane, bits >> 32 * k)


def lanes_and_slots(rng, size, room):
    """A place of its own for each lane, aligned to words where it must be."""
    slots = list(range(room // size))
    rng.shuffle(slots)
    return slots[:64]


def global_cases(row, rng):
    atomic = '_atomic_' in row.name
    stores = '_store_' in row.name
    for attempt in range(2):
        before = State(rng)
        exec_mask = ALL if attempt == 0 else rng.getrandbits(64)
        before.set_s64(EXEC, exec_mask)
        offset = rng.choice((0, 16, -16, 32)) if row.format == GLOBAL else rng.choice((0, 16, 32))
        own = row.format == SCRATCH
        room = 2048 if not own else 32
        slots = list(range(64))
        rng.shuffle(slots)
        scalar_base = row.format == GLOBAL and attempt == 1
        for lane in range(64):
            if own: start = rng.choice((0, 4, 8))
            elif attempt == 0 and row.format == GLOBAL and not atomic: start = 256 + lane * (4 if 'dword' == row.name.split('_')[-1] else 16)
            else: start = 64 + slots[lane] * 16
            if own:
                before.set_v(2, lane, start)
                offset = 4
            elif scalar_base: before.set_v(2, lane, start)
            else: before.set_v64(2, lane, MEMORY + start - offset)
        if scalar_base:
            before.set_s64(4, MEMORY - offset)
        after = before.copy()
        register = 4
        spaces = {}
        for lane in before.lanes():
            if own:
                where = 4 * OWN + 32 * lane + before.v(2, lane) + offset
                if before.v(2, lane) + offset + access_size(row.name) > 32: where = None
            else:
                start = before.v(2, lane) if scalar_base else before.v64(2, lane) + offset - MEMORY
                where = 4 * BYTES + start
            if atomic: atomic_lane(row.name.split('_atomic_')[1], before, after, lane, 4, None, where, DESTINATION)
            elif stores: exchange(row.name, before, after, lane, register, where)
            else: exchange(row.name, before, after, lane, DESTINATION, where)
        count = max(1, access_size(row.name) // 4) if not atomic else (2 if atomic_bits(row.name) == 64 else 1)
        group = lambda first, n: f'v{first}' if n == 1 else f'v[{first}:{first + n - 1}]'
        address = 'v2' if own or scalar_base else 'v[2:3]'
        base = ', off' if own else ', s[4:5]' if scalar_base else '' if row.format == FLAT else ', off'
        tail = f' offset:{offset}' if offset else ''
        if atomic:
            data = group(4, count * (2 if 'cmpswap' in row.name else 1))
            text = f'{row.name} {group(DESTINATION, count)}, {address}, {data}{base}{tail} glc'
        elif stores: text = f'{row.name} {address}, {group(4, count)}{base}{tail}'
        else: text = f'{row.name} {group(DESTINATION, count)}, {address}{base}{tail}'
        loose = float_atomics(row.name, after, before) if atomic else {}
        yield attempt == 0, Case(row, text, before, after, loose)
        if atomic:
            again = before.copy()
            for lane in before.lanes():
                start = before.v(2, lane) if scalar_base else before.v64(2, lane) + offset - MEMORY
                atomic_lane(row.name.split('_atomic_')[1], before, again, lane, 4, None, 4 * BYTES + start, None)
            silent = f'{row.name} {address}, {data}{base}{tail}'
            yield False, Case(row, silent, before.copy(), again, float_atomics(row.name, again, before))


def access_size(name):
    return next((SIZES[w] for w in name.split('_') if w in SIZES), 4)


def atomic_bits(name):
    return 64 if name.endswith(('_x2', '64')) else 32


def atomic_lane(what, before, after, lane, data, second, where, result):
    """what: after atomic_ or ds_, as add_x2, cmpst_rtn_b64."""
    words = what.replace('_rtn', '').replace('pk_add_f16', 'pkaddf16').split('_')
    operation = {'smin': 'min', 'smax': 'max', 'umin': 'min', 'umax': 'max', 'pkaddf16': 'pk_add_f16'}.get(words[0], words[0])
    bits = 64 if words[-1] in ('x2', 'u64', 'i64', 'b64', 'f64') else 32
    kind = words[-1] if words[-1][0] in 'fuib' and words[-1][1:].isdigit() else ('i' if words[0] in ('smin', 'smax') else 'u') + str(bits)
    read = before.v64 if bits == 64 else before.v
    write = after.set_v64 if bits == 64 else after.set_v
    first = read(data, lane)
    other = read(second if second is not None else data + bits // 32, lane)
    old = after.bytes(where, bits // 8)
    after.set_bytes(where, bits // 8, model.atomic(operation, kind)(old, first, other))
    if result is not None: write(result, lane, old)


def float_atomics(name, after, before):
    """NaNs may have any bits."""
    form = F if name.endswith('f32') else D if name.endswith('f64') else H if name.endswith('f16') else None
    if form is None: return {}
    loose = {}
    for word in list(range(BYTES, BYTES + 512)) + list(range(LDS, LDS + 256)):
        wanted = after.words[word]
        if form is H and any(H.is_nan(wanted >> at & M16) for at in (0, 16)) or form is F and F.is_nan(wanted):
            loose[word] = lambda found, wanted=wanted: all(
                found >> at & M16 == wanted >> at & M16 or H.is_nan(wanted >> at & M16) for at in (0, 16)) if form is H else F.is_nan(found)
        if form is D and wanted >> 20 & 0x7ff == 0x7ff: loose[word] = loose[word - 1] = lambda found: True
    return loose


def buffer_cases(row, rng):
    atomic = '_atomic_' in row.name
    group = lambda first, n: f'v{first}' if n == 1 else f'v[{first}:{first + n - 1}]'
    for attempt in range(3):
        before = State(rng)
        before.set_s64(EXEC, ALL if attempt == 0 else rng.getrandbits(64))
        offset, soffset = rng.choice((0, 16)), 32
        stride = 16 if attempt == 1 and not atomic else 0
        records = 40 if stride else 64 * 16 + 2 if attempt == 2 else 1900
        before.set_s64(12, MEMORY | stride << 48)
        before.set_s(14, records)
        before.set_s(15, 0)
        before.set_s(16, soffset)
        slots = list(range(64))
        rng.shuffle(slots)
        after = before.copy()
        size = access_size(row.name) if not atomic else atomic_bits(row.name) // 8
        for lane in range(64):
            before.set_v(2, lane, slots[lane] if stride else slots[lane] * 16 + (8 if attempt == 2 else 0))
            # What programs put in to have a lane do nothing: no sum of offsets begins at 0 again.
            if attempt == 2 and lane % 16 == 5: before.set_v(2, lane, 0xffffffff)
        after = before.copy()
        for lane in before.lanes():
            number = before.v(2, lane)
            at = (number * stride if stride else number) + offset
            start = 4 * BYTES + soffset + at
            if stride: inside = [number < records] * 4
            else: inside = [soffset + at + 4 * k + (4 if size >= 4 else size) <= records for k in range(4)]
            if atomic:
                if soffset + at + size <= records: atomic_lane(row.name.split('_atomic_')[1], before, after, lane, DESTINATION, None, start, DESTINATION)
                else: (after.set_v64 if size == 8 else after.set_v)(DESTINATION, lane, 0)
            elif size > 4:
                for k in range(size // 4):
                    word = row.name.replace(f'x{size // 4}', '')
                    exchange(word, before, after, lane, DESTINATION + k, start + 4 * k if inside[k] else None)
            else: exchange(row.name, before, after, lane, DESTINATION, start if inside[0] else None)
        count = max(1, size // 4) * (2 if 'cmpswap' in row.name else 1)
        tail = f' {"idxen" if stride else "offen"}' + (f' offset:{offset}' if offset else '') + (' glc' if atomic else '')
        text = f'{row.name} {group(DESTINATION, count)}, v2, s[12:15], s16{tail}'
        yield attempt == 0, Case(row, text, before, after, float_atomics(row.name, after, before))
    if not atomic:
        yield from private_buffer(row, rng, group)


def private_buffer(row, rng, group):
    """Private memory through its descriptor: the scalar offset counts all lanes' bytes."""
    before = State(rng)
    before.set_s64(EXEC, rng.getrandbits(64))
    before.set_s64(12, 0)
    before.set_s(14, M32)
    before.set_s(15, 1 << 23)
    before.set_s(16, 4 * 64)
    for lane in range(64): before.set_v(2, lane, rng.choice((0, 4, 8)))
    after = before.copy()
    for lane in before.lanes(): exchange(row.name, before, after, lane, DESTINATION, 4 * OWN + 32 * lane + 4 + 4 + before.v(2, lane))
    count = max(1, access_size(row.name) // 4)
    if access_size(row.name) <= 16:
        yield True, Case(row, f'{row.name} {group(DESTINATION, count)}, v2, s[12:15], s16 offen offset:4', before, after)


def ds_cases(row, rng):
    group = lambda first, n: f'v{first}' if n == 1 else f'v[{first}:{first + n - 1}]'
    words = row.name.split('_')
    two = next((w for w in words if w.startswith(('read2', 'write2'))), None)
    plain = words[1] in ('read', 'write') and not two
    for attempt in range(3):
        before = State(rng)
        before.set_s(M0, M32)
        before.set_s64(EXEC, ALL if attempt == 0 else rng.getrandbits(64))
        offset = rng.choice((0, 4, 8, 16))
        slots = list(range(60))
        rng.shuffle(slots)
        for lane in range(64):
            before.set_v(2, lane, slots[lane % 60] * 16 + (lane // 60 * 8 if False else 0) if lane < 60 else 1024 + 64 + lane * 16)
        after = before.copy()
        inside = lambda at, size: at + size <= 1024
        for lane in before.lanes():
            at = before.v(2, lane)
            if plain:
                size = access_size(row.name)
                where = 4 * LDS + at + offset if inside(at + offset, size) else None
                exchange(row.name, before, after, lane, 4 if words[1] == 'write' else DESTINATION, where)
            elif two:
                size = SIZES[words[2]]
                unit = size * (64 if 'st64' in two else 1)
                for k, index in enumerate((1, 0) if 'st64' in two else (3, 1)):
                    place = at + index * unit
                    where = 4 * LDS + place if inside(place, size) else None
                    name = f'ds_{"write" if two.startswith("write") else "read"}_{words[2]}'
                    register = ((4, 6)[k] if two.startswith('write') else DESTINATION + k * size // 4)
                    exchange(name, before, after, lane, register, where)
            else:
                returns = 'rtn' in words
                bits = 64 if words[-1].endswith('64') else 32
                if inside(at + offset, bits // 8):
                    atomic_lane(row.name[3:], before, after, lane, 4, 6, 4 * LDS + at + offset, DESTINATION if returns else None)
                elif returns: (after.set_v64 if bits == 64 else after.set_v)(DESTINATION, lane, 0)
        tail = f' offset:{offset}' if offset else ''
        if plain:
            count = max(1, access_size(row.name) // 4)
            text = f'{row.name} v2, {group(4, count)}{tail}' if words[1] == 'write' else f'{row.name} {group(DESTINATION, count)}, v2{tail}'
        elif two:
            count = SIZES[words[2]] // 4
            tail = ' offset0:1' if 'st64' in two else ' offset0:3 offset1:1'
            text = (f'{row.name} v2, {group(4, count)}, {group(6, count)}{tail}' if two.startswith('write') else
                    f'{row.name} {group(DESTINATION, 2 * count)}, v2{tail}')
        else:
            count = 2 if words[-1].endswith('64') else 1
            result = f'{group(DESTINATION, count)}, ' if 'rtn' in words else ''
            more = f', {group(6, count)}' if words[1] in ('cmpst', 'mskor', 'wrap') else ''
            text = f'{row.name} {result}v2, {group(4, count)}{more}{tail}'
        yield attempt == 0, Case(row, text, before, after, float_atomics(row.name, after, before))


def smem_cases(row, rng):
    count = int(re.search(r'x(\d+)$', row.name).group(1)) if re.search(r'x(\d+)$', row.name) else 1
    group = f's{DESTINATION + 24}' if count == 1 else f's[{DESTINATION + 24}:{DESTINATION + 23 + count}]'
    for attempt in range(3):
        before = State(rng)
        before.set_s64(12, MEMORY + 64)
        before.set_s(14, 256 if 'buffer' in row.name and attempt == 2 else 1024)
        before.set_s(15, 0)
        before.set_s(16, 96)
        after = before.copy()
        offset = (16, 96, 240)[attempt]
        where = 4 * BYTES + 64 + offset
        for k in range(count):
            if 'store' in row.name: after.set_bytes(where + 4 * k, 4, before.s(DESTINATION + 24 + k))
            else:
                inside = 'buffer' not in row.name or offset + 4 * k + 4 <= before.s(14)
                after.set_s(DESTINATION + 24 + k, before.bytes(where + 4 * k, 4) if inside else 0)
        base = 's[12:15]' if 'buffer' in row.name else 's[12:13]'
        text = f'{row.name} {group}, {base}, {"s16" if attempt == 1 else hex(offset)}'
        yield attempt == 0, Case(row, text, before, after)


# ---- operations that are functions: texts (several instructions) and what they do to a state
def by_hand(rng):
    """name of the row -> [(text, function from a state to what it becomes)]"""
    def change(function):
        def apply(before):
            after = before.copy()
            function(before, after)
            return after
        return apply

    def lanes(register, function):
        def apply(before, after):
            for lane in before.lanes(): after.set_v(register, lane, function(before, lane))
        return change(apply)

    first = lambda state: (state.lanes() or [0])[0]
    active = lambda state, lane: state.s64(EXEC) >> lane & 1
    def swap(before, after):
        for lane in before.lanes():
            after.set_v(2, lane, before.v(4, lane))
            after.set_v(4, lane, before.v(2, lane))
    def accumulator(into, index, source):
        def apply(before, after):
            for lane in before.lanes(): after.words[A + 64 * index + lane] = source(before, lane)
        return change(apply)
    def permuted(before, after):
        sent = {}
        for lane in before.lanes(): sent[(before.v(2, lane) + 8) // 4 % 64] = before.v(4, lane)
        for lane in before.lanes(): after.set_v(DESTINATION, lane, sent.get(lane, 0))
    bpermuted = lambda state, lane: state.v(4, (state.v(2, lane) & M32) // 4 % 64) if active(state, state.v(2, lane) // 4 % 64) else 0
    def swizzled(pattern):
        def one(state, lane):
            if pattern & 0x8000: other = lane & ~3 | pattern >> 2 * (lane & 3) & 3
            else: other = lane & 32 | ((lane & 31 & pattern & 31 | pattern >> 5 & 31) ^ pattern >> 10 & 31)
            return state.v(2, other) if active(state, other) else 0
        return one
    def pk_mov(low, high):
        def apply(before, after):
            for lane in before.lanes():
                after.set_v(DESTINATION, lane, before.v(2 + low, lane))
                after.set_v(DESTINATION + 1, lane, before.v(4 + high, lane))
        return change(apply)
    def bit_set(wide, on):
        def apply(before, after):
            bit = 1 << (before.s(2) & (63 if wide else 31))
            old = before.s64(8) if wide else before.s(8)
            (after.set_s64 if wide else after.set_s)(8, old | bit if on else old & ~bit)
        return change(apply)
    nothing = change(lambda before, after: None)
    set_s = lambda index, function: change(lambda before, after: after.set_s(index, function(before)))
    set_s64 = lambda index, function: change(lambda before, after: after.set_s64(index, function(before)))
    def wrexec(function):
        def apply(before, after):
            result = function(before.s64(2), before.s64(EXEC)) & M64
            after.set_s64(8, result)
            after.set_s64(EXEC, result)
            after.words[SCC] = int(result != 0)
        return change(apply)
    def mode(bits, then=lambda before, after: None):
        def apply(before, after):
            after.words[MODE] = bits
            then(before, after)
        return change(apply)
    branch = lambda name, taken: [(f'{name} 1\ns_mov_b32 s8, 7', change(lambda before, after: None if taken(before) else after.set_s(8, 7)))]
    return {
        'v_nop': [('v_nop', nothing)], 'v_clrexcp': [('v_clrexcp', nothing)],
        'v_readfirstlane_b32': [('v_readfirstlane_b32 s8, v2', set_s(8, lambda b: b.v(2, first(b))))],
        'v_readlane_b32': [('v_readlane_b32 s8, v2, s4', set_s(8, lambda b: b.v(2, b.s(4) & 63))),
                           ('v_readlane_b32 s8, v2, 17', set_s(8, lambda b: b.v(2, 17)))],
        'v_writelane_b32': [('v_writelane_b32 v8, s2, 40', change(lambda b, a: a.set_v(8, 40, b.s(2)))),
                            ('v_writelane_b32 v8, 7, s4', change(lambda b, a: a.set_v(8, b.s(4) & 63, 7)))],
        'v_swap_b32': [('v_swap_b32 v2, v4', change(swap))],
        'v_accvgpr_read_b32': [('v_accvgpr_read_b32 v8, a1', lanes(8, lambda b, lane: b.words[A + 64 + lane]))],
        'v_accvgpr_write_b32': [('v_accvgpr_write_b32 a1, v2', accumulator(True, 1, lambda b, lane: b.v(2, lane)))],
        'v_accvgpr_mov_b32': [('v_accvgpr_mov_b32 a1, a2', accumulator(True, 1, lambda b, lane: b.words[A + 128 + lane]))],
        'v_pk_mov_b32': [('v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[0,1]', pk_mov(0, 1)), ('v_pk_mov_b32 v[8:9], v[2:3], v[4:5] op_sel:[1,0]', pk_mov(1, 0))],
        's_cmov_b32': [('s_cmov_b32 s8, s2', change(lambda b, a: a.set_s(8, b.s(2)) if b.words[SCC] else None))],
        's_cmov_b64': [('s_cmov_b64 s[8:9], s[2:3]', change(lambda b, a: a.set_s64(8, b.s64(2)) if b.words[SCC] else None))],
        's_bitset0_b32': [('s_bitset0_b32 s8, s2', bit_set(False, False))], 's_bitset1_b32': [('s_bitset1_b32 s8, s2', bit_set(False, True))],
        's_bitset0_b64': [('s_bitset0_b64 s[8:9], s2', bit_set(True, False))], 's_bitset1_b64': [('s_bitset1_b64 s[8:9], s2', bit_set(True, True))],
        's_getpc_b64': [('s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, 12\ns_addc_u32 s9, s9, 0\ns_setpc_b64 s[8:9]\ns_mov_b32 s10, 1\ns_sub_u32 s8, s8, s8\ns_sub_u32 s9, s9, s9',
                         change(lambda b, a: (a.set_s(10, 1), a.set_s64(8, 0), a.words.__setitem__(SCC, 0))))],
        's_setpc_b64': [('s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, 16\ns_addc_u32 s9, s9, 0\ns_setpc_b64 s[8:9]\ns_mov_b32 s10, 1\ns_sub_u32 s8, s8, s8\ns_sub_u32 s9, s9, s9',
                         change(lambda b, a: (a.set_s64(8, 0), a.words.__setitem__(SCC, 0))))],
        's_swappc_b64': [('s_getpc_b64 s[8:9]\ns_add_u32 s8, s8, 16\ns_addc_u32 s9, s9, 0\ns_swappc_b64 s[10:11], s[8:9]\ns_mov_b32 s12, 1\ns_sub_u32 s8, s8, s10\ns_subb_u32 s9, s9, s11\ns_sub_u32 s10, s10, s10\ns_sub_u32 s11, s11, s11',
                          change(lambda b, a: (a.set_s64(8, 4), a.set_s64(10, 0), a.words.__setitem__(SCC, 0))))],
        's_call_b64': [('s_getpc_b64 s[8:9]\ns_call_b64 s[10:11], 1\ns_mov_b32 s12, 1\ns_sub_u32 s8, s10, s8\ns_subb_u32 s9, s11, s9\ns_sub_u32 s10, s10, s10\ns_sub_u32 s11, s11, s11',
                        change(lambda b, a: (a.set_s64(8, 4), a.set_s64(10, 0), a.words.__setitem__(SCC, 0))))],
        's_movrels_b32': [('s_mov_b32 m0, 3\ns_movrels_b32 s8, s2', change(lambda b, a: (a.set_s(M0, 3), a.set_s(8, b.s(5)))))],
        's_movrels_b64': [('s_mov_b32 m0, 2\ns_movrels_b64 s[8:9], s[2:3]', change(lambda b, a: (a.set_s(M0, 2), a.set_s64(8, b.s64(4)))))],
        's_movreld_b32': [('s_mov_b32 m0, 3\ns_movreld_b32 s8, s2', change(lambda b, a: (a.set_s(M0, 3), a.set_s(11, b.s(2)))))],
        's_movreld_b64': [('s_mov_b32 m0, 2\ns_movreld_b64 s[8:9], s[2:3]', change(lambda b, a: (a.set_s(M0, 2), a.set_s64(10, b.s64(2)))))],
        's_andn1_wrexec_b64': [('s_andn1_wrexec_b64 s[8:9], s[2:3]', wrexec(lambda x, e: ~x & e))],
        's_andn2_wrexec_b64': [('s_andn2_wrexec_b64 s[8:9], s[2:3]', wrexec(lambda x, e: x & ~e))],
        's_getreg_b32': [('s_getreg_b32 s8, hwreg(HW_REG_MODE, 4, 4)', set_s(8, lambda b: 15)),
                         ('s_getreg_b32 s8, hwreg(HW_REG_SH_MEM_BASES, 16, 16)', set_s(8, lambda b: 1)),
                         ('s_getreg_b32 s8, hwreg(HW_REG_SH_MEM_BASES, 0, 16)', set_s(8, lambda b: 2))],
        's_setreg_b32': [('s_mov_b32 s8, 3\ns_setreg_b32 hwreg(HW_REG_MODE, 0, 2), s8\ns_mov_b32 s2, 0x3f800001\nv_mov_b32 v2, 0x3f800001\nv_mul_f32 v8, s2, v2',
                          mode(0xf3, lambda b, a: (a.set_s(8, 3), a.set_s(2, 0x3f800001), [(a.set_v(2, lane, 0x3f800001), a.set_v(8, lane, 0x3f800002)) for lane in b.lanes()])))],
        's_setreg_imm32_b32': [
            # towards plus infinity: a product's last place goes up
            ('s_setreg_imm32_b32 hwreg(HW_REG_MODE, 0, 2), 1\nv_mov_b32 v2, 0x3f800001\nv_mul_f32 v8, v2, v2',
             mode(0xf1, lambda b, a: [(a.set_v(2, lane, 0x3f800001), a.set_v(8, lane, 0x3f800003)) for lane in b.lanes()])),
            # denormals of 32 bits are zeros, of 64 bits are not
            ('s_setreg_imm32_b32 hwreg(HW_REG_MODE, 4, 2), 0\nv_mov_b32 v2, 0x80000001\nv_add_f32 v8, v2, v2\nv_cvt_f64_u32 v[4:5], 0\nv_mov_b32 v4, 1\nv_add_f64 v[10:11], v[4:5], v[4:5]',
             mode(0xc0, lambda b, a: [(a.set_v(2, lane, 0x80000001), a.set_v(8, lane, 0x80000000), a.set_v64(4, lane, 1), a.set_v64(10, lane, 2)) for lane in b.lanes()]))],
        's_branch': branch('s_branch', lambda b: True),
        's_cbranch_scc0': branch('s_cbranch_scc0', lambda b: not b.words[SCC]), 's_cbranch_scc1': branch('s_cbranch_scc1', lambda b: b.words[SCC]),
        's_cbranch_vccz': branch('s_cbranch_vccz', lambda b: b.s64(VCC) == 0), 's_cbranch_vccnz': branch('s_cbranch_vccnz', lambda b: b.s64(VCC)),
        's_cbranch_execz': branch('s_cbranch_execz', lambda b: b.s64(EXEC) == 0), 's_cbranch_execnz': branch('s_cbranch_execnz', lambda b: b.s64(EXEC)),
        **{name: branch(name, lambda b: False) for name in ('s_cbranch_cdbgsys', 's_cbranch_cdbguser', 's_cbranch_cdbgsys_or_user', 's_cbranch_cdbgsys_and_user')},
        **{name: [(text or name, nothing)] for name, text in (
            ('s_nop', 's_nop 0'), ('s_wakeup', ''), ('s_waitcnt', 's_waitcnt 0'), ('s_sethalt', 's_sethalt 0'), ('s_setprio', 's_setprio 1'), ('s_sendmsg', 's_sendmsg 1'),
            ('s_icache_inv', ''), ('s_incperflevel', 's_incperflevel 1'), ('s_decperflevel', 's_decperflevel 1'), ('s_ttracedata', ''), ('s_endpgm', ''), ('s_endpgm_saved', ''),
            ('buffer_wbl2', ''), ('buffer_invl2', ''), ('buffer_wbinvl1', ''), ('buffer_wbinvl1_vol', ''), ('ds_nop', ''),
            ('ds_gws_sema_release_all', 'ds_gws_sema_release_all gds'), ('ds_gws_init', 'ds_gws_init v2 gds'), ('ds_gws_sema_v', 'ds_gws_sema_v gds'),
            ('ds_gws_sema_br', 'ds_gws_sema_br v2 gds'), ('ds_gws_sema_p', 'ds_gws_sema_p gds'), ('s_dcache_inv', ''), ('s_dcache_wb', ''), ('s_dcache_inv_vol', ''),
            ('s_dcache_wb_vol', ''), ('s_trap', 's_trap 3'))},
        # What ends a turn: nothing after it has happened.
        's_barrier': [('s_barrier\ns_mov_b32 s8, 7', nothing)], 'ds_gws_barrier': [('ds_gws_barrier v2 gds\ns_mov_b32 s8, 7', nothing)],
        's_sleep': [('s_sleep 1\ns_mov_b32 s8, 7', nothing)],
        's_memtime': [('s_memtime s[8:9]\ns_memtime s[10:11]\ns_sub_u32 s8, s10, s8\ns_subb_u32 s9, s11, s9\ns_and_b32 s9, s9, 0x80000000\ns_mov_b64 s[10:11], 0\ns_mov_b32 s8, 0',
                       change(lambda b, a: (a.set_s64(8, 0), a.set_s64(10, 0), a.words.__setitem__(SCC, 0))))],
        's_memrealtime': [('s_memrealtime s[8:9]\ns_mov_b64 s[8:9], 0', set_s64(8, lambda b: 0))],
        'ds_swizzle_b32': [('ds_swizzle_b32 v8, v2 offset:0x801f', lanes(8, swizzled(0x801f))), ('ds_swizzle_b32 v8, v2 offset:0x041f', lanes(8, swizzled(0x041f))),
                           ('ds_swizzle_b32 v8, v2 offset:0x0cd3', lanes(8, swizzled(0x0cd3)))],
        'ds_permute_b32': [('ds_permute_b32 v8, v2, v4 offset:8', change(permuted))],
        'ds_bpermute_b32': [('ds_bpermute_b32 v8, v2, v4', lanes(8, bpermuted))],
    }


SPECIAL_STATES = {'s_cbranch_vccz': VCC, 's_cbranch_vccnz': VCC, 's_cbranch_execz': EXEC, 's_cbranch_execnz': EXEC}


def hand_cases(row, rng):
    for text, function in by_hand(rng)[row.name]:
        for attempt in range(3):
            before = State(rng)
            if attempt == 0: before.set_s64(EXEC, ALL)
            if attempt == 1 and row.name in SPECIAL_STATES: before.set_s64(SPECIAL_STATES[row.name], 0)
            before.words[SCC] = attempt & 1
            yield attempt == 0, Case(row, text, before, function(before))


# ---- products of matrices: whole numbers, whose sums are exact in any order
ENCODED = {'f32': lambda x: int.from_bytes(struct.pack('<f', x), 'little'),
           'f16': lambda x: int.from_bytes(struct.pack('<e', x), 'little'),
           'bf16': lambda x: int.from_bytes(struct.pack('<f', x), 'little') >> 16, 'i8': lambda x: x & 0xff, 'i32': lambda x: x & M32,
           'f64': lambda x: int.from_bytes(struct.pack('<d', x), 'little')}
DENORMALS = {'f16': 2.0 ** -15, 'bf16': 2.0 ** -127}
BITS = {'f32': 32, 'i32': 32, 'f16': 16, 'bf16': 16, 'i8': 8, 'f64': 64}


def place_of_sum(total, side, register, lane):
    """Block, row and column of the sum that a lane has in its register of that number (of pairs of them, where it is double)."""
    if total == 'f64': return (0, 4 * register + lane // 16, lane % 16) if side == 16 else (lane // 4 % 4, lane // 16, lane % 4)
    if side == 32: return register // 16, 8 * (register % 16 // 4) + 4 * (lane // 32) + register % 4, lane % 32
    if side == 16: return register // 4, 4 * (lane // 16) + register % 4, lane % 16
    return lane // 4, register, lane % 4


class Product:
    """What the name of a row says: so many blocks of D = A B + C, a square of so many rows each."""
    def __init__(self, row):
        self.total, side, inner, self.number, more = re.fullmatch(
            r'v_mfma_(\w+?)_(\d+)x\d+x(\d+)(bf16|f16|f32|f64|i8)(_1k)?', row.name).groups()
        self.row, self.side, self.inner = row, int(side), int(inner)
        self.held = {'f32': 1, 'f64': 1, 'f16': 4, 'i8': 4, 'bf16': 4 if more else 2}[self.number]
        self.blocks = 64 * self.held // (self.side * self.inner)
        self.wide = 2 if self.total == 'f64' else 1
        self.count = self.side * self.side * self.blocks // 64

    def registers(self, bank, first, count):
        return f'{bank}[{first}:{first + count - 1}]' if count > 1 else f'{bank}{first}'

    def sums(self, bank, first):
        return self.registers(bank, first, self.count * self.wide)

    def factor(self, bank, first):
        return self.registers(bank, first, self.held * BITS[self.number] // 32)

    def case(self, rng, initial, modifiers='', into=('a', 0), banks='vv', only=None, tiny=None):
        """initial: a constant, or bank and first register of C; into: of D; banks of A, from register 2, and of B, from 4.
        tiny: A's elements are this, a denormal, and twice as much; the target `only` takes denormals for zeros if it is gfx90a."""
        before, flushes = State(rng), tiny is not None and only == 'gfx90a'
        word = lambda bank, register, lane: (V if bank == 'v' else A) + 64 * register + lane
        factors, start = {}, {}
        for register, bank in zip((2, 4), banks):
            for lane in range(64):
                numbers = [rng.randint(-5, 5) if tiny is None or register == 4 else rng.choice((tiny, 2 * tiny)) for _ in range(self.held)]
                factors[register, lane] = [0 if flushes and x == tiny else x for x in numbers]
                packed = sum(ENCODED[self.number](x) << BITS[self.number] * k for k, x in enumerate(numbers))
                for half in range(-(-self.held * BITS[self.number] // 32)):
                    before.words[word(bank, register + half, lane)] = packed >> 32 * half & M32
        for register, lane in ((register, lane) for register in range(self.count) for lane in range(64)):
            start[register, lane] = int(float(initial)) if isinstance(initial, str) else rng.randint(-100, 100)
            for half in range(self.wide if isinstance(initial, tuple) else 0):
                before.words[word(initial[0], initial[1] + register * self.wide + half, lane)] = \
                    ENCODED[self.total](start[register, lane]) >> 32 * half & M32
        after = before.copy()
        for register, lane in start:
            result = self.sum_of(start[register, lane], factors, modifiers, *place_of_sum(self.total, self.side, register, lane))
            # A zero in the place of a denormal keeps the sign.
            if flushes and abs(result) < 2.0 ** -126: result = math.copysign(0.0, result)
            for half in range(self.wide):
                after.words[word(into[0], into[1] + register * self.wide + half, lane)] = ENCODED[self.total](result) >> 32 * half & M32
        shown = initial if isinstance(initial, str) else self.sums(*initial)
        made = Case(self.row, f'{self.row.name} {self.sums(*into)}, {self.factor(banks[0], 2)}, {self.factor(banks[1], 4)}, {shown}{modifiers}',
                    before, after)
        made.only = only
        return made

    def sum_of(self, result, factors, modifiers, block, i, j):
        for k in range(self.inner):
            part = self.side * self.blocks * (k // self.held)
            lane_a = i + self.side * (block // 2 * 2 + 1 if 'cbsz' in modifiers else block) + part
            lane_b = j + self.side * block + part
            if 'blgp' in modifiers:
                lane_b = {1: lane_b & 31, 2: lane_b & 31 | 32, 3: (lane_b + 16) & 63, 4: lane_b & 15, 6: lane_b & 15 | 32}[int(modifiers[-1])]
            result += factors[2, lane_a][k % self.held] * factors[4, lane_b][k % self.held]
        return result


def matrix_cases(row, rng):
    product = Product(row)
    yield True, product.case(rng, ('a', 0))
    yield False, product.case(rng, '0')
    yield False, product.case(rng, '1.0' if product.total != 'i32' else '7')
    if product.total != 'f64':
        if product.blocks > 1: yield False, product.case(rng, ('a', 0), ' cbsz:1 abid:1')
        for how in (1, 2, 3, 4, 6): yield False, product.case(rng, ('a', 0), f' blgp:{how}')
    size = product.count * product.wide
    if size <= 16: yield False, product.case(rng, ('a', 16))
    # gfx90a has sums in any registers, factors too.
    if size <= 16: yield False, product.case(rng, ('a', 16), into=('a', 16), banks='av', only='gfx90a')
    if size <= 8:
        for initial, banks in ((('v', 8), 'aa'), (('v', 8), 'vv'), ('0', 'va')):
            yield False, product.case(rng, initial, into=('v', 8), banks=banks, only='gfx90a')
    if product.number in DENORMALS:
        for target in ('gfx908', 'gfx90a'): yield False, product.case(rng, '0', only=target, tiny=DENORMALS[product.number])


def cases_of(row, rng):
    if row.name in by_hand(rng): return hand_cases(row, rng)
    if row.format in (VOP1, VOP2, VOPC, VOP3): return vector_cases(row, rng)
    if row.name.startswith('v_mfma'): return matrix_cases(row, rng)
    if row.format == VOP3P: return packed_cases(row, rng)
    if row.format in (SOP1, SOP2, SOPK, SOPC): return scalar_cases(row, rng)
    if row.format == SMEM: return smem_cases(row, rng)
    if row.format == DS: return ds_cases(row, rng)
    if row.format == MUBUF: return buffer_cases(row, rng)
    if row.format in (GLOBAL, FLAT, SCRATCH): return global_cases(row, rng)
    raise KeyError(row.name)


def with_whole_loads(row, rng):
    """The cases of a row that loads halves, as devices have it of which gfx90a is one."""
    global WHOLE_LOADS
    if '_d16' not in row.name or 'load' not in row.name and 'read' not in row.name: return
    WHOLE_LOADS = True
    for needed, case in cases_of(row, rng):
        case.only = 'gfx90a'
        yield needed, case
    WHOLE_LOADS = False


# ---- assembling and running
def assemble(llvm_mc, target, texts):
    """Words of each text; None where the assembler refuses it."""
    lines, owner = [], []
    for number, text in enumerate(texts):
        for line in text.split('\n'):
            lines.append(line)
            owner.append(number)
    done = subprocess.run([llvm_mc, '-triple=amdgcn-amd-amdhsa', f'-mcpu={target}', '-show-encoding'], input='\n'.join(lines) + '\n',
                          capture_output=True, text=True, check=False)
    refused = {int(number) - 1 for number in re.findall(r'<stdin>:(\d+):\d+: error', done.stderr)}
    encodings = re.findall(r'encoding: \[([^]]*)\]', done.stdout)
    accepted = [k for k in range(len(lines)) if k not in refused]
    if len(accepted) != len(encodings):
        sys.exit(f'the assembler answered {len(encodings)} encodings for {len(accepted)} instructions')
    words = [[] for _ in texts]
    for k, encoding in zip(accepted, encodings):
        data = bytes(int(byte, 16) for byte in encoding.split(','))
        words[owner[k]] += [int.from_bytes(data[at:at + 4], 'little') for at in range(0, len(data), 4)]
    for k in refused: words[owner[k]] = None
    return words


def differences(case, found):
    names = [(CODE, 'code'), (S, 's'), (SCC, 'scc'), (MODE, 'mode'), (MODE + 1, 'state'), (V, 'v'), (A, 'a'), (BYTES, 'memory'), (LDS, 'lds'), (OWN, 'scratch')]
    wrong = []
    for word in range(S, WORDS):
        if word in (MODE + 1, MODE + 2) or found[word] == case.after.words[word] and word not in case.loose: continue
        check = case.loose.get(word)
        if isinstance(check, tuple):
            if check[1](found[word] | found[word + 64] << 32): continue
        elif word in case.loose and (check is None or check(found[word])): continue
        start, name = max((s, n) for s, n in names if s <= word)
        at = word - start
        where = f'{name}{at // 64} lane {at % 64}' if name in 'va' else f'{name}[{at}]'
        wrong.append(f'{where}: {found[word]:#010x}, not {case.after.words[word]:#010x}')
    return wrong


def main(run_cases, llvm_mc, pattern='*', seed='1'):
    rng = random.Random(int(seed))
    rows = [Row(line) for line in subprocess.run([run_cases, 'list'], capture_output=True, text=True, check=True).stdout.splitlines()]
    rows = [row for row in rows if fnmatch.fnmatch(row.name, pattern)]
    untested, failed, count = {id(row): row for row in rows}, [], 0
    made = [(row, [*cases_of(row, rng), *with_whole_loads(row, rng)]) for row in rows]
    for target in TARGETS:
        # A row is run on the first target that has it: the tables say nothing twice.
        listed = [(row, needed, case) for row, cases in made for needed, case in cases
                  if case.only == target or case.only is None and id(row) in untested]
        codes = assemble(llvm_mc, target, [case.text for _, _, case in listed])
        runnable = []
        refused = {id(row) for (row, needed, _), code in zip(listed, codes) if needed and code is None}
        for (row, needed, case), code in zip(listed, codes):
            if id(row) in refused or code is None or encodes_another(row, code): continue
            case.before.words[CODE:CODE + CODE_WORDS] = array.array('I', (code + list(ENDS) * CODE_WORDS)[:CODE_WORDS])
            runnable.append(case)
        if not runnable: continue
        done = subprocess.run([run_cases, 'run', target], input=b''.join(case.before.words.tobytes() for case in runnable), capture_output=True, check=False)
        sys.stderr.write(done.stderr.decode())
        for number, case in enumerate(runnable):
            count += 1
            untested.pop(id(case.row), None)
            found = array.array('I', done.stdout[number * WORDS * 4:(number + 1) * WORDS * 4])
            if len(found) < WORDS:
                failed.append((case, ['the process ended at this instruction']))
                break
            wrong = differences(case, found)
            if wrong: failed.append((case, wrong))
    for case, wrong in failed[:40]:
        print(f'{case.text!r}: {"; ".join(wrong[:3])}{f"; and {len(wrong) - 3} more" if len(wrong) > 3 else ""}')
    for row in untested.values(): print(f'{row.name}: no case of it could be assembled and run')
    print(f'{count - len(failed)} passed, {len(failed) + len(untested)} failed')
    return 1 if failed or untested else 0


def encodes_another(row, code):
    """Two rows share a name where targets give it different numbers."""
    word = code[0]
    if row.format == VOP2 and word >> 31 == 0: return (word >> 25 & 0x3f) != row.opcode
    if row.format in (VOP2, VOP3) and word >> 26 == 0x34: return (word >> 16 & 0x3ff) != row.opcode + (0x100 if row.format == VOP2 else 0)
    return False


if __name__ == '__main__':
    if len(sys.argv) < 3 or not sys.argv[2] or 'amdgcn' not in subprocess.run([sys.argv[2], '--version'], capture_output=True, text=True, check=False).stdout:
        print('no llvm-mc with AMDGPU: skipped')
        sys.exit(77)
    sys.exit(main(*sys.argv[1:]))
