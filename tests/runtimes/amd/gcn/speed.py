#!/usr/bin/env python3
"""speed.py RUN_CASES LLVM_MC: wave instructions a second of processor time and thread, for loops of
several kinds; the second figure is in checked mode."""
import array
import os
import random
import subprocess
import sys

import operations_test as cases

LOOPS = {
    'floats, all lanes': 'v_fma_f32 v8, v2, v4, v6\nv_mul_f32 v9, v8, v2\nv_add_f32 v10, v9, v4\nv_fma_f32 v8, v9, v4, v10\nv_max_f32 v11, v8, v9',
    'integers, a scalar source': 'v_add_u32 v8, s2, v4\nv_lshlrev_b32 v9, 2, v8\nv_and_b32 v10, 0xff, v9\nv_xor_b32 v11, v10, v8\nv_mul_lo_u32 v12, v11, v4',
    'half of the lanes': 's_mov_b32 exec_hi, 0\nv_fma_f32 v8, v2, v4, v6\nv_add_u32 v9, v8, v2\nv_mul_f32 v10, v9, v4\nv_lshl_add_u32 v11, v9, 2, v10',
    'comparisons, masks': 'v_cmp_lt_f32 vcc, v2, v4\nv_cndmask_b32 v8, v2, v4, vcc\ns_and_saveexec_b64 s[20:21], vcc\nv_add_u32 v9, v8, v4\ns_mov_b64 exec, s[20:21]',
    'scalars': 's_add_u32 s2, s2, 1\ns_and_b32 s4, s2, 0xff\ns_cmp_lt_u32 s4, 16\ns_cselect_b32 s5, s2, s4\ns_lshl_b64 s[6:7], s[4:5], 2',
    'doubles': 'v_fma_f64 v[8:9], v[2:3], v[4:5], v[6:7]\nv_add_f64 v[10:11], v[8:9], v[2:3]\nv_mul_f64 v[12:13], v[8:9], v[4:5]',
    'halves': 'v_pk_fma_f16 v8, v2, v4, v6\nv_pk_add_f16 v9, v8, v2\nv_cvt_f32_f16 v10, v9\nv_fma_f16 v11, v2, v4, v6',
    'lanes exchanged': 'v_add_f32_dpp v8, v2, v4 row_shr:1 row_mask:0xf bank_mask:0xf\nv_add_u32_sdwa v9, v2, v4 dst_sel:DWORD dst_unused:UNUSED_PAD src0_sel:WORD_1 src1_sel:BYTE_0\nds_bpermute_b32 v10, v14, v2',
    'loads and stores of neighbours': 'global_load_dword v8, v14, s[12:13]\nv_add_u32 v8, 1, v8\nglobal_store_dword v14, v8, s[12:13]',
    'loads scattered, 16 bytes': 'global_load_dwordx4 v[8:11], v15, s[12:13]\nglobal_load_dword v8, v15, s[12:13]',
    'memory of a workgroup': 'ds_read_b32 v8, v14\nv_add_u32 v8, 1, v8\nds_write_b32 v14, v8',
    'a matrix product\'s inner loop': '\n'.join(
        ['ds_read_b128 v[8:11], v15', 'ds_read_b64 v[12:13], v14'] + [f'v_fma_f32 v{3 + k % 5}, v{8 + k % 4}, v{12 + k % 2}, v{3 + k % 5}' for k in range(16)] +
        ['s_add_u32 s2, s2, 1', 's_cmp_lt_u32 s2, s3', 'v_add_u32 v0, 16, v0', 's_and_b32 s4, s2, 7']),
}


def main(run_cases, llvm_mc):
    rng = random.Random(1)
    for name, text in LOOPS.items():
        state = cases.State(rng)
        state.set_s64(cases.EXEC, cases.ALL)
        state.set_s64(12, cases.MEMORY)
        for lane in range(64):
            state.set_v(14, lane, lane * 4)
            state.set_v(15, lane, lane * 7 % 60 * 16)
            for register in range(14): state.set_v(register, lane, cases.F.bits_of(rng.uniform(0.5, 1.5)))
        words = cases.assemble(llvm_mc, 'gfx906', [text])[0]
        words.append(0xbf820000 | -len(words) - 1 & 0xffff)  # s_branch to the beginning
        state.words[:len(words)] = array.array('I', words)
        figures = []
        for environment in ({}, {'HSACPU_CHECKED': '1'}):
            done = subprocess.run([run_cases, 'time', 'gfx906'], input=state.words.tobytes(), capture_output=True, check=True,
                                  env={**os.environ, **environment})
            figures.append(done.stdout.decode().strip())
        print(f'{name:35} {figures[0]:>8} {figures[1]:>8} M/s')


if __name__ == '__main__':
    main(*sys.argv[1:])
