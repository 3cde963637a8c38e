"""Keys that a JSON object has twice. JSON decoders keep the last one in silence; YAML readers and the API server refuse them.

Large files are looked through with arrays first, at several times the speed of decoding them: strings are found by their quotes, keys by
the colons outside strings, objects by braces and depth; two equal keys of one object then have equal hashes. Only where that finds
something are objects decoded pair by pair, which tells where.
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
#: Of each key its object, and the places of its quotes.
_Keys = tuple[_Ints, _Ints, _Ints]

#: Bytes looked through at a time: in less, each step of it waits for the interpreter lock more than it works; in more, it takes memory.
_CHUNK: Final = 2**21
#: Smaller files are decoded pair by pair at once.
_SMALL: Final = 2**17
#: No decoder goes as deep.
_DEEPEST: Final = 5000
#: Seconds for which decoding keeps the interpreter lock from the thread beside it, which needs it often and never for long.
_SWITCH: Final = 0.0005
_QUOTE, _BACKSLASH, _COLON, _OPEN, _CLOSE = b'"\\:{}'
#: The bits that the two braces have in common.
_EITHER: Final = 0xFF & ~(_OPEN ^ _CLOSE)
_MIX: Final = [np.uint64(odd) for odd in (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)]
#: How far a hash is shifted to the cell that it falls into.
_CELL: Final = np.uint64(43)
#: The first n bytes of a word.
_FIRST: Final = np.array([2 ** (8 * n) - 1 for n in range(9)], np.uint64)


def problems(data: bytes) -> Iterator[tuple[str, str]]:
    """Yield (object, what is wrong with it) for every object of a JSON file that has a key twice; malformed JSON is not judged."""
    if len(data) <= _SMALL or suspected(data):
        try:
            for document in documents_of(data):
                yield from _document(document, 0)
        except JSON_ERRORS:
            return


def _document(data: Buffer, depth: int) -> Iterator[tuple[str, str]]:
    """The items of a list one by one, as a large list does not fit into memory as plain data; then what is around them."""
    try:
        head = head_of(data)
        items = head.items if is_list(head.kind, head.items is not None) else None
    except JSON_ERRORS:  # no object, say; if it is no JSON, it is refused again below
        items = None
    if items and depth < MAX_LIST_DEPTH:
        found = False
        for item in items:
            for problem in _document(item, depth + 1):
                found = True
                yield problem
        if found or (len(data) > _SMALL and not suspected(data)):
            return
    yield from _pairs(data)


def _pairs(data: Buffer) -> Iterator[tuple[str, str]]:
    twice: dict[int, list[str]] = {}
    kept: list[dict[str, Any]] = []  # so that no two have one id

    def made(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) < len(pairs):
            kept.append(found)
            twice[id(found)] = [key for key, count in Counter(key for key, _ in pairs).items() if count > 1]
        return found

    text = bytes(data).decode("utf-8", "replace")  # what is not text is the reader's to refuse, where it is read
    value = json.loads(text, object_pairs_hook=made, parse_int=len, parse_float=len)
    if twice:
        yield from _places(value, "object", "", twice)


def _places(value: Any, name: str, path: str, twice: dict[int, list[str]]) -> Iterator[tuple[str, str]]:
    """Where the objects with equal keys are; ``name``: the object that has a kind around them."""
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
    """Hash, and find duplicate keys of JSON, in a second thread while the data are decoded: hashlib and numpy let go of the interpreter
    lock. Gives a list that has the duplicate keys in the end, of which object and what."""
    twice: list[tuple[str, str]] = []

    def look() -> None:
        digests.append(sources.digest(data))
        if as_json:
            twice.extend(problems(data))

    thread = threading.Thread(target=look, daemon=True)
    interval = sys.getswitchinterval()
    sys.setswitchinterval(_SWITCH)
    thread.start()
    try:
        yield twice
    finally:
        thread.join()
        sys.setswitchinterval(interval)


# --- the quick look ---------------------------------------------------------------------------------------------------


def suspected(data: Buffer) -> bool:
    """Return whether some object may have a key twice: never False where one has, and True for hardly anything else."""
    return len(data) > len('{"":1,"":1') and _Scan(data).run()


class _Scan:
    """One pass over a text. ``open_keys``: by depth, the keys (their quotes) of the objects that are open at the place reached."""

    def __init__(self, data: Buffer) -> None:
        self.text = np.frombuffer(data, np.uint8)
        #: The eight bytes from each place on.
        self.words: _Words = np.ndarray(max(0, len(self.text) - 7), "<u8", memoryview(data), strides=(1,))
        self.open_keys: dict[int, tuple[_Ints, _Ints]] = {}
        self.depth = 0
        #: Of each cell, which its hash begins with, the last key that fell into it.
        self.last = np.zeros(1 << 64 - int(_CELL), np.int32)
        #: Where escapes other than those of quotes and backslashes are: with them, equal keys may be written in two ways.
        self.escapes: _Ints = np.empty(0, np.int64)

    def run(self) -> bool:
        start, size = 0, _CHUNK
        while start < len(self.text):
            end = min(len(self.text), start + size)
            marks, kinds = self._marks(start, end)
            if end < len(self.text):  # up to the last string that begins here: it may be the key of a colon beyond
                quotes = np.flatnonzero(kinds == _QUOTE)
                cut = int(quotes[(len(quotes) - 1) // 2 * 2]) if len(quotes) else 0
                if cut == 0:
                    size *= 2
                    continue
                end, size = int(marks[cut]), _CHUNK
                marks, kinds = marks[:cut], kinds[:cut]
            if self._repeats(marks, kinds):
                return True
            start = end
        return False

    def _marks(self, start: int, end: int) -> tuple[_Ints, _Bytes]:
        """Return the places of the quotes around strings, and of colons and braces outside them, and what is there."""
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
            escaped[slashes[run % 2 == 1] + 1] = True  # what follows an odd number of them
            quotes &= ~escaped[marks]
        outside = np.cumsum(quotes, dtype=np.uint8) & 1 == 0
        kept = quotes | outside
        return marks[kept] + start, kinds[kept]

    def _repeats(self, marks: _Ints, kinds: _Bytes) -> bool:
        """Return whether an object of a part of the text that begins and ends outside strings seems to have a key twice."""
        colons = np.flatnonzero(kinds == _COLON)
        braces = (kinds & _EITHER) == (_OPEN & _EITHER)
        if len(colons) and (colons[0] < 2 or (kinds[colons - 1] != _QUOTE).any() or (kinds[colons - 2] != _QUOTE).any()):
            return True  # no JSON
        opening = kinds[braces] == _OPEN
        depth = np.cumsum(np.append(np.int16(self.depth), opening.astype(np.int16) * 2 - 1), dtype=np.int32)
        if int(depth.max()) > _DEEPEST or int(depth.min()) < 0:
            return True  # no JSON that anything decodes
        # Objects of one depth come one after the other: after a brace, the last that began at the depth there is open.
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
        """Compare the keys of each object. ``first``, ``last``: by depth of ``levels``, the objects that were open there before and after;
        ``depth``: where the part ends."""
        here = dict(zip(levels, first, strict=True))
        carried = [(np.full(len(begin), here[d]), begin, end) for d, (begin, end) in self.open_keys.items() if d in here]
        groups, begin, end = (np.concatenate(parts) for parts in zip(keys, *carried, strict=True))
        self.open_keys = {d: found for d, found in self.open_keys.items() if d <= depth and d not in here}
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
        mask = _FIRST[np.minimum(length, 8)]
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
        """Return the places of the hashes that are there more than once. Those that share a cell with another one are few: only they are
        sorted."""
        cells, own = (hashes >> _CELL).astype(np.int64), np.arange(len(hashes), dtype=np.int32)
        self.last[cells] = own
        last = self.last[cells]
        pushed = np.flatnonzero(last != own)
        sharing = np.union1d(pushed, last[pushed])
        _, number, count = np.unique(hashes[sharing], return_inverse=True, return_counts=True)
        repeated: _Ints = sharing[count[number] > 1]
        return repeated

    def _word(self, places: _Ints) -> _Words:
        """The eight bytes from each place on, zeros beyond the end."""
        last = len(self.words) - 1
        if int(places.max(initial=0)) <= last:
            return self.words[places]
        inside = np.minimum(places, last)
        return self.words[inside] >> ((places - inside).astype(np.uint64) << np.uint64(3))
