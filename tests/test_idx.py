"""The IDX reader gives the array that is in the file, or a `ValueError` that names the file."""

import gzip
import math
import os
import random
import struct
import tracemalloc
import zlib

import numpy as np
import pytest

from rsgda.data import read_idx

# Written out, not taken from the reader: code, letter of `struct`, NumPy's name.
KINDS = [
    (0x08, "B", "uint8"),
    (0x09, "b", "int8"),
    (0x0B, "h", "int16"),
    (0x0C, "i", "int32"),
    (0x0D, "f", "float32"),
    (0x0E, "d", "float64"),
]
LETTERS = {code: letter for code, letter, _ in KINDS}
NAMES = {code: name for code, _, name in KINDS}
SHAPES = [(5,), (2, 3), (4, 1, 3), (2, 3, 1, 5)]
FUZZ_CASES = 12_000
OVERHEAD = 300_000  # bytes that reading the smallest file may take: buffers, and the error


def header(code, shape, *, zeros=b"\0\0", rank=None):
    rank = len(shape) if rank is None else rank
    return zeros + struct.pack(f">BB{len(shape)}I", code, rank, *shape)


def values_of(code, shape, rng):
    count = math.prod(shape)
    if code in (0x0D, 0x0E):
        return [rng.choice([0.0, -0.5, 1.5, 2.0**100, float("inf")]) for _ in range(count)]
    bits = 8 * struct.calcsize(LETTERS[code])
    low = 0 if code == 0x08 else -(2 ** (bits - 1))
    return [rng.choice([low, low + 2**bits - 1, rng.randrange(low, low + 2**bits)])
            for _ in range(count)]  # fmt: skip


def packed(code, shape, values):
    return header(code, shape) + struct.pack(f">{len(values)}{LETTERS[code]}", *values)


@pytest.fixture
def write(tmp_path):
    def write(content, name="some.idx"):
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize(("code", "letter", "name"), KINDS, ids=lambda kind: str(kind))
def test_what_was_packed_is_read(code, letter, name, shape, write):
    values = values_of(code, shape, random.Random(f"{code} {shape}"))
    content = packed(code, shape, values)
    for file in (write(content), write(gzip.compress(content), "some.idx.gz")):
        array = read_idx(file)
        assert array.shape == shape
        assert array.dtype == np.dtype(name)
        assert array.dtype.isnative
        assert array.ravel().tolist() == values
        assert array.flags.writeable
        assert array.flags.c_contiguous


def test_the_name_does_not_matter(write):
    content = packed(0x08, (2,), [1, 2])
    assert read_idx(str(write(gzip.compress(content), "no-ending"))).tolist() == [1, 2]
    assert read_idx(write(content, "plain.gz")).tolist() == [1, 2]


SIX = packed(0x08, (2, 3), range(6))
SIX_GZ = gzip.compress(SIX, mtime=0)
FAULTS = {
    "empty": (b"", "it is empty"),
    "empty when unpacked": (gzip.compress(b""), "it is empty"),
    "two bytes": (b"\0\0", "ends after 2 of the 4 bytes"),
    "wrong start": (b"PK" + SIX[2:], "begins with 50 4b 08 02"),
    "packed twice": (gzip.compress(SIX_GZ), "begins with 1f 8b"),
    "unknown type": (b"\0\0\x0a" + SIX[3:], "its type is 0x0a"),
    "rank 0": (header(0x08, ()) + b"\1", "it has 0 dimensions"),
    "rank 65": (header(0x08, (1,) * 65) + b"\1", "it has 65 dimensions instead of 1 to 64"),
    "ends in the sizes": (SIX[:11], "ends within the sizes of its 2 dimensions"),
    "size 0": (header(0x08, (3, 0)), "dimension 1 has size 0"),
    "size 0 hides an overflow": (header(0x08, (2**32 - 1,) * 9 + (0,)), "dimension 9 has size 0"),
    "short": (SIX[:-1], "promises 2×3 entries, 6 bytes, and 5 follow"),
    "short, packed": (gzip.compress(SIX[:-1]), "promises 2×3 entries, 6 bytes, and 5 follow"),
    "long": (SIX + b"\0\0", "6 bytes, and 8 follow"),
    "long, packed": (gzip.compress(SIX + b"\0\0"), "6 bytes, and more follow"),
    "product 2**64": (header(0x08, (2**16,) * 4) + b"\1", "more than `max_bytes`"),
    "product 2**64, of 8 bytes each": (header(0x0E, (2**31, 2**31, 4)), "more than `max_bytes`"),
    "cut gzip": (SIX_GZ[:-9], "gzip compression is damaged"),
    "cut in the checksum": (SIX_GZ[:-5], "gzip compression is damaged"),
    "wrong checksum": (SIX_GZ[:-8] + b"\0\0\0\0" + SIX_GZ[-4:], "CRC check failed"),
    "wrong length": (SIX_GZ[:-1] + b"\1", "Incorrect length"),
    "not deflated": (SIX_GZ[:10] + b"\xff" * 20, "gzip compression is damaged"),
    "more after gzip": (SIX_GZ + b"more", "gzip compression is damaged"),
    "gzip's first bytes alone": (b"\x1f\x8b", "gzip compression is damaged"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_fault_is_told(fault, write):
    content, message = FAULTS[fault]
    file = write(content)
    with pytest.raises(ValueError, match="must be an IDX file") as caught:
        read_idx(file)
    assert str(file) in str(caught.value)
    assert message in str(caught.value)


def test_what_is_no_file_is_refused(tmp_path):
    with pytest.raises(ValueError, match="it is a folder"):
        read_idx(tmp_path)
    with pytest.raises(FileNotFoundError, match="absent"):
        read_idx(tmp_path / "absent")


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no named pipes on this system")
def test_a_pipe_is_not_waited_for(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="no regular file"):
        read_idx(tmp_path / "pipe")


def test_the_largest_size_is_the_callers(write):
    file = write(SIX_GZ)
    assert read_idx(file, max_bytes=6).shape == (2, 3)
    with pytest.raises(ValueError, match="more than `max_bytes`, 5"):
        read_idx(file, max_bytes=5)


def traced(function, *args, **options):
    """What the function returns or the `ValueError` it raises, and the most memory it took."""
    tracemalloc.reset_peak()
    before = tracemalloc.get_traced_memory()[0]
    try:
        outcome = function(*args, **options)
    except ValueError as error:
        outcome = error
    return outcome, tracemalloc.get_traced_memory()[1] - before


@pytest.fixture
def tracing():
    tracemalloc.start()
    yield
    tracemalloc.stop()


MIB = 2**20
BOMB = bytes(32 * MIB)


@pytest.mark.parametrize(
    ("shape", "most"),
    [
        ((100,), 0),  # what follows is not unpacked
        ((2**32 - 1, 2**32 - 1), 0),  # refused by its size
        ((2**31 + 1,), 0),
        ((2**15, 2**15), 32 * MIB),  # the promised GiB is not there
        ((32, MIB), 32 * MIB),  # as promised
    ],
    ids=str,
)
def test_memory_is_bounded_by_what_is_there(shape, most, write, tracing):
    file = write(gzip.compress(header(0x08, shape) + BOMB, 1))
    outcome, peak = traced(read_idx, file)
    assert isinstance(outcome, np.ndarray) == (math.prod(shape) == len(BOMB))
    assert peak < 1.2 * most + OVERHEAD


def test_a_promise_of_a_plain_file_takes_no_memory(write, tracing):
    file = write(header(0x0E, (2**14, 2**14)) + bytes(MIB))
    outcome, peak = traced(read_idx, file)
    assert "2,147,483,648 bytes, and 1,048,576 follow" in str(outcome)
    assert peak < OVERHEAD


# The fuzzer. A case is what is written and what must come back: an array's content, or None for
# a refusal. For a damaged gzip file it may be either, as much of gzip's header means nothing.


def content_of(plain):
    """Whether `plain` is an IDX file by the letter of the format: (type, shape, entries)."""
    if len(plain) < 4 or plain[:2] != b"\0\0" or plain[2] not in LETTERS:
        return None
    start = 4 + 4 * plain[3]
    if plain[3] == 0 or len(plain) < start:
        return None
    shape = struct.unpack(f">{plain[3]}I", plain[4:start])
    wanted = math.prod(shape) * struct.calcsize(LETTERS[plain[2]])
    if wanted == 0 or len(plain) - start != wanted:
        return None
    return NAMES[plain[2]], shape, plain[start:]


def read_content(file):
    array = read_idx(file, max_bytes=MIB)
    return str(array.dtype), array.shape, array.astype(array.dtype.newbyteorder(">")).tobytes()


def flipped(content, rng):
    content = bytearray(content)
    for _ in range(rng.choice([1, 1, 1, 2, 5])):
        content[rng.randrange(len(content))] ^= 1 << rng.randrange(8)
    return bytes(content)


def flipped_header(content, rng):
    end = 4 + 4 * content[3]
    return flipped(content[:end], rng) + content[end:]


def truncated(content, rng):
    return content[: rng.randrange(len(content))]


def cut_at_a_seam(content, rng):
    seam = rng.choice([4, 4 + 4 * content[3], len(content)])
    return content[: max(0, seam - rng.choice([0, 1, 2, 4]))]


def lengthened(content, rng):
    return content + rng.randbytes(rng.choice([1, 2, 8, 1000]))


def spliced(content, rng):
    at, length = rng.randrange(len(content)), rng.randrange(1, 20)
    return content[:at] + rng.randbytes(rng.randrange(20)) + content[at + length :]


def oversized(content, rng):
    rank = rng.choice([1, 2, 3, 4, 32, 64, 65, 255])
    shape = [rng.choice([0, 1, 2, 2**16, 2**31, 2**32 - 1]) for _ in range(rank)]
    return header(rng.choice([*NAMES, 0x0A]), shape) + content[8:]


def retyped(content, rng):
    return content[:2] + bytes([rng.randrange(256)]) + content[3:]


def reranked(content, rng):
    return content[:3] + bytes([rng.randrange(256)]) + content[4:]


def reshaped(content, rng):
    rank = content[3]
    shape = list(struct.unpack(f">{rank}I", content[4 : 4 + 4 * rank]))
    rng.shuffle(shape)
    shape.insert(rng.randrange(rank + 1), rng.choice([1, 1, 2]))
    return header(content[2], shape) + content[4 + 4 * rank :]


def random_bytes(content, rng):
    return rng.choice([b"", b"\0\0", b"\0\0\x08\1", b"\x1f\x8b", b"\x1f\x8b\x08"]) + rng.randbytes(
        rng.randrange(200)
    )


def unchanged(content, rng):
    return content


PLAIN = [flipped, flipped_header, truncated, cut_at_a_seam, lengthened, spliced, oversized, retyped,
         reranked, reshaped, random_bytes, unchanged]  # fmt: skip
PACKED = [flipped, truncated, lengthened, spliced, unchanged]


def packed_with_a_header(content, rng):
    """Gzip with the header's optional fields, which the standard library does not write."""
    flags = rng.randrange(32)
    head = bytes([0x1F, 0x8B, 8, flags]) + rng.randbytes(6)
    if flags & 4:
        head += struct.pack("<H", 3) + b"abc"
    if flags & 8:
        head += b"name\0"
    if flags & 16:
        head += b"comment\0"
    if flags & 2:
        head += struct.pack("<H", zlib.crc32(head) & 0xFFFF)
    deflate = zlib.compressobj(rng.choice([0, 1, 9]), zlib.DEFLATED, -15)
    body = deflate.compress(content) + deflate.flush()
    tail = struct.pack("<II", zlib.crc32(content), len(content))
    more = rng.choice([b"", b"", bytes(7), gzip.compress(b"")])  # padding, an empty member
    return head + body + tail + more


def cases(count):
    rng = random.Random(20_240)
    bombs = [gzip.compress(header(0x08, shape) + bytes(4 * MIB), 1)
             for shape in [(7,), (2**32 - 1,), (4 * MIB,), (MIB,)]]  # fmt: skip
    for number in range(count):
        if number % 100 == 0:
            yield "bomb", rng.choice(bombs), False, None
            continue
        code, shape = (
            rng.choice([*NAMES]),
            [rng.randrange(1, 6) for _ in range(rng.choice([1, 2, 3, 4]))],
        )
        sound = packed(code, shape, values_of(code, shape, rng))
        if number % 3 < 2:
            change = rng.choice(PLAIN)
            plain = change(sound, rng)
            gz = number % 3 == 1
            wanted = content_of(plain) if gz or plain[:2] != b"\x1f\x8b" else None
            content = packed_with_a_header(plain, rng) if gz else plain
            yield change.__name__ + " gz" * gz, content, False, wanted
        else:
            change = rng.choice(PACKED)
            content = change(packed_with_a_header(sound, rng), rng)
            yield f"gz {change.__name__}", content, change is not unchanged, content_of(sound)


@pytest.fixture
def many():
    return list(cases(FUZZ_CASES))


@pytest.mark.slow
def test_anything_gives_its_array_or_a_value_error(tmp_path, many, tracing):
    path, told = tmp_path / "case", {}
    with path.open("wb", buffering=0) as file:  # for all cases: opening takes longer than reading
        for number, (kind, content, may_be_refused, wanted) in enumerate(many):
            file.seek(0)
            file.write(content)
            file.truncate()
            outcome, peak = traced(read_content, path)
            refused = isinstance(outcome, ValueError)
            if refused:
                right = str(path) in str(outcome) and (may_be_refused or wanted is None)
            else:
                right = outcome == wanted
            if not right or peak > (1.2 * MIB if kind == "bomb" else 0) + OVERHEAD:
                pytest.fail(f"case {number}, {kind}: {content[:80]!r} gave {outcome!r}, {peak:,} B")
            told.setdefault(kind, set()).add(refused)
    # The fuzzer is worth what it reaches: changes that matter and changes that do not.
    both = {"flipped", "flipped_header", "retyped", "reshaped", "reshaped gz", "gz flipped"}
    assert all(told[kind] == {True, False} for kind in both), told
    assert all(told[kind] == {False} for kind in ["unchanged", "unchanged gz", "gz unchanged"])
    assert all(told[kind] == {True} for kind in ["bomb", "truncated", "lengthened"])
