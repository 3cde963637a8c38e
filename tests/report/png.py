"""Small pictures without an imaging library: reading and writing PNG (W3C PNG specification), fewer colours, and likeness."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

#: Height x width x 3, eight bits each.
Pixels = NDArray[np.uint8]

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"
#: Channels by colour type: grey, RGB, palette, RGBA.
_CHANNELS: Final = {0: 1, 2: 3, 3: 1, 6: 4}
_COLOURS: Final = 256


def read(data: bytes) -> Pixels:
    """The pixels of a PNG of eight bits a channel, not interlaced; transparency is left out.

    Raises:
        ValueError: it is none, or of another kind.
    """
    if not data.startswith(_SIGNATURE):
        raise ValueError("no PNG")
    chunks: dict[bytes, bytes] = {}
    at = len(_SIGNATURE)
    while at < len(data):
        (length,) = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4 : at + 8], data[at + 8 : at + 8 + length]
        if struct.unpack_from(">I", data, at + 8 + length)[0] != zlib.crc32(kind + body):
            raise ValueError(f"chunk {kind!r} is damaged")
        chunks[kind] = chunks.get(kind, b"") + body
        at += 12 + length
    wide, high, depth, colour, _, _, interlaced = struct.unpack(">IIBBBBB", chunks[b"IHDR"])
    if depth != 8 or interlaced or colour not in _CHANNELS:
        raise ValueError(f"depth {depth}, colour type {colour}, interlace {interlaced} is not read here")
    size = _CHANNELS[colour]
    rows = np.frombuffer(zlib.decompress(chunks[b"IDAT"]), np.uint8).reshape(high, 1 + wide * size)
    plain = _unfiltered(rows, size).reshape(high, wide, size)
    if colour == 3:
        palette = np.frombuffer(chunks[b"PLTE"], np.uint8).reshape(-1, 3)
        return palette[plain[..., 0]]
    return np.ascontiguousarray(np.repeat(plain, 3, axis=2) if size == 1 else plain[..., :3])


def _unfiltered(rows: NDArray[np.uint8], size: int) -> NDArray[np.uint8]:
    """Undo the five filters of the specification, row after row."""
    found = np.zeros((len(rows), rows.shape[1] - 1), np.uint8)
    above = np.zeros(rows.shape[1] - 1, np.uint8)
    for y, row in enumerate(rows):
        kind, line = int(row[0]), row[1:]
        if kind == 1:  # each channel is a running sum
            line = np.add.accumulate(line.reshape(-1, size), axis=0, dtype=np.uint8).reshape(-1)
        elif kind == 2:
            line = line + above
        elif kind in (3, 4):
            line = _predicted(line.tolist(), above.tolist(), size, _average if kind == 3 else _paeth)
        elif kind:
            raise ValueError(f"there is no filter {kind}")
        found[y] = above = line
    return found


def _average(left: int, up: int, _: int) -> int:
    return (left + up) // 2


def _paeth(left: int, up: int, corner: int) -> int:
    guess = left + up - corner
    return min((left, up, corner), key=lambda each: abs(guess - each))


def _predicted(line: list[int], above: list[int], size: int, predict: Callable[[int, int, int], int]) -> NDArray[np.uint8]:
    for i, value in enumerate(line):
        left, corner = (line[i - size], above[i - size]) if i >= size else (0, 0)
        line[i] = (value + predict(left, above[i], corner)) & 255
    return np.array(line, np.uint8)


def write(pixels: Pixels) -> bytes:
    """Return a PNG with a palette of at most 256 colours: exactly those of the picture if it has no more, else the most frequent ones, with
    the nearest in place of each other colour."""
    high, wide, _ = pixels.shape
    codes = pixels.astype(np.uint32) @ np.array([65536, 256, 1], np.uint32)
    colours, places, counts = np.unique(codes.reshape(-1), return_inverse=True, return_counts=True)
    kept = np.sort(np.argsort(-counts.astype(np.int64), kind="stable")[:_COLOURS])
    parts = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=1).astype(np.int32)
    palette = parts[kept]
    nearest = np.concatenate(
        [((part[:, None] - palette) ** 2).sum(axis=2).argmin(axis=1) for part in np.array_split(parts, len(parts) // 4096 + 1)]
    )
    indices = nearest[places.reshape(-1)].astype(np.uint8).reshape(high, wide)
    body = np.concatenate([np.zeros((high, 1), np.uint8), indices], axis=1).tobytes()
    header = struct.pack(">IIBBBBB", wide, high, 8, 3, 0, 0, 0)
    chunks = ((b"IHDR", header), (b"PLTE", palette.astype(np.uint8).tobytes()), (b"IDAT", zlib.compress(body, 9)), (b"IEND", b""))
    return _SIGNATURE + b"".join(
        struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks
    )


def blocks(pixels: Pixels, across: int = 32, down: int = 20) -> NDArray[np.float64]:
    """Return the mean colours of a grid over the picture, too coarse to distinguish letters."""
    high, wide, _ = pixels.shape
    xs, ys = np.linspace(0, wide, across + 1).astype(int), np.linspace(0, high, down + 1).astype(int)
    sums = np.add.reduceat(np.add.reduceat(pixels.astype(np.float64), ys[:-1], axis=0), xs[:-1], axis=1)
    found: NDArray[np.float64] = sums / (np.diff(ys)[:, None, None] * np.diff(xs)[None, :, None])
    return found


def likeness(one: Pixels, other: Pixels) -> float:
    """Correlation of the blocks of two pictures, 1 for equal ones, 0 where either is blank. Other fonts change little, another layout
    much."""
    a, b = (blocks(each).reshape(-1, 3) - blocks(each).mean() for each in (one, other))
    scale = float(np.sqrt((a * a).sum() * (b * b).sum()))
    return float((a * b).sum()) / scale if scale > 1e-9 else 0.0
