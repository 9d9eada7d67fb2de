"""tiny_model.py FILE f32|f16 [LAYERS]: a model for llama.cpp, of some megabytes and random weights: its words mean nothing, but every
operation of a real one is computed. The same arguments give the same bytes. The format is GGUF, version 3.
"""
import array
import random
import struct
import sys

WIDTH, HEADS, INNER, CONTEXT, WORDS = 256, 4, 512, 512, 384
ALIGNMENT = 32
UINT32, INT32, FLOAT32, STRING, ARRAY = 4, 5, 6, 8, 9  # kinds of values
KINDS = {'f32': 0, 'f16': 1}  # of tensors
NORMAL, UNKNOWN, CONTROL, BYTE = 1, 2, 3, 6  # of words


def string(text):
    data = text.encode()
    return struct.pack('<Q', len(data)) + data


def value(kind, content):
    if kind == STRING:
        return string(content)
    return struct.pack({UINT32: '<I', INT32: '<i', FLOAT32: '<f'}[kind], content)


def entry(key, kind, content):
    return string(key) + struct.pack('<I', kind) + value(kind, content)


def entry_of_many(key, kind, contents):
    return string(key) + struct.pack('<IIQ', ARRAY, kind, len(contents)) + b''.join(value(kind, each) for each in contents)


def words():
    """Each with its kind, as a tokenizer of sentencepiece has them: bytes stand for what is no word."""
    first = [('<unk>', UNKNOWN), ('<s>', CONTROL), ('</s>', CONTROL)] + [(f'<0x{byte:02X}>', BYTE) for byte in range(256)]
    letters = [('\u2581', NORMAL)] + [(chr(ord('a') + i), NORMAL) for i in range(26)]
    all_words = first + letters
    return all_words + [(f'w{i}', NORMAL) for i in range(WORDS - len(all_words))]


def description(kind, layers):
    names = words()
    return [
        entry('general.architecture', STRING, 'llama'), entry('general.name', STRING, 'tiny'),
        entry('general.file_type', UINT32, KINDS[kind]), entry('llama.context_length', UINT32, CONTEXT),
        entry('llama.embedding_length', UINT32, WIDTH), entry('llama.block_count', UINT32, layers),
        entry('llama.feed_forward_length', UINT32, INNER), entry('llama.attention.head_count', UINT32, HEADS),
        entry('llama.attention.head_count_kv', UINT32, HEADS), entry('llama.rope.dimension_count', UINT32, WIDTH // HEADS),
        entry('llama.attention.layer_norm_rms_epsilon', FLOAT32, 1e-5), entry('llama.vocab_size', UINT32, WORDS),
        entry('tokenizer.ggml.model', STRING, 'llama'),
        entry_of_many('tokenizer.ggml.tokens', STRING, [name for name, _ in names]),
        entry_of_many('tokenizer.ggml.scores', FLOAT32, [-float(i) for i in range(WORDS)]),
        entry_of_many('tokenizer.ggml.token_type', INT32, [what for _, what in names]),
        entry('tokenizer.ggml.bos_token_id', UINT32, 1), entry('tokenizer.ggml.eos_token_id', UINT32, 2)]


def shapes(layers):
    """Name and shape of each tensor, columns first. One row: factors of a norm."""
    yield 'token_embd', (WIDTH, WORDS)
    for layer in range(layers):
        yield f'blk.{layer}.attn_norm', (WIDTH,)
        for name in ('attn_q', 'attn_k', 'attn_v', 'attn_output'):
            yield f'blk.{layer}.{name}', (WIDTH, WIDTH)
        yield f'blk.{layer}.ffn_norm', (WIDTH,)
        yield f'blk.{layer}.ffn_gate', (WIDTH, INNER)
        yield f'blk.{layer}.ffn_up', (WIDTH, INNER)
        yield f'blk.{layer}.ffn_down', (INNER, WIDTH)
    yield 'output_norm', (WIDTH,)
    yield 'output', (WIDTH, WORDS)


def weights(shape, kind):
    if len(shape) == 1:
        return KINDS['f32'], array.array('f', [random.uniform(0.5, 1.5) for _ in range(shape[0])]).tobytes()
    numbers = [random.gauss(0, 0.08) for _ in range(shape[0] * shape[1])]
    return KINDS[kind], struct.pack(f'<{len(numbers)}{"f" if kind == "f32" else "e"}', *numbers)


def padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def main(path, kind, layers='2'):
    random.seed(14)
    entries = description(kind, int(layers))
    infos, data = [], b''
    for name, shape in shapes(int(layers)):
        stored_as, content = weights(shape, kind)
        infos.append(string(name + '.weight') + struct.pack('<I', len(shape)) + struct.pack(f'<{len(shape)}Q', *shape) +
                     struct.pack('<IQ', stored_as, len(data)))
        data += padded(content)
    head = b'GGUF' + struct.pack('<IQQ', 3, len(infos), len(entries)) + b''.join(entries) + b''.join(infos)
    with open(path, 'wb') as file:
        file.write(padded(head) + data)


if __name__ == '__main__':
    if not 3 <= len(sys.argv) <= 4 or sys.argv[2] not in KINDS:
        sys.exit(__doc__)
    main(*sys.argv[1:])
