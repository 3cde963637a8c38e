"""Detection of duplicate keys in JSON objects.

JSON decoders silently keep the last one; YAML readers and the API server reject them. Large files are first
scanned with arrays, several times faster than decoding. Strings are found by their quotes, keys by the colons
outside strings, objects by braces and depth. Two equal keys of one object then have equal hashes. Only if the
scan finds candidates are objects decoded pair by pair, which yields the positions.
"""

from __future__ import annotations

import json
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kubestow.models.snapshot import sources
from kubestow.models.snapshot.decode import JSON_ERRORS, MAX_LIST_DEPTH, Buffer, documents_of, head_of, identity, is_list

_Ints = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]
#: Per key: its object, and the positions of its quotes.
_Keys = tuple[_Ints, _Ints, _Ints]

#: Bytes per step of the scan. Smaller steps mostly wait for the interpreter lock; larger ones need more memory.
_CHUNK_BYTES: Final = 2**21
#: Bytes up to which a file is decoded pair by pair without a scan.
_MAX_UNSCANNED_BYTES: Final = 2**17
#: Depth that no decoder supports.
_MAX_DEPTH: Final = 5000
#: Switch interval in seconds while decoding. The scanning thread needs the interpreter lock often and briefly.
_SWITCH_SECONDS: Final = 0.0005
_QUOTE, _BACKSLASH, _COLON, _OPEN, _CLOSE = b'"\\:{}'
#: Bits that the two braces share.
_EITHER: Final = 0xFF & ~(_OPEN ^ _CLOSE)
_MIX: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]
#: Shift from a hash to its cell.
_CELL_SHIFT: Final = np.uint64(43)
#: Masks of the first n bytes of a word.
_FIRST_BYTES: Final = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)


def problems(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (object, problem) for every object of a JSON file with a duplicate key. Malformed JSON is ignored."""
    if len(data) <= _MAX_UNSCANNED_BYTES or suspected(data):
        try:
            for document in documents_of(data):
                yield from _document(document, 0)
        except JSON_ERRORS:
            return


def _document(data: Buffer, depth: int) -> Iterator[tuple[str, str]]:
    """Yield the problems of a list item by item, then those outside the items.

    As plain data, a large list does not fit into memory.
    """
    try:
        head = head_of(data)
        items = head.items if is_list(head.kind, head.items is not None) else None
    except JSON_ERRORS:  # e.g. no object; text that is not JSON fails again below
        items = None
    if items and depth < MAX_LIST_DEPTH:
        seen = False
        for item in items:
            for problem in _document(item, depth + 1):
                seen = True
                yield problem
        if seen or (len(data) > _MAX_UNSCANNED_BYTES and not suspected(data)):
            return
    yield from _pairs(data)


def _pairs(data: Buffer) -> Iterator[tuple[str, str]]:
    twice: dict[int, list[str]] = {}
    kept: list[dict[str, Any]] = []  # keeps ids unique

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        mapping = dict(pairs)
        if len(mapping) < len(pairs):
            kept.append(mapping)
            twice[id(mapping)] = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        return mapping

    text = bytes(data).decode("utf-8", "replace")  # invalid UTF-8 is reported by the reader
    value = json.loads(text, object_pairs_hook=made, parse_int=len, parse_float=len)
    if twice:
        yield from _places(value, "object", "", twice)


def _places(value: Any, name: str, path: str, twice: dict[int, list[str]]) -> Iterator[tuple[str, str]]:
    """Yield the positions of objects with duplicate keys. ``name``: the enclosing object with a kind."""
    if isinstance(value, dict):
        if "kind" in value and "metadata" in value and isinstance(value["kind"], str):
            name, path = identity(value["kind"], value["metadata"]), ""
        for key in twice.get(id(value), ()):
            yield name, f"{path}{'.' if path else ''}{key}: duplicate key, expected each key once"
        for key, below in value.items():
            yield from _places(below, name, f"{path}.{key}" if path else key, twice)
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _places(item, name, f"{path}[{index}]", twice)


@contextmanager
def looking_through(data: bytes, digests: list[bytes], as_json: bool) -> Iterator[list[tuple[str, str]]]:
    """Hash the data and find duplicate JSON keys in a second thread while the block decodes the data.

    hashlib and numpy release the interpreter lock.

    Yields:
        A list that holds the duplicate keys after the block, as (object, problem).
    """
    twice: list[tuple[str, str]] = []

    def look() -> None:
        digests.append(sources.digest(data))
        if as_json:
            twice.extend(problems(data))

    thread = threading.Thread(target=look, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH_SECONDS)
    thread.start()
    try:
        yield twice
    finally:
        thread.join()
        sys.setswitchinterval(interval)


# --- the scan
# ------------------------------------------------------------------------------------------------------------


def suspected(data: Buffer) -> bool:
    """Return True if some object may have a duplicate key. False is certain; True is rarely wrong."""
    return len(data) > len('{"":1,"":1') and _Scan(data).run()


class _Scan:
    """One pass over a text. ``open_keys``: by depth, the keys (their quotes) of the objects open at the position reached."""

    def __init__(self, data: Buffer) -> None:
        self.text = np.frombuffer(data, np.uint8)
        #: The eight bytes starting at each position.
        self.words: _Words = np.ndarray(max(0, len(self.text) - 7), "<u8", memoryview(data), strides=(1,))
        self.open_keys: dict[int, tuple[_Ints, _Ints]] = {}
        self.depth = 0
        #: By cell (first bits of the hash), the last key in it.
        self.last = np.zeros(1 << 64 - int(_CELL_SHIFT), np.int32)
        #: Positions of escapes other than quotes and backslashes. With them, equal keys may be written
        #: differently.
        self.escapes: _Ints = np.empty(0, np.int64)

    def run(self) -> bool:
        start, size = 0, _CHUNK_BYTES
        while start < len(self.text):
            end = min(len(self.text), start + size)
            marks, kinds = self._marks(start, end)
            if end < len(self.text):  # cut before the last string that begins here: its colon may follow after the cut
                quotes = np.flatnonzero(kinds == _QUOTE)
                cut = int(quotes[(len(quotes) - 1) // 2 * 2]) if len(quotes) else 0
                if cut == 0:
                    size *= 2
                    continue
                end, size = int(marks[cut]), _CHUNK_BYTES
                marks, kinds = marks[:cut], kinds[:cut]
            if self._repeats(marks, kinds):
                return True
            start = end
        return False

    def _marks(self, start: int, end: int) -> tuple[_Ints, _Bytes]:
        """Return the positions and bytes of quotes around strings, and of colons and braces outside strings."""
        part = self.text[start:end]
        marks = np.flatnonzero((part == _QUOTE) | (part == _COLON) | ((part & _EITHER) == (_OPEN & _EITHER)))
        kinds = part[marks]
        quotes = kinds == _QUOTE
        slashes = np.flatnonzero(part == _BACKSLASH)
        self.escapes = slashes[:0]
        if len(slashes):
            behind = part[np.minimum(slashes + 1, len(part) - 1)]
            self.escapes = slashes[(behind != _QUOTE) & (behind != _BACKSLASH)] + start
            breaks = np.append(True, slashes[1:] != slashes[:-1] + 1)
            run = slashes - np.maximum.accumulate(np.where(breaks, slashes, 0)) + 1
            escaped = np.zeros(len(part) + 1, np.bool_)
            escaped[slashes[run % 2 == 1] + 1] = True  # the character after an odd number of backslashes
            quotes &= ~escaped[marks]
        outside = np.cumsum(quotes, dtype=np.uint8) & 1 == 0
        kept = quotes | outside
        return marks[kept] + start, kinds[kept]

    def _repeats(self, marks: _Ints, kinds: _Bytes) -> bool:
        """Return True if an object seems to have a duplicate key, in a part that begins and ends outside strings."""
        colons = np.flatnonzero(kinds == _COLON)
        braces = (kinds & _EITHER) == (_OPEN & _EITHER)
        if len(colons) and (colons[0] < 2 or (kinds[colons - 1] != _QUOTE).any() or (kinds[colons - 2] != _QUOTE).any()):
            return True  # not JSON
        opening = kinds[braces] == _OPEN
        depth = np.cumsum(np.append(np.int16(self.depth), opening.astype(np.int16) * 2 - 1), dtype=np.int32)
        if int(depth.max()) > _MAX_DEPTH or int(depth.min()) < 0:
            return True  # no JSON that any decoder accepts
        # Objects of one depth follow each other. After a brace, the last object begun at the depth there is
        # open.
        order = np.argsort(depth.astype(np.int16), kind="stable")
        level = depth[order]
        starts = np.append(0, np.flatnonzero(level[1:] != level[:-1]) + 1)
        begins = np.append(False, opening)[order]
        begins[starts] = True
        number = np.cumsum(begins, dtype=np.int64)
        object_after = np.empty_like(number)
        object_after[order] = number
        groups = object_after[np.cumsum(braces, dtype=np.int32)[colons]]
        keys = groups, marks[colons - 2], marks[colons - 1]
        ends = np.append(starts[1:], len(level)) - 1
        return self._compare(keys, level[starts].tolist(), number[starts].tolist(), number[ends].tolist(), int(depth[-1]))

    def _compare(self, keys: _Keys, levels: list[int], first: list[int], last: list[int], depth: int) -> bool:
        """Compare the keys of each object.

        Args:
            first: Number of the object open before the part, for each depth in ``levels``.
            last: Number of the object open after the part, for each depth in ``levels``.
            depth: Depth at the end of the part.
        """
        here = dict(zip(levels, first, strict=True))
        carried = [(np.full(len(begin), here[d]), begin, end) for d, (begin, end) in self.open_keys.items() if d in here]
        groups, begin, end = (np.concatenate(parts) for parts in zip(keys, *carried, strict=True))
        self.open_keys = {d: keys for d, keys in self.open_keys.items() if d <= depth and d not in here}
        for d, group in zip(levels, last, strict=True):
            if 0 < d <= depth:
                chosen = groups == group
                self.open_keys[d] = begin[chosen], end[chosen]
        self.depth = depth
        odd = self.escapes
        if len(odd) and (np.searchsorted(odd, end) > np.searchsorted(odd, begin)).any():
            return True
        return self._equal(groups, begin + 1, end)

    def _equal(self, groups: _Ints, begin: _Ints, end: _Ints) -> bool:
        length = end - begin
        mask = _FIRST_BYTES[np.minimum(length, 8)]
        hashes = (self._word(begin) & mask) * _MIX[0] + groups.astype(np.uint64)
        hashes ^= hashes >> np.uint64(29)
        hashes = (hashes + (self._word(np.maximum(end - 8, begin)) & mask)) * _MIX[1] + length.astype(np.uint64)
        hashes = (hashes ^ (hashes >> np.uint64(32))) * _MIX[2]
        repeated = self._repeated(hashes)
        if not len(repeated):
            return False
        seen: set[tuple[int, bytes]] = set()
        for group, a, b in zip(groups[repeated].tolist(), begin[repeated].tolist(), end[repeated].tolist(), strict=True):
            key = group, self.text[a:b].tobytes()
            if key in seen:
                return True
            seen.add(key)
        return False

    def _repeated(self, hashes: _Words) -> _Ints:
        """Return the indices of hashes that occur more than once. Few share a cell with another; only these are sorted."""
        cells, own = (hashes >> _CELL_SHIFT).astype(np.int64), np.arange(len(hashes), dtype=np.int32)
        self.last[cells] = own
        last = self.last[cells]
        pushed = np.flatnonzero(last != own)
        sharing = np.union1d(pushed, last[pushed])
        _, number, count = np.unique(hashes[sharing], return_inverse=True, return_counts=True)
        repeated: _Ints = sharing[count[number] > 1]
        return repeated

    def _word(self, places: _Ints) -> _Words:
        """Return the eight bytes starting at each position, zeros beyond the end."""
        last = len(self.words) - 1
        if int(places.max(initial=0)) <= last:
            return self.words[places]
        inside = np.minimum(places, last)
        return self.words[inside] >> ((places - inside).astype(np.uint64) << np.uint64(3))
