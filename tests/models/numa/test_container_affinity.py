"""Container affinity annotations and A(C1, C2). The case groups are those of the specification's section 8."""

from __future__ import annotations

import json
import time
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kubestow.models.kube import objects
from kubestow.models.kube.pod_spec import qos_class
from kubestow.models.numa.annotations import has_hints
from kubestow.models.numa.container_affinity import (
    AffinityEntry,
    AnnotationError,
    Hints,
    affinity,
    parse,
    parse_annotations,
    reaches,
    views,
)
from kubestow.models.numa.container_expressions import Expression
from tests.container_affinity import matrix
from tests.tiers import examples

CRI = "cri-resource-manager.intel.com/"
NRI = "resource-policy.nri.io/"
NODE = {"operator": "AlwaysTrue"}
Requirements = dict[str, Any]

GUARANTEED: Requirements = {"requests": {"cpu": "1", "memory": "1Gi"}, "limits": {"cpu": "1", "memory": "1Gi"}}
BURSTABLE: Requirements = {"requests": {"cpu": "1"}}


def pod(
    name: str,
    containers: str,
    *,
    namespace: str | None = "n",
    affinity: Any = None,
    anti: Any = None,
    prefix: str = NRI,
    labels: dict[str, str] | None = None,
    tags: dict[str, str] | None = None,
    resources: Requirements | None = None,
    init: list[dict[str, Any]] | None = None,
    **status: Any,
) -> objects.Pod:
    """``containers``: names, blanks between them; ``affinity``, ``anti``: text of an annotation, or data to write as JSON."""
    annotations = {f"kubestow.dev/tags.{container}": text for container, text in (tags or {}).items()}
    for kind, content in (("affinity", affinity), ("anti-affinity", anti)):
        if content is not None:
            annotations[prefix + kind] = content if isinstance(content, str) else json.dumps(content)
    spec = {"containers": [{"name": c, "resources": resources} for c in containers.split()], "initContainers": init}
    metadata = {"name": name, "namespace": namespace, "annotations": annotations, "labels": labels}
    return msgspec.convert({"metadata": metadata, "spec": spec, "status": status}, objects.Pod)


def match(key: str, operator: str, *values: str, weight: int | None = None, scope: Any = None) -> dict[str, Any]:
    found: dict[str, Any] = {"match": {"key": key, "operator": operator, "values": list(values)}}
    if weight is not None:
        found["weight"] = weight
    if scope is not None:
        found["scope"] = scope
    return found


def expected_by_name(*pods: objects.Pod, **options: bool) -> dict[str, dict[str, int]]:
    """A as {from: {to: weight}}, containers written namespace/pod/container, without zeros."""
    found, weights = matrix(pods, **options)
    names = [f"{view.namespace}/{view.pod}/{view.container}" for view in found]
    result: dict[str, dict[str, int]] = {}
    for (i, j), weight in weights.items():
        result.setdefault(names[i], {})[names[j]] = weight
    return result


def error_of(**annotations: Any) -> str:
    """The message about pod n/p with containers a, b, c."""
    with pytest.raises(AnnotationError) as caught:
        parse(pod("p", "a b c", **annotations))
    message = str(caught.value)
    assert message.isprintable()
    assert message.startswith("Pod n/p: annotation ")
    return message


# --- the case groups of the specification -------------------------------------------------------------------------------


def test_case_1_peter_sheep_and_wolf() -> None:
    text = "peter:\n- match:\n    key: name\n    operator: Equals\n    values:\n    - {}\n  weight: 5\n"
    meadow = pod("meadow", "peter sheep wolf", affinity=text.format("sheep"), anti=text.format("wolf"), prefix=CRI)
    other = pod("other", "sheep wolf")
    assert expected_by_name(meadow, other) == {"n/meadow/peter": {"n/meadow/sheep": 5, "n/meadow/wolf": -5}}


def test_case_2_shorthand() -> None:
    p = pod("p", "c1 c2 c3 c4", affinity="c3: [ c1 ]\n", anti="c3: [ c2 ]\nc4: [ c2, c3 ]\n", prefix=CRI)
    assert expected_by_name(p) == {"n/p/c3": {"n/p/c1": 1, "n/p/c2": -1}, "n/p/c4": {"n/p/c2": -1, "n/p/c3": -1}}
    assert parse(p).warnings == ()


def test_case_3_weights() -> None:
    def to(name: str, weight: int | None = None) -> dict[str, Any]:
        return match("name", "Equals", name, weight=weight)

    p = pod(
        "p",
        "a b c d e f g h",
        affinity={"a": [to("b"), to("c", -2000), to("d", 0), to("e", 2000)]},
        anti={"a": [to("f"), to("g", 7), to("h", -7)], "b": [to("a", 5000), to("c", 0)]},
    )
    assert expected_by_name(p) == {
        "n/p/a": {"n/p/b": 1, "n/p/c": -1000, "n/p/d": 1, "n/p/e": 1000, "n/p/f": -1, "n/p/g": -7, "n/p/h": 7},
        "n/p/b": {"n/p/a": -1000, "n/p/c": -1},
    }
    start = "Pod n/p: annotation resource-policy.nri.io/"
    assert parse(p).warnings == (
        f"{start}affinity: container 'a', entry 1, weight: -2000 is beyond 1000, -1000 is used",
        f"{start}affinity: container 'a', entry 2, weight: 0 counts as the default, 1",
        f"{start}affinity: container 'a', entry 3, weight: 2000 is beyond 1000, 1000 is used",
        f"{start}anti-affinity: container 'a', entry 2, weight: -7 in an anti-affinity pulls the containers closer",
        f"{start}anti-affinity: container 'b', entry 0, weight: 5000 is beyond 1000, 1000 is used",
        f"{start}anti-affinity: container 'b', entry 1, weight: 0 counts as the default, 1",
    )


def test_case_4_sums_are_not_clamped_and_names_may_be_unknown() -> None:
    p = pod(
        "p",
        "a b bb",
        affinity={
            "a": [
                match("name", "In", "b", "bb", "zz", weight=1000),
                match("name", "Matches", "b*", weight=1000),
                match("name", "MatchesAny", "b", "*b", "a", weight=3),
            ]
        },
        anti={"a": [match("name", "Equals", "b", weight=10)], "nosuch": [match("name", "Equals", "b")]},
    )
    assert expected_by_name(p) == {"n/p/a": {"n/p/b": 1993, "n/p/bb": 2003}}
    assert parse(p).warnings == (
        "Pod n/p: annotation resource-policy.nri.io/affinity: container 'a', entry 0, match: 'zz' is no app container or sidecar",
        "Pod n/p: annotation resource-policy.nri.io/anti-affinity: container 'nosuch': 'nosuch' is no app container or sidecar",
    )


def test_case_5_node_scope_over_all_namespaces() -> None:
    entry = match("pod/labels/tier", "NotIn", "db", weight=4, scope=NODE)
    web = pod("web", "w x", namespace="prod", labels={"tier": "fe"}, affinity={"w": [entry]})
    db = pod("db", "d", namespace="prod", labels={"tier": "db"})
    plain = pod("plain", "k", namespace="kube-system")
    assert expected_by_name(web, db, plain) == {"prod/web/w": {"prod/web/x": 4, "kube-system/plain/k": 4}}


@pytest.mark.parametrize(
    ("labels", "weight"), [({"L": "v"}, 341), ({"L": "zzz"}, 666), ({"L": ""}, 666), ({}, 682)], ids=["v", "zzz", "empty", "missing"]
)
def test_case_6_every_operator(labels: dict[str, str], weight: int) -> None:
    operators = [
        ("Equals", "v"),
        ("NotEqual", "v"),
        ("In", "v", "q"),
        ("NotIn", "v", "q"),
        ("Exists",),
        ("NotExists",),
        ("Matches", "v*"),
        ("MatchesNot", "v*"),
        ("MatchesAny", "v", "q"),
        ("MatchesNone", "v", "q"),
    ]
    entries = [match("pod/labels/L", op, *values, weight=2**i, scope=NODE) for i, (op, *values) in enumerate(operators)]
    assert expected_by_name(pod("p", "a", affinity={"a": entries}), pod("q", "x", labels=labels))["n/p/a"] == {"n/q/x": weight}


def test_case_7_joint_keys() -> None:
    side = [
        match(":pod/namespace:pod/name:name", "Matches", "prod:web-*:nginx", weight=10, scope=NODE),
        match(":,-labels/none,pod/namespace", "Equals", "-dev", weight=100, scope=NODE),
        match(":::labels/none:labels/none2", "NotExists", weight=1),
    ]
    one = pod("web-1", "nginx side", namespace="prod", affinity={"side": side})
    two = pod("web-2", "nginx side", namespace="prod")
    three = pod("web-3", "nginx", namespace="dev")
    assert expected_by_name(one, two, three) == {
        "prod/web-1/side": {"prod/web-1/nginx": 11, "prod/web-2/nginx": 10, "dev/web-3/nginx": 100}
    }


def test_case_8_labels_with_slashes() -> None:
    p = pod("p", "a", affinity={"a": [match("pod/labels/app.kubernetes.io/name", "Equals", "redis", weight=9, scope=NODE)]})
    r = pod("r", "s", labels={"app.kubernetes.io/name": "redis"})
    q = pod("q", "t", labels={"app.kubernetes.io": "redis"})
    assert expected_by_name(p, r, q) == {"n/p/a": {"n/r/s": 9}}


def test_case_9_tags_and_patterns() -> None:
    entries = [
        match("tags/path", "Matches", "x*y", weight=1),
        match("tags/path", "Matches", "*/*", weight=2),
        match("tags/ver", "Matches", "[!1]", weight=4),
        match("tags/ver", "Matches", "[^1]", weight=8),
        match("tags/ver", "MatchesNot", "[", weight=16),
        match("tags/ver", "Equals", "*", weight=32),
        match("tags/ver", "NotEqual", "*", weight=64),
    ]
    p = pod("p", "a b c", affinity={"a": entries}, tags={"b": "path=x/y,ver=1", "c": "path=xy, ver=!"})
    assert expected_by_name(p) == {"n/p/a": {"n/p/b": 118, "n/p/c": 125}}


def test_case_10_default_scope_is_the_pod_and_not_its_name() -> None:
    one = pod("nginx", "a b", namespace="ns1", affinity={"a": [match("name", "Matches", "*", weight=6)]})
    assert expected_by_name(one, pod("nginx", "a b", namespace="ns2")) == {"ns1/nginx/a": {"ns1/nginx/b": 6}}


def test_case_11_quality_of_service() -> None:
    entries = [
        match(":pod/qosclass:pod/name:name", "Matches", "Burstable:*:*", weight=3, scope=NODE),
        match("qosclass", "Equals", "Guaranteed", weight=50, scope=NODE),
    ]
    p = pod("p", "a b", affinity={"a": entries}, resources=GUARANTEED)
    assert expected_by_name(p, pod("q", "x", resources=BURSTABLE)) == {"n/p/a": {"n/p/b": 50, "n/q/x": 3}}


def test_case_12_always_true_needs_no_key() -> None:
    p = pod("p", "a b", affinity={"a": [{"scope": NODE, "match": {"operator": "AlwaysTrue"}, "weight": 2}]})
    assert expected_by_name(p, pod("q", "x")) == {"n/p/a": {"n/p/b": 2, "n/q/x": 2}}
    assert parse(p).warnings == ()


GOOD = "match: {key: name, operator: Equals, values: [b]}"
AT = "annotation resource-policy.nri.io/affinity: container 'a', entry 1"


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        ("b", f"{AT}: got a text after a mapping, expected one form"),
        ("{match: {key: name, operator: equals, values: [b]}}", f"{AT}, match: unknown operator 'equals'"),
        ("{match: {key: name, operator: Equals}}", f"{AT}, match: got 0 values, expected exactly one with operator Equals"),
        ("{match: {key: name, operator: Equals, values: [b, c]}}", f"{AT}, match: got 2 values"),
        ("{match: {key: name, operator: Exists, values: [b]}}", f"{AT}, match: got 1 values, expected none"),
        ("{weight: 1}", f"{AT}: no match"),
        ("{match: null}", f"{AT}: no match"),
        ("{match: {key: name, op: Equals, values: [b]}}", f"{AT}, match: unknown field 'op', expected key, operator or values"),
        (f"{{{GOOD}, wieght: 1}}", f"{AT}: unknown field 'wieght'"),
        (f"{{{GOOD}, <<: {{}}}}", f"{AT}: unknown field '<<'"),
        (f"{{{GOOD}, Match: {{operator: AlwaysTrue}}}}", f"{AT}: duplicate key 'match'"),
        (f"{{{GOOD}, weight: 1, weight: 1}}", f"{AT}: duplicate key 'weight'"),
        (f"{{{GOOD}, weight: 1.5}}", f"{AT}, weight: got '1.5', expected a whole number"),
        (f'{{{GOOD}, weight: "5"}}', f"{AT}, weight: got text '5', expected a whole number"),
        (f"{{{GOOD}, weight: !!str 5}}", f"{AT}, weight: got text '5', expected a whole number"),
        (f"{{{GOOD}, weight: 3e9}}", f"{AT}, weight: got 3000000000, expected a whole number that fits 32 bits"),
        (f"{{{GOOD}, weight: -2147483649}}", f"{AT}, weight: got -2147483649"),
        (f"{{{GOOD}, weight: 1e99}}", f"{AT}, weight: got a number of more than 40 digits"),
        (f"{{{GOOD}, weight: 010}}", f"{AT}, weight: got '010'"),
        (f"{{{GOOD}, weight: true}}", f"{AT}, weight: got 'true'"),
        (f"{{{GOOD}, weight: [1]}}", f"{AT}, weight: got a list"),
        ("{match: {key: name, operator: Equals, values: b}}", f"{AT}, match: values is a text, expected a list"),
        ("{match: {key: name, operator: Equals, values: {b: c}}}", f"{AT}, match: values is a mapping, expected a list"),
        ("{match: {key: name, operator: Equals, values: [[b]]}}", f"{AT}, match: got a list among the values"),
        ("{match: {key: nmae, operator: Equals, values: [b]}}", f"{AT}, match: unknown key 'nmae'"),
        ("{match: {operator: Equals, values: [b]}}", f"{AT}, match: missing key"),
        ("{match: {key: [name], operator: Exists}}", f"{AT}, match: key is a list, expected text"),
        ("{match: {key: name}}", f"{AT}, match: no operator"),
        ("{match: name}", f"{AT}, match: got a text, expected a mapping with key, operator, values"),
        (f"{{{GOOD}, scope: {{}}}}", f"{AT}, scope: no operator"),
        (f"{{{GOOD}, scope: {{operator: AlwaysTrue, key: foo}}}}", f"{AT}, scope: unknown key 'foo'"),
        ("[b]", f"{AT}: got a list, expected a container name or a mapping"),
        ("{[x]: y}", f"{AT}: unknown field a list"),
    ],
)
def test_case_13_errors_name_the_entry(entry: str, expected: str) -> None:
    assert expected in error_of(affinity=f"b: []\na: [{{{GOOD}}}, {entry}]")
    if entry != "b":
        # also under a container that does not exist, and after a valid affinity
        anti = error_of(affinity=f"a: [{{{GOOD}}}]", anti=f"nosuch: [{{{GOOD}}}, {entry}]")
        assert expected.replace("/affinity", "/anti-affinity").replace("'a'", "'nosuch'") in anti


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b", "container 'a': got a text, expected a list"),
        ("a: {}", "container 'a': got a mapping, expected a list"),
        ('a: ""', "container 'a': got a text, expected a list"),
        ("a: [b]\na: [c]", "container 'a': duplicate key"),
        ('{"a": [], a: []}', "container 'a': duplicate key"),
        ("a: [b]\nb: [{match: {operator: AlwaysTrue}}]", "container 'b', entry 0: got a mapping after a text"),
        ("[a, b]", "got a list, expected a mapping"),
        ("a", "got a text, expected a mapping"),
        ('""', "got a text, expected a mapping"),
        ("[a]: [b]", "got a list as a key"),
        ("a: [b", "line "),
        ("a: [b]\n---\nb: [a]", "line 2: a second document"),
        ("a: !foo [b]", "line 1: unknown tag '!foo'"),
        ("a: [!!int 5]", "line 1: unknown tag"),
        ("a: [*x]", "line 1: alias 'x' is not defined"),
        ("a: &x [*x]", "line 1: alias 'x' is not defined"),
        ("a: " + "[" * 100_000, "line 1: nested deeper than 16 levels"),
        ("a: \x00", ""),
        ("a: \ud800", ""),
        ("\tb: [a]", "line 1"),
    ],
)
def test_case_13_errors_of_whole_annotations(text: str, expected: str) -> None:
    assert f"annotation resource-policy.nri.io/affinity: {expected}" in error_of(affinity=text)


# --- reading annotations ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["", "  \n", "# nothing", "null", "~", "{}", "---\n...", "a: []", "a: null", "a:", "a: ~\nb: []"])
def test_annotations_that_ask_for_nothing(text: str) -> None:
    p = pod("p", "a b", affinity=text, anti=text)
    assert has_hints(p)
    assert parse(p) == Hints((), ())


def test_scalars_are_raw_text() -> None:
    p = pod("p", "on 010 1e3 null", affinity='on: [010, 1e3, null]\n010: ["on"]\n1e3: [on, off]\nnull: [on]')
    to = {"n/p/on": 1}
    assert expected_by_name(p) == {
        "n/p/on": {"n/p/010": 1, "n/p/1e3": 1, "n/p/null": 1},
        "n/p/010": to,
        "n/p/1e3": to,
        "n/p/null": to,
    }
    assert [text.rpartition(": ")[2] for text in parse(p).warnings] == ["'off' is no app container or sidecar"]
    q = pod("p", "a on", affinity="a: [{match: {key: pod/labels/on, operator: In, values: [yes, 1.0, ~]}}]", labels={"on": "1.0"})
    assert expected_by_name(q) == {"n/p/a": {"n/p/on": 1}}


def test_field_names_in_any_case_and_null_fields() -> None:
    text = "a: [{MATCH: {Key: name, OPERATOR: Exists, vaLues: null}, Scope: null, weight: ~}]"
    assert parse(pod("p", "a b", affinity=text)) == Hints((AffinityEntry("a", None, Expression("name", "Exists", ()), 1),), ())


@pytest.mark.parametrize(("written", "weight"), [("5", 5), ("+5", 5), ("-5", -5), ("5.0", 5), ("5.", 5), ("1e2", 100), ("-0", 1)])
def test_whole_weights(written: str, weight: int) -> None:
    assert [e.weight for e in parse(pod("p", "a b", affinity=f"a: [{{{GOOD}, weight: {written}}}]")).entries] == [weight]


@pytest.mark.parametrize(("written", "weight"), [("2147483647", 1000), ("-2147483648", -1000)])
def test_weights_are_clamped_after_negation(written: str, weight: int) -> None:
    text = f"a: [{{{GOOD}, weight: {written}}}]"
    assert [e.weight for e in parse(pod("p", "a b", affinity=text, anti=text)).entries] == [weight, -weight]


def test_not_exist_is_the_same_operator() -> None:
    texts = [f"a: [{{match: {{key: id, operator: {name}}}}}]" for name in ("NotExist", "NotExists")]
    assert parse(pod("p", "a", affinity=texts[0])) == parse(pod("p", "a", affinity=texts[1]))


@pytest.mark.parametrize(
    ("expression", "remark"),
    [
        ("{operator: AlwaysTrue, values: [x]}", "AlwaysTrue takes no values"),
        ("{key: name, operator: In}", "In without values is never true"),
        ("{key: name, operator: MatchesAny, values: []}", "MatchesAny without values is never true"),
        ("{key: name, operator: NotIn, values: null}", "NotIn without values is always true"),
        ("{key: name, operator: MatchesNone}", "MatchesNone without values is always true"),
        ("{key: name, operator: Matches, values: ['[']}", "'[': malformed pattern: expected a character in a class"),
        ("{key: name, operator: MatchesNone, values: ['a*', 'b[c']}", "'b[c': malformed pattern: a class is not closed"),
    ],
)
def test_odd_expressions_are_warned_of(expression: str, remark: str) -> None:
    for field in ("match", "scope"):
        text = f"a: [{{{field}: {expression}}}]" if field == "match" else f"a: [{{scope: {expression}, match: {{operator: AlwaysTrue}}}}]"
        (warning,) = parse(pod("p", "a", affinity=text)).warnings
        assert warning.startswith(f"Pod n/p: annotation resource-policy.nri.io/affinity: container 'a', entry 0, {field}: {remark}")


def test_shorthand_and_full_form_may_be_in_different_annotations() -> None:
    p = pod("p", "a b c", affinity="a: [b, c]", anti=f"a: [{{{GOOD}, weight: 4}}]")
    assert expected_by_name(p) == {"n/p/a": {"n/p/b": -3, "n/p/c": 1}}


def test_shorthand_duplicates_collapse_and_symmetry_is_asked_for() -> None:
    p = pod("p", "a b c", affinity="a: [b, b, nosuch]\nb: [a]\nc: [a]", anti="c: [b]")
    assert expected_by_name(p) == {"n/p/a": {"n/p/b": 1}, "n/p/b": {"n/p/a": 1}, "n/p/c": {"n/p/a": 1, "n/p/b": -1}}
    assert expected_by_name(p, symmetric=True) == {
        "n/p/a": {"n/p/b": 1, "n/p/c": 1},
        "n/p/b": {"n/p/a": 1, "n/p/c": -1},
        "n/p/c": {"n/p/a": 1, "n/p/b": -1},
    }
    full = pod("p", "a b", affinity=f"a: [{{{GOOD}}}]")
    assert expected_by_name(full, symmetric=True) == {"n/p/a": {"n/p/b": 1}}


def test_the_current_name_wins_over_the_old_one() -> None:
    p = pod("p", "a b c", affinity="a: [b]", prefix=CRI)
    assert p.metadata.annotations is not None
    assert expected_by_name(p) == {"n/p/a": {"n/p/b": 1}}
    p.metadata.annotations[f"{NRI}anti-affinity"] = "a: [c]"
    p.metadata.annotations[f"{CRI}anti-affinity"] = "[what is not read is not judged"
    assert expected_by_name(p) == {"n/p/a": {"n/p/c": -1}}
    (warning,) = parse(p).warnings
    assert warning == f"Pod n/p: has annotations {NRI}* and {CRI}*, the latter are ignored"


def test_init_containers_take_no_part_and_sidecars_do() -> None:
    init = [{"name": "setup"}, {"name": "proxy", "restartPolicy": "Always"}]
    p = pod("p", "a b", affinity="a: [setup, proxy]\nsetup: [a]\nproxy: [b]", init=init)
    assert [view.container for view in views(p)] == ["a", "b", "proxy"]
    assert expected_by_name(p) == {"n/p/a": {"n/p/proxy": 1}, "n/p/proxy": {"n/p/b": 1}}
    assert [warning.partition("affinity: ")[2] for warning in parse(p).warnings] == [
        "container 'setup': 'setup' is no app container or sidecar",
        "container 'a', entry 0: 'setup' is no app container or sidecar",
    ]


def test_aliases_are_shared_and_bounded() -> None:
    text = "a: &list [&entry {match: &m {operator: AlwaysTrue}, scope: *m, weight: 2}, *entry]\nb: *list"
    assert expected_by_name(pod("p", "a b", affinity=text)) == {"n/p/a": {"n/p/b": 4}, "n/p/b": {"n/p/a": 4}}
    values = ", ".join(["x"] * 2000)
    aliases = ", ".join(["*e"] * 2000)
    bomb = f"a: [&e {{match: {{key: name, operator: In, values: [{values}]}}}}, {aliases}]"
    start = time.monotonic()
    assert "aliases expand to more than 100000 nodes" in error_of(affinity=bomb)
    nested = "x0: &x0 [a]\n" + "".join(f"x{i}: &x{i} [{', '.join([f'*x{i - 1}'] * 20)}]\n" for i in range(1, 12))
    assert "aliases expand" in error_of(affinity=nested)
    assert time.monotonic() - start < 2


def test_annotations_of_a_pod_template() -> None:
    annotations = {f"{CRI}affinity": "a: [b, x]"}
    hints = parse_annotations(annotations, where="Deployment n/web\n", containers=("a", "b"), symmetric=True)
    assert hints.entries == (
        AffinityEntry("a", None, Expression("name", "In", ("b", "x")), 1),
        AffinityEntry("b", None, Expression("name", "In", ("a",)), 1),
    )
    prefix = f"Deployment n/web\\n: annotation {CRI}affinity: container 'a', entry 1"
    assert hints.warnings == (f"{prefix}: 'x' is no app container or sidecar",)
    assert parse_annotations(None, where="", containers=()) == Hints((), ())
    with pytest.raises(AnnotationError, match=r"^Deployment n/web: annotation "):
        parse_annotations({f"{CRI}affinity": "a"}, where="Deployment n/web", containers=("a",))


def test_has_hints() -> None:
    assert not has_hints(pod("p", "a"))
    assert not has_hints(msgspec.convert({"metadata": {}, "spec": {}}, objects.Pod))
    for prefix in (CRI, NRI):
        assert has_hints(pod("p", "a", affinity="", prefix=prefix))
        assert has_hints(pod("p", "a", anti="[", prefix=prefix))


def test_replicas_are_read_once() -> None:
    text = json.dumps({"a": [match("name", "Equals", "b", weight=i) for i in range(1, 200)]})
    start = time.monotonic()
    hints = [parse(pod(f"p-{i}", "a b", affinity=text, anti="a: [nosuch]")) for i in range(1000)]
    assert time.monotonic() - start < 2
    assert [len(h.entries) for h in hints] == [200] * 1000
    assert [h.warnings[0].partition(":")[0] for h in hints] == [f"Pod n/p-{i}" for i in range(1000)]


# --- views and affinity -------------------------------------------------------------------------------------------------


def test_views() -> None:
    p = pod("p", "a b", namespace=None, labels={"x": "y"}, tags={"b": "k=v=w,empty=", "c": "no container's"}, resources=GUARANTEED)
    p.metadata.uid = "u"
    a, b = views(p)
    assert (a.namespace, a.pod, a.container, a.pod_uid, a.qosclass, a.id) == ("default", "p", "a", "u", "Guaranteed", "")
    assert (a.pod_labels, a.tags, b.tags) == ({"x": "y"}, {}, {"k": "v=w", "empty": ""})


@pytest.mark.parametrize("text", ["x", "=y", "a=b,", "a=b,,c=d", "a=1,a=2", "a=b\n,c", ","])
def test_malformed_tags(text: str) -> None:
    with pytest.raises(AnnotationError, match=r"^Pod n/p: annotation kubestow.dev/tags.a: ") as caught:
        views(pod("p", "a", tags={"a": text}))
    assert str(caught.value).isprintable()


def test_reaches_never_the_container_itself() -> None:
    everywhere = AffinityEntry("a", Expression("", "AlwaysTrue", ()), Expression("", "AlwaysTrue", ()), 1)
    inside = AffinityEntry("a", None, Expression("", "AlwaysTrue", ()), 1)
    (a, b), (other,) = views(pod("p", "a b")), views(pod("q", "a"))
    (elsewhere,) = views(pod("p", "a", namespace="m"))
    assert [reaches(everywhere, a, view) for view in (a, b, other, elsewhere)] == [False, True, True, True]
    assert [reaches(inside, a, view) for view in (a, b, other, elsewhere)] == [False, True, False, False]
    assert not reaches(everywhere, a, views(pod("p", "a"))[0])


def test_names_are_only_missed_where_a_container_of_the_own_pod_is_asked_for() -> None:
    unknown = [
        match("name", "Equals", "x"),
        match("./name", "In", "b", "x"),
        match("labels//io.kubernetes.container.name", "Equals", "x"),
    ]
    fine = [
        match("name", "Equals", "*"),
        match("name", "In", "x", "*"),
        match("name", "NotIn", "x"),
        match("name", "Matches", "x"),
        match("pod/name", "Equals", "x"),
        match("name", "Equals", "x", scope=NODE),
    ]
    found = parse(pod("p", "a b", affinity={"a": [*fine, *unknown]})).warnings
    assert [text.partition("entry ")[2] for text in found] == [f"{i}, match: 'x' is no app container or sidecar" for i in (6, 7, 8)]


def test_the_scope_bounds_the_match() -> None:
    entry = match("name", "Exists", weight=3, scope={"key": "pod/labels/app", "operator": "Equals", "values": ["x"]})
    p = pod("p", "a b", affinity={"a": [entry]})
    assert expected_by_name(p, pod("q", "c", labels={"app": "x"}), pod("r", "d", labels={"app": "y"})) == {"n/p/a": {"n/q/c": 3}}


def test_policy_switches_only_for_containers_without_entries() -> None:
    p, q, r = pod("p", "a b", affinity="a: [b]"), pod("q", "x"), pod("r", "y", namespace="m")
    assert expected_by_name(p, q, r, colocate_pods=True) == {"n/p/a": {"n/p/b": 1}, "n/p/b": {"n/p/a": 10}}
    assert expected_by_name(p, q, r, colocate_namespaces=True) == {
        "n/p/a": {"n/p/b": 1},
        "n/p/b": {"n/p/a": 10, "n/q/x": 10},
        "n/q/x": {"n/p/a": 10, "n/p/b": 10},
    }
    both = expected_by_name(p, q, r, colocate_pods=True, colocate_namespaces=True)
    assert both["n/p/b"] == {"n/p/a": 20, "n/q/x": 10}


def test_affinity_agrees_with_the_matrix() -> None:
    pods = [
        pod("p", "a b", affinity={"a": [match("name", "Matches", "*", weight=7, scope=NODE)]}, anti="b: [a]"),
        pod("q", "a c"),
        pod("p", "a b", namespace="m", affinity="a: [b]"),
    ]
    for pods_switch in (False, True):
        for namespaces_switch in (False, True):
            found, weights = matrix(pods, colocate_pods=pods_switch, colocate_namespaces=namespaces_switch)
            owners = [hints for p in pods for hints in [parse(p)] * len(views(p))]
            assert weights == {
                (i, j): weight
                for i, own in enumerate(found)
                for j, other in enumerate(found)
                if (weight := affinity(owners[i], own, other, colocate_pods=pods_switch, colocate_namespaces=namespaces_switch))
            }
            assert all(i != j for i, j in weights)


# --- quality of service -------------------------------------------------------------------------------------------------


def req(requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None) -> Requirements:
    return {"requests": requests, "limits": limits}


FULL = {"cpu": "500m", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("app", "init", "expected"),
    [
        ([None], [], "BestEffort"),
        ([{}], [], "BestEffort"),
        ([], [], "BestEffort"),
        ([req({"nvidia.com/gpu": 1, "ephemeral-storage": "1Gi"}, {"nvidia.com/gpu": 1})], [], "BestEffort"),
        ([req({"cpu": 0}, {"memory": "0"})], [], "BestEffort"),
        ([req(FULL, FULL)], [], "Guaranteed"),
        ([req({"cpu": 0.5, "memory": 2**30}, FULL)], [], "Guaranteed"),
        ([req(None, FULL)], [], "Guaranteed"),  # requests default to limits
        ([req({"memory": "1Gi"}, FULL)], [], "Guaranteed"),
        ([req(FULL, None)], [], "Burstable"),
        ([req({"cpu": "400m", "memory": "1Gi"}, FULL)], [], "Burstable"),
        ([req({"cpu": 1}, {"cpu": 1})], [], "Burstable"),
        ([req({"cpu": 1, "memory": 0}, {"cpu": 1, "memory": 0})], [], "Burstable"),
        ([req(FULL, FULL), None], [], "Burstable"),
        ([req(FULL, FULL), req(FULL, FULL)], [], "Guaranteed"),
        ([req(FULL, FULL)], [None], "Burstable"),
        ([req(FULL, FULL)], [req(FULL, FULL)], "Guaranteed"),
        ([None], [req({"cpu": 1})], "Burstable"),
        # sums over containers that are equal make no guarantee of containers that are not
        ([req({"cpu": 1, "memory": 1}, {"cpu": 2, "memory": 1}), req({"cpu": 2, "memory": 1}, {"cpu": 1, "memory": 1})], [], "Burstable"),
    ],
)
def test_qos_class(app: list[Any], init: list[Any], expected: str) -> None:
    spec = {
        "containers": [{"name": f"c{i}", "resources": r} for i, r in enumerate(app)],
        "initContainers": [{"name": f"i{i}", "resources": r} for i, r in enumerate(init)],
    }
    found = msgspec.convert({"metadata": {"name": "p"}, "spec": spec}, objects.Pod)
    assert qos_class(found) == expected
    assert {view.qosclass for view in views(found)} <= {expected}
    for other in ("Guaranteed", "Burstable", "BestEffort"):
        found.status = objects.PodStatus(qosClass=other)
        assert qos_class(found) == other
    found.status = objects.PodStatus(qosClass="")
    assert qos_class(found) == expected


@pytest.mark.parametrize(
    ("resources", "expected"),
    [
        ({}, "BestEffort"),
        (req(FULL, FULL), "Guaranteed"),
        (req(FULL), "Burstable"),
        (req({"cpu": 1, "memory": 1}, {"cpu": 1}), "Burstable"),
    ],
)
def test_pod_level_resources_decide_alone(resources: Requirements, expected: str) -> None:
    for inner in (None, req(FULL, FULL), req(FULL)):
        found = msgspec.convert(
            {"metadata": {"name": "p"}, "spec": {"resources": resources, "containers": [{"name": "c", "resources": inner}]}}, objects.Pod
        )
        assert qos_class(found) == expected


# --- fuzzing ------------------------------------------------------------------------------------------------------------

VALID = [
    "c3: [ c1 ]\nc4: [c1, c2, c2]\n",
    f"a: [{{{GOOD}, weight: 5}}]",
    "a:\n- scope:\n    key: pod/labels/app\n    operator: In\n    values: [x, 'y']\n  match:\n    key: ':pod/name:name'\n"
    "    operator: Matches\n    values:\n    - 'web-*'\n  weight: -7\n",
    '{"a": [{"match": {"operator": "AlwaysTrue"}}], "b": null}',
    "a: &x [b]\nb: *x\n",
    "a:\n- &m\n  match: {key: tags/x, operator: MatchesNone, values: ['[a-z]*', \"\\\\\"]}\n- *m\n",
]
# fmt: off
FRAGMENTS = st.sampled_from([
    "a", "b", ":", ",", "-", "[", "]", "{", "}", "&", "*", "!", "|", ">", "'", '"', "#", "\n", "\t", "~", "null", "match", "scope",
    "weight", "key", "operator", "values", "Equals", "Exists", "AlwaysTrue", "In", "5", "1.5", "-1", "3e9", "<<:", "*x", "&x", "?", ": ",
    "---", "...", "%YAML", "!!str", "!!binary", "\x00", "\x85", "\ud800", "\U0001f600", "name", "labels/", ":name", ":::", "\n  ", "- ",
])
# fmt: on


def _survives(text: str) -> bool:
    """Return True if the annotation is read. It may be refused, in one line with pod and annotation."""
    for kind in ("affinity", "anti-affinity"):
        try:
            hints = parse_annotations({NRI + kind: text}, where="Pod n/p", containers=("a", "b"), symmetric=True)
        except AnnotationError as error:
            message = str(error)
            assert message.isprintable(), message
            assert message.startswith(f"Pod n/p: annotation {NRI}{kind}: "), message
            assert len(message) < 600, message
            return False
        assert all(warning.isprintable() for warning in hints.warnings)
        assert all(abs(entry.weight) <= 1000 and entry.weight for entry in hints.entries)
        (a, b) = views(pod("p", "a b"))
        assert isinstance(affinity(hints, a, b), int)
    return True


@pytest.mark.full
@examples(1500)
@example("a: [b]")
@example("\ufeffa: [b]")
@example("a: [" + "9" * 5000 + "]")
@example("a: [{match: {operator: AlwaysTrue}, weight: " + "9" * 5000 + "}]")
@example("a" * 5000 + ": [{" + "b" * 5000 + ": 1}]")
@example("? a\n: [b]")
@example("%YAML 9.9\n---\na: [b]")
@example("a: 2001-01-01")
@example("!!binary a: [b]")
@given(st.one_of(st.text(), st.lists(FRAGMENTS, max_size=25).map(" ".join), st.lists(FRAGMENTS, max_size=25).map("".join)))
def test_any_text_is_read_or_refused(text: str) -> None:
    _survives(text)


@pytest.mark.full
@examples(1500)
@given(st.data())
def test_mutated_annotations_are_read_or_refused(data: st.DataObject) -> None:
    text = data.draw(st.sampled_from(VALID))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        cut = data.draw(st.integers(0, 6))
        text = text[:at] + data.draw(st.one_of(st.just(""), FRAGMENTS, st.text(max_size=3))) + text[at + cut :]
    _survives(text)


def test_fuzzing_starts_from_valid_annotations() -> None:
    assert all(_survives(text) for text in VALID)


JSON = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(-3000, 3000), st.floats(allow_nan=False), st.sampled_from(["a", "b", "name", "Equals", "*"])
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["a", "b", "match", "scope", "weight", "key", "operator", "values"]), inner, max_size=3),
    ),
    max_leaves=12,
)


@pytest.mark.full
@examples(1000)
@given(JSON)
def test_any_structure_is_read_or_refused(content: Any) -> None:
    _survives(json.dumps(content))
    _survives(json.dumps({"a": [{"match": {"operator": "AlwaysTrue"}}, content]}))
