"""model.py: what operations compute, from AMD's manuals, written apart from the tables: on bits, one lane at a time.

LANES: name without the encoding's suffix -> function of the sources' bits. Keyword arguments, where a function has them:
mask (the lane's bit read), lane. Returns the result's bits, or (bits, bit written). APPROXIMATE: names whose last digits are free.
SCALARS: name -> function of (a, b, scc), returns (bits, scc). Widths are those of the operation.
"""
import inspect
import math
import struct
from fractions import Fraction

M16, M32, M64 = (1 << 16) - 1, (1 << 32) - 1, (1 << 64) - 1


# ---- bits and numbers
def s8(x): return (x & 0xff) - ((x & 0x80) << 1)
def s16(x): return (x & M16) - ((x & 0x8000) << 1)
def s24(x): return (x & 0xffffff) - ((x & 0x800000) << 1)
def s32(x): return (x & M32) - ((x & 0x80000000) << 1)
def s64(x): return (x & M64) - ((x & (1 << 63)) << 1)


class Format:
    def __init__(self, code, integer, bits, mantissa):
        self.code, self.integer, self.bits, self.mantissa = code, integer, bits, mantissa
        self.exponent_bits = bits - 1 - mantissa
        self.bias = (1 << (self.exponent_bits - 1)) - 1
        self.infinity = ((1 << self.exponent_bits) - 1) << mantissa
        self.sign = 1 << (bits - 1)

    def number(self, x):
        return struct.unpack('<' + self.code, struct.pack('<' + self.integer, x & ((1 << self.bits) - 1)))[0]

    def bits_of(self, x):
        """A Python float, rounded to the nearest of this format."""
        try:
            return struct.unpack('<' + self.integer, struct.pack('<' + self.code, x))[0]
        except OverflowError:
            return self.infinity | (self.sign if x < 0 else 0)

    def exact(self, x):
        return Fraction(self.number(x))

    def round(self, value, sign_of_zero=0):
        """A Fraction, rounded to the nearest, ties to even."""
        if value == 0:
            return self.sign if sign_of_zero else 0
        sign, value = (self.sign, -value) if value < 0 else (0, value)
        exponent = value.numerator.bit_length() - value.denominator.bit_length()
        if Fraction(2) ** exponent > value:
            exponent -= 1
        exponent = max(exponent, 1 - self.bias)
        unit = Fraction(2) ** (exponent - self.mantissa)
        count = value / unit
        whole = count.numerator // count.denominator
        rest = count - whole
        if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole & 1):
            whole += 1
        if whole >= 1 << (self.mantissa + 1):
            whole >>= 1
            exponent += 1
        if exponent > self.bias:
            return sign | self.infinity
        if whole < 1 << self.mantissa:
            return sign | whole
        return sign | (exponent + self.bias) << self.mantissa | (whole - (1 << self.mantissa))

    def is_nan(self, x):
        return x & ~self.sign & ((1 << self.bits) - 1) > self.infinity


H, F, D = Format('e', 'H', 16, 10), Format('f', 'I', 32, 23), Format('d', 'Q', 64, 52)
NAN = float('nan')


def finite(*values):
    return all(math.isfinite(v) for v in values)


def fma(form, a, b, c):
    x, y, z = form.number(a), form.number(b), form.number(c)
    if not finite(x, y):
        return form.bits_of(x * y + z)
    if not finite(z):
        return form.bits_of(z)
    exact = Fraction(x) * Fraction(y) + Fraction(z)
    product_negative = (math.copysign(1, x) < 0) != (math.copysign(1, y) < 0)
    # A zero sum is negative only where both parts are.
    negative_zero = product_negative and math.copysign(1, z) < 0 and (x == 0 or y == 0)
    if exact == 0 and z != 0:
        negative_zero = False
    return form.round(exact, negative_zero)


def divide(x, y):
    if x != x or y != y or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return NAN
    negative = (math.copysign(1, x) < 0) != (math.copysign(1, y) < 0)
    if y == 0:
        return -math.inf if negative else math.inf
    return x / y


def quotient(form, a, b):
    x, y = form.number(a), form.number(b)
    value = divide(x, y)
    if not finite(value, x, y) or value == 0 and x == 0:
        return form.bits_of(value)
    return form.round(Fraction(x) / Fraction(y), (math.copysign(1, x) < 0) != (math.copysign(1, y) < 0)) if x else form.bits_of(value)


def root(x):
    return math.sqrt(x) if x >= 0 else (NAN if x == x else x)


def least(x, y):
    if x != x: return y
    if y != y: return x
    if x == y: return x if math.copysign(1, x) < 0 else y
    return min(x, y)


def most(x, y):
    if x != x: return y
    if y != y: return x
    if x == y: return y if math.copysign(1, x) < 0 else x
    return max(x, y)


def middle(x, y, z):
    if x != x or y != y or z != z:
        return least(least(x, y), z)
    return most(least(x, y), least(most(x, y), z))


def whole(function):
    """trunc, ceil, floor, round of floats, signs of zeros kept."""
    def apply(x):
        if not finite(x) or x == 0:
            return x
        return math.copysign(float(function(Fraction(x))), x)
    return apply


truncated = whole(lambda q: int(q))
ceiling = whole(lambda q: -((-q.numerator) // q.denominator))
floored = whole(lambda q: q.numerator // q.denominator)
nearest = whole(lambda q: round(q))


def to_integer(x, low, high):
    if x != x:
        return 0
    if math.isinf(x):
        return high if x > 0 else low
    return max(low, min(high, int(x)))


def ldexp(form, a, by):
    x = form.number(a)
    if not finite(x) or x == 0:
        return a
    by = max(-3000, min(3000, by))
    return form.round(Fraction(x) * Fraction(2) ** by, x < 0) or (form.sign if x < 0 else 0)


def frexp(form, a):
    x = form.number(a)
    if not finite(x):
        return a, 0
    mantissa, exponent = math.frexp(x)
    return form.bits_of(mantissa), exponent


def fract(form, a):
    x = form.number(a)
    if not finite(x):
        return form.bits_of(NAN)
    exact = Fraction(x) - Fraction(floored(x))
    below_one = (form.bias << form.mantissa) - 1
    return min(form.round(exact), below_one)


def flush(x):
    return math.copysign(0.0, x) if abs(x) < 2.0 ** -126 else x


def single(x):
    return F.number(F.bits_of(x))


def half(x):
    return H.number(H.bits_of(x))


def times(x, y):
    try:
        return x * y
    except OverflowError:
        return math.inf


def mad32(a, b, c):
    product = flush(single(flush(F.number(a)) * flush(F.number(b))))
    return F.bits_of(flush(single(product + flush(F.number(c)))))


def legacy(a, b):
    x, y = F.number(a), F.number(b)
    return 0.0 if x == 0 or y == 0 else x * y


def div_scale(form, s0, s1, s2):
    """V_DIV_SCALE of the manual."""
    big, scale, small = (768, 128, 53) if form is D else (96, 64, 23)
    value, denominator, numerator = (form.number(x) for x in (s0, s1, s2))
    exponent = lambda x: x >> form.mantissa & (form.infinity >> form.mantissa)
    is_denormal = lambda x: x & ~form.sign != 0 and exponent(x) == 0
    if numerator == 0 or denominator == 0:
        return form.bits_of(NAN), 0
    if not finite(numerator, denominator):
        return None, 0
    one_over = form.round(1 / Fraction(denominator))
    ratio = form.round(Fraction(numerator) / Fraction(denominator))
    if exponent(s2) - exponent(s1) >= big:
        return (ldexp(form, s0, scale) if value == denominator else s0), 1
    if is_denormal(s1):
        return ldexp(form, s0, scale), 0
    if is_denormal(one_over) and (is_denormal(ratio) or ratio & ~form.sign == 0):
        return (ldexp(form, s0, scale) if value == denominator else s0), 1
    if is_denormal(one_over):
        return ldexp(form, s0, -scale), 0
    if is_denormal(ratio) or ratio & ~form.sign == 0:
        return (ldexp(form, s0, scale) if value == numerator else s0), 1
    if exponent(s2) <= small:
        return ldexp(form, s0, scale), 0
    return s0, 0


def div_fmas(form, a, b, c, mask):
    result = fma(form, a, b, c)
    if not mask:
        return result
    exponent = c >> form.mantissa & (form.infinity >> form.mantissa)
    by = 128 if form is D else 64
    return ldexp(form, result, by if exponent > form.bias else -by)


def div_fixup(form, a, b, c):
    q, denominator, numerator = (form.number(x) for x in (a, b, c))
    special = not finite(numerator, denominator) or numerator == 0 or denominator == 0
    # Halves are computed as singles: all of them are normal numbers.
    normal = finite(q) and abs(Fraction(q)) >= Fraction(2) ** (1 - (F if form is H else form).bias)
    if special or not normal:
        return quotient(form, c, b) if not special else form.bits_of(divide(numerator, denominator))
    negative = (numerator < 0) != (denominator < 0)
    return a & ~form.sign | (form.sign if negative else 0)


def two_over_pi():
    """1201 binary places of 2/pi."""
    def arctan_of_inverse(x, one):
        term = total = one // x
        n, sign = 3, -1
        while term:
            term //= x * x
            total += sign * (term // n)
            n, sign = n + 2, -sign
        return total
    one = 1 << 1400
    pi = 4 * (4 * arctan_of_inverse(5, one) - arctan_of_inverse(239, one))
    return (2 << 2800) // pi >> 199


TWO_OVER_PI = two_over_pi()


def trig_preop(a, segment):
    exponent = a >> 52 & 0x7ff
    shift = (segment & 31) * 53 + max(0, exponent - 1077)
    if shift > 1200:
        return 0
    places = TWO_OVER_PI << shift & ((1 << 1201) - 1)
    value = Fraction(places >> (1201 - 53)) * Fraction(2) ** (-53 - shift + (128 if exponent >= 1968 else 0))
    return D.round(value)


def parts(x, bits, count, signed=False):
    values = [x >> (bits * k) & ((1 << bits) - 1) for k in range(count)]
    return [v - (1 << bits) if signed and v >> (bits - 1) else v for v in values]


def dot(bits, signed):
    return lambda a, b, c: (c + sum(x * y for x, y in zip(parts(a, bits, 32 // bits, signed), parts(b, bits, 32 // bits, signed)))) & M32


def dot_halves(a, b, c):
    products = [single(H.number(x) * H.number(y)) for x, y in zip(parts(a, 16, 2), parts(b, 16, 2))]
    return F.bits_of(single(products[0] + products[1]) + F.number(c))


def permuted(a, b, selectors):
    data = parts(b, 8, 4) + parts(a, 8, 4)
    result = 0
    for k, selector in enumerate(parts(selectors, 8, 4)):
        if selector >= 13: byte = 0xff
        elif selector == 12: byte = 0
        elif selector >= 8: byte = 0xff if data[2 * (selector - 8) + 1] & 0x80 else 0
        else: byte = data[selector]
        result |= byte << (8 * k)
    return result


def first_one(x, bits):
    return M32 if x == 0 else bits - x.bit_length()


def last_one(x):
    return M32 if x == 0 else (x & -x).bit_length() - 1


def sign_run(x, bits):
    return first_one(~x & ((1 << bits) - 1) if x >> (bits - 1) else x, bits)


def reverse(x, bits):
    return int(format(x, f'0{bits}b')[::-1], 2)


def clamp(x, low, high):
    return max(low, min(high, x))


def normalised(x, high, low):
    if x != x:
        return 0
    scaled = clamp(F.number(F.bits_of(clamp(x, -1e30, 1e30) * high)), low, high)
    return round(Fraction(scaled))


def field(x, start, width):
    return x >> start & ((1 << width) - 1)


def signed_field(x, start, width, bits):
    value = (x - (1 << bits) if x >> (bits - 1) else x) >> start
    if width == 0:
        return 0
    value &= (1 << width) - 1
    return value - (1 << width) if value >> (width - 1) else value


# ---- operations on lanes
LANES = {
    'v_mov_b32': lambda a: a,
    'v_cvt_i32_f64': lambda a: to_integer(D.number(a), -2**31, 2**31 - 1) & M32,
    'v_cvt_u32_f64': lambda a: to_integer(D.number(a), 0, M32),
    'v_cvt_f64_i32': lambda a: D.bits_of(float(s32(a))),
    'v_cvt_f64_u32': lambda a: D.bits_of(float(a)),
    'v_cvt_f32_i32': lambda a: F.round(Fraction(s32(a))),
    'v_cvt_f32_u32': lambda a: F.round(Fraction(a)),
    'v_cvt_u32_f32': lambda a: to_integer(F.number(a), 0, M32),
    'v_cvt_i32_f32': lambda a: to_integer(F.number(a), -2**31, 2**31 - 1) & M32,
    'v_cvt_f16_f32': lambda a: H.bits_of(F.number(a)),
    'v_cvt_f32_f16': lambda a: F.bits_of(H.number(a)),
    'v_cvt_rpi_i32_f32': lambda a: to_integer(floored(F.number(a) + 0.5), -2**31, 2**31 - 1) & M32,
    'v_cvt_flr_i32_f32': lambda a: to_integer(floored(F.number(a)), -2**31, 2**31 - 1) & M32,
    'v_cvt_off_f32_i4': lambda a: F.bits_of(((a & 15) - ((a & 8) << 1)) / 16),
    'v_cvt_f32_f64': lambda a: F.bits_of(D.number(a)),
    'v_cvt_f64_f32': lambda a: D.bits_of(F.number(a)),
    'v_cvt_f16_u16': lambda a: H.round(Fraction(a & M16)),
    'v_cvt_f16_i16': lambda a: H.round(Fraction(s16(a))),
    'v_cvt_u16_f16': lambda a: to_integer(H.number(a), 0, M16),
    'v_cvt_i16_f16': lambda a: to_integer(H.number(a), -2**15, 2**15 - 1) & M16,
    'v_cvt_norm_i16_f16': lambda a: normalised(H.number(a), 32767.0, -32767.0) & M16,
    'v_cvt_norm_u16_f16': lambda a: normalised(H.number(a), 65535.0, 0.0) & M16,
    'v_sat_pk_u8_i16': lambda a: clamp(s16(a), 0, 255) | clamp(s16(a >> 16), 0, 255) << 8,
    'v_not_b32': lambda a: ~a & M32,
    'v_bfrev_b32': lambda a: reverse(a, 32),
    'v_ffbh_u32': lambda a: first_one(a, 32),
    'v_ffbl_b32': last_one,
    'v_ffbh_i32': lambda a: sign_run(a, 32),
    'v_cndmask_b32': lambda a, b, mask: b if mask else a,
    'v_mul_legacy_f32': lambda a, b: F.bits_of(legacy(a, b)),
    'v_mul_i32_i24': lambda a, b: s24(a) * s24(b) & M32,
    'v_mul_hi_i32_i24': lambda a, b: s24(a) * s24(b) >> 32 & M32,
    'v_mul_u32_u24': lambda a, b: (a & 0xffffff) * (b & 0xffffff) & M32,
    'v_mul_hi_u32_u24': lambda a, b: (a & 0xffffff) * (b & 0xffffff) >> 32,
    'v_lshrrev_b32': lambda a, b: b >> (a & 31),
    'v_ashrrev_i32': lambda a, b: s32(b) >> (a & 31) & M32,
    'v_lshlrev_b32': lambda a, b: b << (a & 31) & M32,
    'v_and_b32': lambda a, b: a & b,
    'v_or_b32': lambda a, b: a | b,
    'v_xor_b32': lambda a, b: a ^ b,
    'v_xnor_b32': lambda a, b: ~(a ^ b) & M32,
    'v_mac_f32': mad32, 'v_mad_f32': mad32, 'v_madmk_f32': mad32, 'v_madak_f32': mad32,
    'v_mad_legacy_f32': lambda a, b, c: F.bits_of(single(legacy(a, b)) + F.number(c)),
    'v_add_co_u32': lambda a, b: (a + b & M32, a + b >> 32),
    'v_sub_co_u32': lambda a, b: (a - b & M32, int(a < b)),
    'v_subrev_co_u32': lambda a, b: (b - a & M32, int(b < a)),
    'v_addc_co_u32': lambda a, b, mask: (a + b + mask & M32, a + b + mask >> 32),
    'v_subb_co_u32': lambda a, b, mask: (a - b - mask & M32, int(a < b + mask)),
    'v_subbrev_co_u32': lambda a, b, mask: (b - a - mask & M32, int(b < a + mask)),
    'v_mul_lo_u16': lambda a, b: a * b & M16,
    'v_lshlrev_b16': lambda a, b: b << (a & 15) & M16,
    'v_lshrrev_b16': lambda a, b: (b & M16) >> (a & 15),
    'v_ashrrev_i16': lambda a, b: s16(b) >> (a & 15) & M16,
    'v_ldexp_f16': lambda a, b: ldexp(H, a & M16, s16(b)),
    'v_ldexp_f32': lambda a, b: ldexp(F, a, s32(b)),
    'v_ldexp_f64': lambda a, b: ldexp(D, a, s32(b)),
    'v_dot2c_f32_f16': dot_halves, 'v_dot2_f32_f16': dot_halves,
    'v_dot2c_i32_i16': dot(16, True), 'v_dot2_i32_i16': dot(16, True), 'v_dot2_u32_u16': dot(16, False),
    'v_dot4c_i32_i8': dot(8, True), 'v_dot4_i32_i8': dot(8, True), 'v_dot4_u32_u8': dot(8, False),
    'v_dot8c_i32_i4': dot(4, True), 'v_dot8_i32_i4': dot(4, True), 'v_dot8_u32_u4': dot(4, False),
    'v_pk_fmac_f16': lambda a, b, c: fma(H, a & M16, b & M16, c & M16) | fma(H, a >> 16, b >> 16, c >> 16) << 16,
    'v_mad_i32_i24': lambda a, b, c: s24(a) * s24(b) + c & M32,
    'v_mad_u32_u24': lambda a, b, c: (a & 0xffffff) * (b & 0xffffff) + c & M32,
    'v_bfe_u32': lambda a, b, c: field(a, b & 31, c & 31),
    'v_bfe_i32': lambda a, b, c: signed_field(a, b & 31, c & 31, 32) & M32,
    'v_bfi_b32': lambda a, b, c: a & b | ~a & M32 & c,
    'v_lerp_u8': lambda a, b, c: sum((x + y + (z & 1) >> 1) << (8 * k) for k, (x, y, z) in enumerate(zip(parts(a, 8, 4), parts(b, 8, 4), parts(c, 8, 4)))),
    'v_alignbit_b32': lambda a, b, c: (a << 32 | b) >> (c & 31) & M32,
    'v_alignbyte_b32': lambda a, b, c: (a << 32 | b) >> (8 * (c & 3)) & M32,
    'v_sad_u8': lambda a, b, c: sum(abs(x - y) for x, y in zip(parts(a, 8, 4), parts(b, 8, 4))) + c & M32,
    'v_sad_hi_u8': lambda a, b, c: (sum(abs(x - y) for x, y in zip(parts(a, 8, 4), parts(b, 8, 4))) << 16) + c & M32,
    'v_sad_u16': lambda a, b, c: sum(abs(x - y) for x, y in zip(parts(a, 16, 2), parts(b, 16, 2))) + c & M32,
    'v_sad_u32': lambda a, b, c: abs(a - b) + c & M32,
    'v_msad_u8': lambda a, b, c: sum(abs(x - y) for x, y in zip(parts(a, 8, 4), parts(b, 8, 4)) if y) + c & M32,
    'v_cvt_pk_u8_f32': lambda a, b, c: c & ~(0xff << 8 * (b & 3)) | to_integer(nearest(F.number(a)), 0, 255) << 8 * (b & 3),
    'v_mad_u64_u32': lambda a, b, c: (a * b + c & M64, a * b + c >> 64),
    'v_mad_i64_i32': lambda a, b, c: (s32(a) * s32(b) + c & M64, int(not -2**63 <= s32(a) * s32(b) + s64(c) < 2**63)),
    'v_mad_legacy_u16': lambda a, b, c: a * b + c & M16, 'v_mad_legacy_i16': lambda a, b, c: a * b + c & M16,
    'v_mad_u16': lambda a, b, c: a * b + c & M16, 'v_mad_i16': lambda a, b, c: a * b + c & M16,
    'v_perm_b32': permuted,
    'v_mad_u32_u16': lambda a, b, c: (a & M16) * (b & M16) + c & M32,
    'v_mad_i32_i16': lambda a, b, c: s16(a) * s16(b) + c & M32,
    'v_xad_u32': lambda a, b, c: (a ^ b) + c & M32,
    'v_lshl_add_u32': lambda a, b, c: (a << (b & 31)) + c & M32,
    'v_add_lshl_u32': lambda a, b, c: (a + b & M32) << (c & 31) & M32,
    'v_add3_u32': lambda a, b, c: a + b + c & M32,
    'v_lshl_or_b32': lambda a, b, c: (a << (b & 31) | c) & M32,
    'v_and_or_b32': lambda a, b, c: a & b | c,
    'v_or3_b32': lambda a, b, c: a | b | c,
    'v_mul_lo_u32': lambda a, b: a * b & M32,
    'v_mul_hi_u32': lambda a, b: a * b >> 32,
    'v_mul_hi_i32': lambda a, b: s32(a) * s32(b) >> 32 & M32,
    'v_bcnt_u32_b32': lambda a, b: bin(a).count('1') + b & M32,
    'v_mbcnt_lo_u32_b32': lambda a, b, lane: bin(a & (1 << min(lane, 32)) - 1).count('1') + b & M32,
    'v_mbcnt_hi_u32_b32': lambda a, b, lane: bin(a & (1 << max(lane - 32, 0)) - 1).count('1') + b & M32,
    'v_lshlrev_b64': lambda a, b: b << (a & 63) & M64,
    'v_lshrrev_b64': lambda a, b: b >> (a & 63),
    'v_ashrrev_i64': lambda a, b: s64(b) >> (a & 63) & M64,
    'v_trig_preop_f64': trig_preop,
    'v_bfm_b32': lambda a, b: ((1 << (a & 31)) - 1) << (b & 31) & M32,
    'v_cvt_pkrtz_f16_f32': lambda a, b: towards_zero(a) | towards_zero(b) << 16,
    'v_cvt_pk_u16_u32': lambda a, b: min(a, M16) | min(b, M16) << 16,
    'v_cvt_pk_i16_i32': lambda a, b: clamp(s32(a), -2**15, 2**15 - 1) & M16 | (clamp(s32(b), -2**15, 2**15 - 1) & M16) << 16,
    'v_pack_b32_f16': lambda a, b: a & M16 | (b & M16) << 16,
    'v_fma_mix_f32': lambda a, b, c: fma(F, a, b, c),
    'v_fma_mixlo_f16': lambda a, b, c: H.bits_of(F.number(fma(F, a, b, c))),
    'v_fma_mixhi_f16': lambda a, b, c: H.bits_of(F.number(fma(F, a, b, c))),
    'v_pk_mov_b32': lambda a, b: a & M32 | b >> 32 << 32,
    'v_accvgpr_mov_b32': lambda a: a,
}
for name, form in (('i16', H), ('u16', H)):
    high, low = (32767.0, -32767.0) if name == 'i16' else (65535.0, 0.0)
    for source, reader in (('f32', F), ('f16', H)):
        LANES[f'v_cvt_pknorm_{name}_{source}'] = lambda a, b, high=high, low=low, reader=reader: (
            normalised(reader.number(a), high, low) & M16 | (normalised(reader.number(b), high, low) & M16) << 16)
for k in range(4):
    LANES[f'v_cvt_f32_ubyte{k}'] = lambda a, k=k: F.bits_of(float(a >> 8 * k & 255))


def towards_zero(a):
    x = F.number(a)
    bits = H.bits_of(x)
    if x != x:
        return (a >> 16 & 0x8000) | 0x7e00 | (a >> 13 & 0x3ff)
    if not finite(x):
        return bits
    if bits & 0x7fff == H.infinity or abs(Fraction(H.number(bits))) > abs(Fraction(x)):
        bits -= 1
    return bits


def power_of_two(x):
    return 2.0 ** x if x < 1023 else math.inf if x == x else x


APPROXIMATE = set()
for suffix, form in (('f16', H), ('f32', F), ('f64', D)):
    def simple(function, form=form):
        def apply(*sources):
            try:
                return form.bits_of(function(*(form.number(s) for s in sources)))
            except OverflowError:
                return form.infinity
        apply.count = len(inspect.signature(function).parameters)
        return apply
    LANES.update({
        f'v_trunc_{suffix}': simple(truncated), f'v_ceil_{suffix}': simple(ceiling),
        f'v_floor_{suffix}': simple(floored), f'v_rndne_{suffix}': simple(nearest),
        f'v_fract_{suffix}': lambda a, form=form: fract(form, a & (1 << form.bits) - 1),
        f'v_frexp_mant_{suffix}': lambda a, form=form: frexp(form, a & (1 << form.bits) - 1)[0],
        f'v_rcp_{suffix}': lambda a, form=form: quotient(form, form.bits_of(1.0), a & (1 << form.bits) - 1),
        f'v_sqrt_{suffix}': simple(root),
        f'v_rsq_{suffix}': simple(lambda x: divide(1.0, root(x))),
        f'v_add_{suffix}': simple(lambda x, y: x + y), f'v_sub_{suffix}': simple(lambda x, y: x - y),
        f'v_subrev_{suffix}': simple(lambda x, y: y - x), f'v_mul_{suffix}': simple(times),
        f'v_min_{suffix}': simple(least), f'v_max_{suffix}': simple(most),
        f'v_min3_{suffix}': simple(lambda x, y, z: least(least(x, y), z)),
        f'v_max3_{suffix}': simple(lambda x, y, z: most(most(x, y), z)), f'v_med3_{suffix}': simple(middle),
        f'v_fma_{suffix}': lambda a, b, c, form=form: fma(form, *(x & (1 << form.bits) - 1 for x in (a, b, c))),
        f'v_fmac_{suffix}': lambda a, b, c, form=form: fma(form, a, b, c),
        f'v_div_scale_{suffix}': lambda a, b, c, form=form: div_scale(form, a, b, c),
        f'v_div_fmas_{suffix}': lambda a, b, c, mask, form=form: div_fmas(form, a, b, c, mask),
        f'v_div_fixup_{suffix}': lambda a, b, c, form=form: div_fixup(form, *(x & (1 << form.bits) - 1 for x in (a, b, c))),
        f'v_exp_{suffix}': simple(power_of_two), f'v_exp_legacy_{suffix}': simple(power_of_two),
    })
    log = simple(lambda x: math.log2(x) if 0 < x < math.inf else -math.inf if x == 0 else x if x > 0 else NAN)
    LANES.update({f'v_log_{suffix}': log, f'v_log_legacy_{suffix}': log})
    turns = lambda function: lambda x: function(2 * math.pi * (x - math.floor(x))) if finite(x) else NAN
    LANES.update({f'v_sin_{suffix}': simple(turns(math.sin)), f'v_cos_{suffix}': simple(turns(math.cos))})
    APPROXIMATE |= {f'v_{name}_{suffix}' for name in ('exp', 'log', 'sin', 'cos', 'rsq', 'exp_legacy', 'log_legacy')}
    mad = lambda a, b, c: H.bits_of(half(H.number(a) * H.number(b)) + H.number(c))
LANES.update({name: mad for name in ('v_mac_f16', 'v_madmk_f16', 'v_madak_f16', 'v_mad_f16', 'v_mad_legacy_f16')})
LANES['v_fma_legacy_f16'], LANES['v_div_fixup_legacy_f16'] = LANES['v_fma_f16'], LANES['v_div_fixup_f16']
LANES['v_rcp_iflag_f32'] = LANES['v_rcp_f32']
LANES.update({'v_frexp_exp_i32_f64': lambda a: frexp(D, a)[1] & M32, 'v_frexp_exp_i32_f32': lambda a: frexp(F, a)[1] & M32,
              'v_frexp_exp_i16_f16': lambda a: frexp(H, a & M16)[1] & M16})
for bits, ones in ((16, M16), (32, M32)):
    signed = {16: s16, 32: s32}[bits]
    for kind, read in ((f'u{bits}', lambda x, ones=ones: x & ones), (f'i{bits}', signed)):
        LANES.update({
            f'v_add_{kind}': lambda a, b, ones=ones: a + b & ones, f'v_sub_{kind}': lambda a, b, ones=ones: a - b & ones,
            f'v_subrev_{kind}': lambda a, b, ones=ones: b - a & ones,
            f'v_min_{kind}': lambda a, b, read=read, ones=ones: min(read(a), read(b)) & ones,
            f'v_max_{kind}': lambda a, b, read=read, ones=ones: max(read(a), read(b)) & ones,
            f'v_min3_{kind}': lambda a, b, c, read=read, ones=ones: min(read(a), read(b), read(c)) & ones,
            f'v_max3_{kind}': lambda a, b, c, read=read, ones=ones: max(read(a), read(b), read(c)) & ones,
            f'v_med3_{kind}': lambda a, b, c, read=read, ones=ones: sorted((read(a), read(b), read(c)))[1] & ones,
        })


def saturated(name, count):
    """The clamp bit of integer operations: the result that has no bounds, put into the type's."""
    kind = name.rsplit('_', 1)[1] if not name.startswith(('v_mad_i32', 'v_mad_u32')) else name.split('_')[2]
    bits = int(kind[1:])
    low, high = (0, (1 << bits) - 1) if kind[0] == 'u' else (-(1 << bits - 1), (1 << bits - 1) - 1)
    read = {'u16': lambda x: x & M16, 'i16': s16, 'u32': lambda x: x, 'i32': s32}[kind]
    operation = name.removeprefix('v_').removeprefix('pk_').split('_')[0]
    def apply(*sources):
        if name.endswith(('i24', 'u24')):
            narrow = s24 if name.endswith('i24') else lambda x: x & 0xffffff
            exact = narrow(sources[0]) * narrow(sources[1]) + read(sources[2])
        elif name.endswith(('i32_i16', 'u32_u16')):
            narrow = s16 if name.endswith('i16') else lambda x: x & M16
            exact = narrow(sources[0]) * narrow(sources[1]) + read(sources[2])
        else:
            x, y = read(sources[0]), read(sources[1])
            exact = {'add': x + y, 'sub': x - y, 'subrev': y - x}.get(operation)
            if operation == 'mad':
                exact = x * y + read(sources[2])
        return clamp(exact, low, high) & ((1 << bits) - 1)
    return apply


# ---- packed: name -> function of one half
HALVES = {f'v_pk_{name}': LANES[f'v_{name}'] for name in (
    'mad_i16', 'mul_lo_u16', 'add_i16', 'sub_i16', 'lshlrev_b16', 'lshrrev_b16', 'ashrrev_i16', 'max_i16', 'min_i16',
    'mad_u16', 'add_u16', 'sub_u16', 'max_u16', 'min_u16', 'fma_f16', 'add_f16', 'mul_f16', 'min_f16', 'max_f16')}
WORDS = {'v_pk_fma_f32': LANES['v_fma_f32'], 'v_pk_mul_f32': LANES['v_mul_f32'], 'v_pk_add_f32': LANES['v_add_f32']}


# ---- comparisons
def classified(form, a, mask):
    a &= (1 << form.bits) - 1
    magnitude, negative = a & ~form.sign, a & form.sign
    if magnitude > form.infinity: bit = 1 if a >> (form.mantissa - 1) & 1 else 0
    elif magnitude == form.infinity: bit = 2 if negative else 9
    elif magnitude == 0: bit = 5 if negative else 6
    elif magnitude < 1 << form.mantissa: bit = 4 if negative else 7
    else: bit = 3 if negative else 8
    return mask >> bit & 1


ORDERED = {'lt': lambda x, y: x < y, 'eq': lambda x, y: x == y, 'le': lambda x, y: x <= y, 'gt': lambda x, y: x > y,
           'lg': lambda x, y: x < y or x > y, 'ge': lambda x, y: x >= y, 'o': lambda x, y: x == x and y == y}


def comparison(name):
    """Of v_cmp_NAME or v_cmpx_NAME: a function of two lanes' bits."""
    what, kind = name.split('_')[2:4]
    if what == 'class':
        form = {'f16': H, 'f32': F, 'f64': D}[kind]
        return lambda a, b: classified(form, a, b)
    read = {'f16': H.number, 'f32': F.number, 'f64': D.number, 'i16': s16, 'u16': lambda x: x & M16, 'i32': s32,
            'u32': lambda x: x, 'i64': s64, 'u64': lambda x: x}[kind]
    if what in ('f', 't', 'tru'):
        return lambda a, b: int(what != 'f')
    if what in ORDERED:
        return lambda a, b: int(ORDERED[what](read(a), read(b)))
    if what == 'ne':
        return lambda a, b: int(read(a) != read(b))
    opposite = {'u': 'o'}.get(what, what[1:])
    return lambda a, b: int(not ORDERED[opposite](read(a), read(b)))


# ---- scalar operations
def flagged(function, bits=32):
    """scc is whether the result is not zero."""
    def apply(a, b, scc):
        result = function(a, b) & ((1 << bits) - 1)
        return result, int(result != 0)
    return apply


def kept(function, bits=32):
    return lambda a, b, scc: (function(a, b) & ((1 << bits) - 1), scc)


def overflow(exact):
    return int(not -2**31 <= exact < 2**31)


SCALARS = {
    's_add_u32': lambda a, b, scc: (a + b & M32, a + b >> 32),
    's_sub_u32': lambda a, b, scc: (a - b & M32, int(a < b)),
    's_add_i32': lambda a, b, scc: (a + b & M32, overflow(s32(a) + s32(b))),
    's_sub_i32': lambda a, b, scc: (a - b & M32, overflow(s32(a) - s32(b))),
    's_addc_u32': lambda a, b, scc: (a + b + scc & M32, a + b + scc >> 32),
    's_subb_u32': lambda a, b, scc: (a - b - scc & M32, int(a < b + scc)),
    's_min_i32': lambda a, b, scc: (min(s32(a), s32(b)) & M32, int(s32(a) < s32(b))),
    's_min_u32': lambda a, b, scc: (min(a, b), int(a < b)),
    's_max_i32': lambda a, b, scc: (max(s32(a), s32(b)) & M32, int(s32(a) > s32(b))),
    's_max_u32': lambda a, b, scc: (max(a, b), int(a > b)),
    's_cselect_b32': lambda a, b, scc: (a if scc else b, scc),
    's_cselect_b64': lambda a, b, scc: (a if scc else b, scc),
    's_lshl_b32': flagged(lambda a, b: a << (b & 31)), 's_lshl_b64': flagged(lambda a, b: a << (b & 63), 64),
    's_lshr_b32': flagged(lambda a, b: a >> (b & 31)), 's_lshr_b64': flagged(lambda a, b: a >> (b & 63), 64),
    's_ashr_i32': flagged(lambda a, b: s32(a) >> (b & 31)), 's_ashr_i64': flagged(lambda a, b: s64(a) >> (b & 63), 64),
    's_bfm_b32': kept(lambda a, b: ((1 << (a & 31)) - 1) << (b & 31)),
    's_bfm_b64': kept(lambda a, b: ((1 << (a & 63)) - 1) << (b & 63), 64),
    's_mul_i32': kept(lambda a, b: a * b), 's_mul_hi_u32': kept(lambda a, b: a * b >> 32),
    's_mul_hi_i32': kept(lambda a, b: s32(a) * s32(b) >> 32),
    's_bfe_u32': flagged(lambda a, b: field(a, b & 31, b >> 16 & 127)),
    's_bfe_u64': flagged(lambda a, b: field(a, b & 63, b >> 16 & 127), 64),
    's_bfe_i32': flagged(lambda a, b: signed_field(a, b & 31, min(b >> 16 & 127, 32), 32)),
    's_bfe_i64': flagged(lambda a, b: signed_field(a, b & 63, min(b >> 16 & 127, 64), 64), 64),
    's_absdiff_i32': flagged(lambda a, b: abs(s32(a) - s32(b))),
    's_pack_ll_b32_b16': kept(lambda a, b: a & M16 | (b & M16) << 16),
    's_pack_lh_b32_b16': kept(lambda a, b: a & M16 | b >> 16 << 16),
    's_pack_hh_b32_b16': kept(lambda a, b: a >> 16 | b >> 16 << 16),
    's_brev_b32': kept(lambda a, b: reverse(a, 32)), 's_brev_b64': kept(lambda a, b: reverse(a, 64), 64),
    's_flbit_i32': kept(lambda a, b: sign_run(a, 32)), 's_flbit_i32_i64': kept(lambda a, b: sign_run(a, 64)),
    's_sext_i32_i8': kept(lambda a, b: s8(a)), 's_sext_i32_i16': kept(lambda a, b: s16(a)),
    's_abs_i32': flagged(lambda a, b: abs(s32(a))),
    's_bitreplicate_b64_b32': kept(lambda a, b: sum(3 << 2 * k for k in range(32) if a >> k & 1), 64),
}
for k in range(1, 5):
    SCALARS[f's_lshl{k}_add_u32'] = lambda a, b, scc, k=k: ((a << k) + b & M32, int((a << k) + b > M32))
LOGIC = {'and': lambda a, b: a & b, 'or': lambda a, b: a | b, 'xor': lambda a, b: a ^ b, 'andn2': lambda a, b: a & ~b,
         'orn2': lambda a, b: a | ~b, 'nand': lambda a, b: ~(a & b), 'nor': lambda a, b: ~(a | b), 'xnor': lambda a, b: ~(a ^ b),
         'andn1': lambda a, b: ~a & b, 'orn1': lambda a, b: ~a | b}
quads = lambda a, width: sum(width << 4 * k if width == 15 else width << k for k in range(16) if a >> 4 * k & 15)
for bits in (32, 64):
    all_ones = (1 << bits) - 1
    SCALARS.update({f's_{name}_b{bits}': flagged(function, bits) for name, function in LOGIC.items() if name[-1] != '1'})
    SCALARS.update({
        f's_mov_b{bits}': kept(lambda a, b: a, bits), f's_not_b{bits}': flagged(lambda a, b: ~a, bits),
        f's_wqm_b{bits}': flagged(lambda a, b: quads(a, 15), bits), f's_quadmask_b{bits}': flagged(lambda a, b: quads(a, 1), bits),
        f's_bcnt0_i32_b{bits}': flagged(lambda a, b, bits=bits: bits - bin(a).count('1')),
        f's_bcnt1_i32_b{bits}': flagged(lambda a, b: bin(a).count('1')),
        f's_ff0_i32_b{bits}': kept(lambda a, b, ones=all_ones: last_one(~a & ones)), f's_ff1_i32_b{bits}': kept(lambda a, b: last_one(a)),
        f's_flbit_i32_b{bits}': kept(lambda a, b, bits=bits: first_one(a, bits)),
    })
CONDITIONS = {'eq': lambda x, y: x == y, 'lg': lambda x, y: x != y, 'gt': lambda x, y: x > y, 'ge': lambda x, y: x >= y,
              'lt': lambda x, y: x < y, 'le': lambda x, y: x <= y}


def scalar_condition(name, a, b):
    """scc after s_cmp_*, s_cmpk_*, s_bitcmp*."""
    words = name.split('_')
    if words[1].startswith('bitcmp'):
        bits = int(words[2][1:])
        return int((a >> (b & bits - 1) & 1) == int(words[1][-1]))
    read = {'i32': s32, 'u32': lambda x: x, 'u64': lambda x: x}[words[3]]
    return int(CONDITIONS[words[2]](read(a), read(b)))


# ---- atomics: name after atomic_ or ds_ -> what memory becomes of (old, data, second)
def atomic(operation, kind):
    bits = int(kind[1:]) if kind[0] in 'uifb' else 32
    mask = (1 << bits) - 1
    read = {'i32': s32, 'i64': s64}.get(kind, lambda x: x)
    form = {'f32': F, 'f64': D}.get(kind)
    if form:
        x = form.number
        return {'add': lambda o, d, s: form.bits_of(x(o) + x(d)), 'min': lambda o, d, s: form.bits_of(least(x(o), x(d))),
                'max': lambda o, d, s: form.bits_of(most(x(o), x(d))), 'cmpst': lambda o, d, s: s if x(o) == x(d) else o}[operation]
    return {
        'swap': lambda o, d, s: d, 'wrxchg': lambda o, d, s: d, 'cmpswap': lambda o, d, s: d if o == s else o,
        'cmpst': lambda o, d, s: s if o == d else o, 'add': lambda o, d, s: o + d & mask, 'sub': lambda o, d, s: o - d & mask,
        'rsub': lambda o, d, s: d - o & mask, 'min': lambda o, d, s: min(read(o), read(d)) & mask,
        'max': lambda o, d, s: max(read(o), read(d)) & mask, 'and': lambda o, d, s: o & d, 'or': lambda o, d, s: o | d,
        'xor': lambda o, d, s: o ^ d, 'inc': lambda o, d, s: 0 if o >= d else o + 1,
        'dec': lambda o, d, s: d if o == 0 or o > d else o - 1, 'mskor': lambda o, d, s: o & ~d & mask | s,
        'wrap': lambda o, d, s: (o - d if o >= d else o + s) & mask,
        'pk_add_f16': lambda o, d, s: H.bits_of(H.number(o) + H.number(d)) | H.bits_of(H.number(o >> 16) + H.number(d >> 16)) << 16,
    }[operation]
