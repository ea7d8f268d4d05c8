"""Writes GGUF v3 files: metadata and tensors as numpy arrays. Only what the test models need, with numpy alone."""
import struct
import numpy as np

ALIGN = 32


def _string(text):
    raw = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(raw)) + raw


def _value(value):
    if isinstance(value, bool):
        return struct.pack("<I", 7) + struct.pack("<?", value)
    if isinstance(value, int):
        return struct.pack("<I", 4) + struct.pack("<I", value)
    if isinstance(value, float):
        return struct.pack("<I", 6) + struct.pack("<f", value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + _string(value)
    if isinstance(value, list):
        if value and isinstance(value[0], str):
            kind, body = 8, b"".join(_string(v) for v in value)
        elif value and isinstance(value[0], float):
            kind, body = 6, b"".join(struct.pack("<f", v) for v in value)
        else:
            kind, body = 5, b"".join(struct.pack("<i", v) for v in value)
        return struct.pack("<I", 9) + struct.pack("<IQ", kind, len(value)) + body
    raise TypeError(type(value))


def encode(array, kind):
    """array (float32) -> (GGUF type id, bytes)"""
    array = np.ascontiguousarray(array, np.float32)
    if kind == "f32" or array.ndim == 1:
        return 0, array.tobytes()
    if kind == "f16":
        return 1, array.astype(np.float16).tobytes()
    bits = array.view(np.uint32)
    return 30, ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16).tobytes()  # bf16, nearest even


def write(path, metadata, tensors, kind="f32"):
    """tensors: name -> array in (rows, cols) order; the file's ne is the reverse."""
    out = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(metadata))
    for key, value in metadata.items():
        out += _string(key) + _value(value)
    offset, blobs = 0, []
    for name, array in tensors.items():
        type_id, blob = encode(array, kind)
        out += _string(name) + struct.pack("<I", array.ndim)
        out += b"".join(struct.pack("<Q", n) for n in reversed(array.shape)) + struct.pack("<IQ", type_id, offset)
        blob += b"\0" * (-len(blob) % ALIGN)
        blobs.append(blob)
        offset += len(blob)
    out += b"\0" * (-len(out) % ALIGN)
    with open(path, "wb") as f:
        f.write(out)
        for blob in blobs:
            f.write(blob)


def tokenizer_metadata(vocab):
    """A vocabulary of single bytes and fillers, so that the file opens everywhere."""
    tokens = [f"<t{i}>" for i in range(vocab)]
    return {"tokenizer.ggml.model": "gpt2", "tokenizer.ggml.pre": "gpt-2", "tokenizer.ggml.tokens": tokens,
            "tokenizer.ggml.token_type": [1] * vocab, "tokenizer.ggml.merges": ["a b"],
            "tokenizer.ggml.eos_token_id": 0, "tokenizer.ggml.bos_token_id": 0}
