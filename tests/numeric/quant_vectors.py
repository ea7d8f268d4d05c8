"""Writes tests/numeric/vectors/quant.bin: random blocks of every stored type with the values that llama.cpp's own
library
gives them, for tests/unit/tensor/quant_test.c.

Needs the package llama-cpp-python (for its libggml-base). Run: python tests/numeric/quant_vectors.py [OUT]

File, little-endian: u32 count, then per type: u32 type id, u32 elems, u32 bytes, the stored bytes, elems f32 values.
Half of the blocks are random bytes with sane scales (every code and sub-scale occurs), half are random normal values
quantized by the library.
"""
import ctypes
import pathlib
import struct
import sys

import numpy as np

# id: (name, elements per block, bytes per block, offsets of the halves that scale the block)
TYPES = {
    1: ("F16", 1, 2, ()), 30: ("BF16", 1, 2, ()),
    2: ("Q4_0", 32, 18, (0,)), 3: ("Q4_1", 32, 20, (0, 2)), 6: ("Q5_0", 32, 22, (0,)), 7: ("Q5_1", 32, 24, (0, 2)),
    8: ("Q8_0", 32, 34, (0,)), 10: ("Q2_K", 256, 84, (80, 82)), 11: ("Q3_K", 256, 110, (108,)),
    12: ("Q4_K", 256, 144, (0, 2)), 13: ("Q5_K", 256, 176, (0, 2)), 14: ("Q6_K", 256, 210, (208,)),
    20: ("IQ4_NL", 32, 18, (0,)), 23: ("IQ4_XS", 256, 136, (0,)), 39: ("MXFP4", 32, 17, ()),
}
ELEMS = 1024  # of each type; half random bytes, half quantized


class TypeTraits(ctypes.Structure):  # ggml_type_traits
    _fields_ = [("type_name", ctypes.c_char_p), ("blck_size", ctypes.c_int64),
                ("blck_size_interleave", ctypes.c_int64), ("type_size", ctypes.c_size_t),
                ("is_quantized", ctypes.c_bool), ("to_float", ctypes.c_void_p), ("from_float_ref", ctypes.c_void_p)]


def library():
    import llama_cpp
    folder = pathlib.Path(llama_cpp.__file__).parent / "lib"
    lib = ctypes.CDLL(str(next(folder.glob("libggml-base.*"))))
    lib.ggml_get_type_traits.restype = ctypes.POINTER(TypeTraits)
    lib.ggml_quantize_chunk.restype = ctypes.c_size_t
    lib.ggml_quantize_chunk.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64, ctypes.c_int64,
                                        ctypes.c_int64, ctypes.c_void_p]
    return lib


def random_blocks(rng, type_id, count):
    name, _, size, halves = TYPES[type_id]
    blocks = rng.integers(0, 256, (count, size), dtype=np.uint8)
    for at in halves:
        blocks[:, at:at + 2] = rng.normal(0, 0.1, (count, 1)).astype(np.float16).view(np.uint8)
    if name == "MXFP4":
        blocks[:, 0] = rng.integers(100, 150, count)
        blocks[:3, 0] = (0, 1, 2)  # denormal scales
    if not halves and size == 2:  # finite F16 and BF16, denormals too
        values = blocks.view(np.uint16)
        exponent = 0x7C00 if name == "F16" else 0x7F80
        values[(values & exponent) == exponent] &= 0x83FF if name == "F16" else 0x807F
    return blocks.tobytes()


def quantized(lib, rng, type_id, elems):
    _, per_block, size, _ = TYPES[type_id]
    values = rng.normal(0, 1, elems).astype(np.float32)
    out = (ctypes.c_uint8 * (elems // per_block * size))()
    weights = np.ones(elems, dtype=np.float32)
    row = min(elems, 256)
    lib.ggml_quantize_chunk(type_id, values.ctypes.data, out, 0, elems // row, row, weights.ctypes.data)
    return bytes(out)


def dequantized(lib, type_id, data, elems):
    traits = lib.ggml_get_type_traits(type_id).contents
    _, per_block, size, _ = TYPES[type_id]
    assert (traits.blck_size, traits.type_size) == (per_block, size), (
        TYPES[type_id],
        traits.blck_size,
        traits.type_size,
    )
    to_float = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int64)(traits.to_float)
    out = np.zeros(elems, dtype=np.float32)
    to_float(ctypes.c_char_p(data), out.ctypes.data, elems)
    assert np.isfinite(out).all()
    return out


def main():
    here = pathlib.Path(__file__).parent
    path = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else here / "vectors" / "quant.bin"
    lib, rng = library(), np.random.default_rng(20240607)
    parts = [struct.pack("<I", len(TYPES))]
    for type_id, (name, per_block, size, _) in TYPES.items():
        data = random_blocks(rng, type_id, ELEMS // 2 // per_block) + quantized(lib, rng, type_id, ELEMS // 2)
        values = dequantized(lib, type_id, data, ELEMS)
        parts += [struct.pack("<III", type_id, ELEMS, len(data)), data, values.tobytes()]
        print(f"{name}: {len(data)} bytes, largest {np.abs(values).max():g}")
    path.write_bytes(b"".join(parts))
    print(f"{path}: {path.stat().st_size} bytes")


if __name__ == "__main__":
    main()
