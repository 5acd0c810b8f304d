"""IDX, the format of MNIST's files: one array of numbers, big endian, plain or gzipped.

A file may hold anything. What its header promises is therefore only believed as far as the bytes
have come: memory grows with what is there, up to the promise and never beyond.
"""

import gzip
import math
import os
import struct
import sys
import zlib
from pathlib import Path
from typing import BinaryIO

import numpy as np

KINDS = {0x08: "u1", 0x09: "i1", 0x0B: "i2", 0x0C: "i4", 0x0D: "f4", 0x0E: "f8"}
GZIP = b"\x1f\x8b"
MAX_RANK = 64  # of a NumPy array; the format has room for 255
CHUNK = 2**16


def read_idx(path: str | os.PathLike[str], *, max_bytes: int = 2**31) -> np.ndarray:
    r"""Read an IDX file into an array of its type and shape.

    The file starts with two zero bytes, a byte for the type, a byte for the number of dimensions,
    and the dimensions as 32-bit numbers; then come the entries, the last index running fastest.
    Whether the file is gzipped is seen from its content, not from its name.

    Args:
        path: The file.
        max_bytes: The largest array to accept. A gzipped file can hold a thousand times its size.

    Raises:
        ValueError: If the file is not exactly one IDX array: it names the file and says why.

    >>> import pathlib, tempfile
    >>> file = pathlib.Path(tempfile.mkdtemp()) / "six.idx"
    >>> file.write_bytes(bytes([0, 0, 0x08, 2, 0, 0, 0, 2, 0, 0, 0, 3]) + b"\1\2\3\4\5\6")
    18
    >>> read_idx(file)
    array([[1, 2, 3],
           [4, 5, 6]], dtype=uint8)
    """
    path = Path(path)
    try:
        # Opening a pipe would wait for a writer that may never come.
        if path.exists() and not path.is_file():
            raise ValueError("it is a folder" if path.is_dir() else "it is no regular file")
        with path.open("rb") as file:
            packed = file.read(len(GZIP)) == GZIP
            file.seek(0)
            if not packed:
                return _read(file, max_bytes, os.fstat(file.fileno()).st_size)
            with gzip.GzipFile(fileobj=file) as stream:
                return _read(stream, max_bytes, None)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(
            f"{path} must be an IDX file, but its gzip compression is damaged: {error}."
        ) from error
    except ValueError as error:
        raise ValueError(f"{path} must be an IDX file, but {error}.") from None


def _read(stream: BinaryIO | gzip.GzipFile, max_bytes: int, size: int | None) -> np.ndarray:
    """Read one array; `size` is that of the whole file, where it is known beforehand."""
    kind, shape = _header(stream)
    entries = math.prod(shape)  # of Python's numbers, which do not overflow
    wanted = entries * kind.itemsize
    promise = f"its header promises {'×'.join(map(str, shape))} entries, {wanted:,} bytes"
    if wanted > max_bytes:
        raise ValueError(f"{promise}, which is more than `max_bytes`, {max_bytes:,}")
    if size is not None and size != stream.tell() + wanted:
        raise ValueError(f"{promise}, and {size - stream.tell():,} follow")
    # One byte more than promised is asked for: it tells whether there is more, and at the end of
    # a gzipped file the checksum is compared.
    content = _at_most(stream, wanted + 1)
    if len(content) != wanted:
        follow = f"{len(content):,}" if len(content) < wanted else "more"
        raise ValueError(f"{promise}, and {follow} follow")
    array = np.frombuffer(content, kind)
    if sys.byteorder == "little":
        array.byteswap(inplace=True)
    return array.reshape(shape)


def _header(stream: BinaryIO | gzip.GzipFile) -> tuple[np.dtype, tuple[int, ...]]:
    magic = _at_most(stream, 4)
    if not magic:
        raise ValueError("it is empty")
    if len(magic) < 4:
        raise ValueError(
            f"it ends after {len(magic)} of the 4 bytes that every IDX file begins with"
        )
    if magic[:2] != b"\0\0":
        raise ValueError(f"it begins with {magic.hex(' ')} instead of two zero bytes")
    code, rank = magic[2], magic[3]
    if code not in KINDS:
        known = ", ".join(f"0x{known:02x}" for known in KINDS)
        raise ValueError(f"its type is 0x{code:02x}, which is none of {known}")
    if not 1 <= rank <= MAX_RANK:
        raise ValueError(f"it has {rank} dimensions instead of 1 to {MAX_RANK}")
    packed = _at_most(stream, 4 * rank)
    if len(packed) < 4 * rank:
        raise ValueError(f"it ends within the sizes of its {rank} dimensions")
    shape = struct.unpack(f">{rank}I", packed)
    if 0 in shape:
        raise ValueError(f"dimension {shape.index(0)} has size 0")
    return np.dtype(KINDS[code]), shape


def _at_most(stream: BinaryIO | gzip.GzipFile, count: int) -> bytearray:
    """Read `count` bytes, or as many as there are."""
    content = bytearray()
    while len(content) < count:
        chunk = stream.read(min(CHUNK, count - len(content)))
        if not chunk:
            break
        content += chunk
    return content
