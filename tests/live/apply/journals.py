"""Journals for tests: lines as a run writes them, without a cluster."""

from __future__ import annotations

import random
from typing import Any

import msgspec

from kubestow.models.documents.journal import Answered, Fact, Line, Request, Run
from kubestow.models.kube.closed_nodes import CLOSED_BY

TIME = "2026-11-22T13:00:00.000Z"
RUN = Run("r1", TIME, "d" * 64, "e" * 64, "https://127.0.0.1:6443", "uid-of-kube-system")


class Script:
    """Lines one after the other, requests numbered; all times are the same."""

    def __init__(self, first: Run = RUN) -> None:
        self.lines: list[Line] = [first]
        self._number = 0

    def ask(self, method: str, path: str, body: Any = None, **about: Any) -> int:
        self._number += 1
        self.lines.append(Request(self._number, TIME, method, path, body=body, **about))
        return self._number

    def answer(self, number: int, code: int = 201) -> None:
        self.lines.append(Answered(number, TIME, code))

    def fact(self, what: Any, **fields: Any) -> None:
        self.lines.append(Fact(TIME, what, **fields))

    def close(self, node: str, code: int | None = 200) -> None:
        self._node(node, {"metadata": {"annotations": {CLOSED_BY: "r1 " + TIME}}, "spec": {"unschedulable": True}}, code)

    def open(self, node: str, code: int | None = 200) -> None:
        self._node(node, {"metadata": {"annotations": {CLOSED_BY: None}}, "spec": {"unschedulable": None}}, code)

    def _node(self, node: str, body: Any, code: int | None) -> None:
        number = self.ask("PATCH", f"/api/v1/nodes/{node}", body)
        if code is not None:
            self.answer(number, code)

    def evict(self, step: int, pod: str, uid: str | None = "uid", code: int | None = 201) -> None:
        namespace, name = pod.split("/")
        options = {"deleteOptions": {"preconditions": {"uid": uid}}} if uid else {}
        body = {"kind": "Eviction", "metadata": {"namespace": namespace, "name": name}, **options}
        number = self.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/eviction", body, step=step, pod=pod)
        if code is not None:
            self.answer(number, code)

    def bind(self, step: int, pod: str, node: str, *, now: str | None = None, uid: str | None = "uid", code: int | None = 201) -> None:
        namespace, name = (now or pod).split("/")
        body = {"kind": "Binding", "metadata": {"namespace": namespace, "name": name, "uid": uid}, "target": {"kind": "Node", "name": node}}
        number = self.ask("POST", f"/api/v1/namespaces/{namespace}/pods/{name}/binding", body, step=step, pod=pod)
        if code is not None:
            self.answer(number, code)

    @property
    def text(self) -> bytes:
        return encode(self.lines)


def encode(lines: list[Line]) -> bytes:
    return b"".join(msgspec.json.encode(line) + b"\n" for line in lines)


def random_run(seed: int) -> list[Line]:
    """A run of a few moves whose requests are refused or lost now and then."""
    chance, script = random.Random(seed), Script()
    codes = [201, 201, 201, 201, 429, 409, 500, 0]
    step = 0
    for wave in range(1, chance.randint(2, 4)):
        script.fact("wave", wave=wave)
        for node in ("n1", "n2"):
            script.close(node, chance.choice([200, 200, 0, None]))
        for _ in range(chance.randint(1, 3)):
            step += 1
            _random_move(script, chance, codes, step)
        for node in ("n1", "n2"):
            script.open(node, chance.choice([200, 200, 0, None]))
    if chance.random() < 0.5:
        script.fact("end")
    return script.lines


def _random_move(script: Script, chance: random.Random, codes: list[int], step: int) -> None:
    pod, now = f"a/p{step}", f"a/q{step}"
    for code in (chance.choice(codes), 201):
        script.evict(step, pod, code=code)
        if code == 201:
            break
    script.fact("gone", step=step, pod=pod)
    script.fact("replacement", step=step, pod=pod, now=now, uid="u2")
    for code in (chance.choice(codes), 201):
        script.bind(step, pod, "n2", now=now, uid="u2", code=code)
        if code == 201:
            break
    script.fact("done", step=step, pod=pod)
