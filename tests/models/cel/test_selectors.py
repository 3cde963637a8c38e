"""Device selectors against the meaning that Kubernetes documents; sources are named where a result surprises.

https://github.com/kubernetes/kubernetes/blob/v1.36.2/staging/src/k8s.io/dynamic-resource-allocation/cel/compile.go
"""

from __future__ import annotations

import contextlib
import gzip
import re
import threading
from pathlib import Path

import msgspec
import pytest

from kubestow.models.cel.selectors import CelError, UnsupportedExpression, compile_selector
from kubestow.models.kube.device_objects import Device, DeviceAttribute, DeviceCapacity
from kubestow.models.kube.feature_gates import DEFAULT, FeatureGates

RECORDED = Path(__file__).parents[2] / "conformance" / "data" / "dra.jsonl.gz"
DRIVER = "gpu.example.com"
DEVICE = Device(
    name="d",
    attributes={
        "index": DeviceAttribute(int=3),
        "ecc": DeviceAttribute(bool=True),
        "model": DeviceAttribute(string="a100"),
        "driverVersion": DeviceAttribute(version="550.54.15-rc.2+build"),
        "resource.kubernetes.io/pcieRoot": DeviceAttribute(string="pci0000:01"),
    },
    capacity={
        "memory": DeviceCapacity(value="40Gi"),
        "other.example.com/slots": DeviceCapacity(value="1500m"),
    },
)
LISTS = FeatureGates(given=(("DRAListTypeAttributes", True),))
GPU = f'device.attributes["{DRIVER}"]'
MEMORY = f'device.capacity["{DRIVER}"].memory'


def holds(expression: str, device: Device = DEVICE, gates: FeatureGates = DEFAULT) -> bool:
    return compile_selector(expression, gates).matches(DRIVER, device)


TRUE = [
    f'device.driver == "{DRIVER}"',
    "device.allowMultipleAllocations == false",
    # A bare name belongs to the driver's domain; a missing domain is an empty map that is not "in" the attributes.
    f"{GPU}.index == 3",
    f'{GPU}["model"] == "a100"',
    'device.attributes["resource.kubernetes.io"].pcieRoot.startsWith("pci")',
    'device.attributes["nowhere.example.com"].size() == 0',
    '!("nowhere.example.com" in device.attributes)',
    f'"{DRIVER}" in device.attributes && size(device.attributes) == 2',
    'device.attributes.exists(domain, domain == "resource.kubernetes.io")',
    'device.capacity.exists_one(domain, domain == "other.example.com")',
    '!has(device.attributes["nowhere.example.com"].x)',
    "has(device.attributes.nowhere)",  # Find of the mapper always finds
    'device.attributes[?"nowhere.example.com"].hasValue()',
    'device.attributes["nowhere.example.com"].?x.orValue(true)',
    f'cel.bind(gpus, {GPU}, gpus.model == "a100" && gpus.ecc)',
    'cel.bind(all, device.attributes, all["nowhere.example.com"].size() == 0)',
    f'cel.bind(d, device, d.attributes["{DRIVER}"].index == 3)',
    'cel.bind(d, device, d.attributes["nowhere"].size() == 0)',
    # Values of dynamic type: numbers compare across types, other kinds are unequal.
    f"{GPU}.index > 2.5 && {GPU}.index == 3u && {GPU}.index < 4u",
    f'{GPU}.model != 3 && !({GPU}.ecc == "true")',
    f"{GPU}.ecc",
    f'type({GPU}.index) == int && string({GPU}.index) == "3" && double({GPU}.index) == 3.0',
    "1 < 2.5 && 2u >= 1 && 1.5 < 2u",
    # || and && absorb an error where the other side decides.
    f'{GPU}.missing == 1 || {GPU}.model == "a100"',
    f'!({GPU}.model == "t4" && {GPU}.missing == 1)',
    f'{GPU}.driverVersion == "550.54.15" || true',
    # Versions, by precedence: a release comes after its prereleases, build metadata says nothing.
    f'{GPU}.driverVersion == semver("550.54.15-rc.2")',
    f'semver("550.54.15-rc.2+other") == {GPU}.driverVersion',
    f'{GPU}.driverVersion.isLessThan(semver("550.54.15")) && {GPU}.driverVersion.isGreaterThan(semver("550.54.15-rc.1.9"))',
    'semver("1.0.0-alpha").compareTo(semver("1.0.0-alpha.1")) == -1 && semver("1.0.0-2").compareTo(semver("1.0.0-10")) == -1',
    'semver("1.0.0-10").isLessThan(semver("1.0.0-a"))',
    f"{GPU}.driverVersion.major() == 550 && {GPU}.driverVersion.minor() == 54 && {GPU}.driverVersion.patch() == 15",
    'semver("v01.1", true) == semver("1.1.0") && isSemver("1", true) && !isSemver("1") && !isSemver("v1.0.0") && !isSemver(" 1.0.0", true)',
    'isSemver("1.2.3-beta.1+build.1") && !isSemver("1.2.3-01") && !isSemver("1-rc", true)',
    f'"550.54.15" != {GPU}.driverVersion',  # a string is equal to strings only
    f'{GPU}.driverVersion in [semver("1.0.0"), semver("550.54.15-rc.2")]',
    f'!({GPU}.driverVersion in ["550.54.15-rc.2"])',  # in passes over errors
    # Quantities
    f'{MEMORY} == quantity("40960Mi") && {MEMORY} != quantity("40G")',
    f'{MEMORY}.compareTo(quantity("20Gi").add(quantity("20Gi"))) == 0 && {MEMORY}.isGreaterThan(quantity("42G"))',
    f"{MEMORY}.sub(1).isLessThan({MEMORY}) && {MEMORY}.asInteger() == 42949672960 && {MEMORY}.asApproximateFloat() > 4e10",
    'device.capacity["other.example.com"].slots.asApproximateFloat() == 1.5 && !device.capacity["other.example.com"].slots.isInteger()',
    'sign(quantity("-1")) == -1 && sign(quantity("0")) == 0 && isQuantity("1.5Gi") && !isQuantity("Three") && !isQuantity(" 1")',
    'quantity("1").add(quantity("1")) == quantity("2")',
    # Strings, lists, sets, two variables, regular expressions
    f'{GPU}.model.upperAscii() == "A100" && {GPU}.model.substring(1) == "100" && {GPU}.model.charAt(0) == "a"',
    f'{GPU}.model.indexOf("0") == 2 && {GPU}.model.lastIndexOf("0") == 3 && "%s-%d".format([{GPU}.model, 1]) == "a100-1"',
    '"a,b".split(",").join("-") == "a-b" && " x ".trim() == "x" && "aXbX".replace("X", "", 1) == "abX" && strings.quote("a") == "\\"a\\""',
    f'{GPU}.model.matches("^[ah]100$") && {GPU}.model.find("[0-9]+") == "100" && {GPU}.model.find("x(y)") == ""',
    '"ab12cd3".find("([a-z]+)([0-9]+)") == "ab12" && "ab12cd3".findAll("[a-z]([0-9])") == ["b1", "d3"]',
    '"a1a2".findAll("a[0-9]", 1) == ["a1"] && "a1".findAll("b") == []',
    "[1, 2, 3].sum() == 6 && [2, 1].min() == 1 && ['b', 'a'].max() == 'b' && [1.5].sum() == 1.5",
    "[1, 1, 2].isSorted() && ![2, 1].isSorted()",
    "[1, 2, 1].indexOf(1) == 0 && [1, 2, 1].lastIndexOf(1) == 2 && ['a'].indexOf('b') == -1 && 'a-b'.indexOf('-') == 1",
    "[3, 1].sort() == [1, 3] && [1, 1].distinct() == [1] && [[1], [2]].flatten() == [1, 2] && [1, 2, 3].slice(0, 2) == [1, 2]",
    "lists.range(3) == [0, 1, 2] && [1, 2].reverse() == [2, 1] && [1, 2].first().value() == 1 && [1, 2].last().value() == 2",
    "['ab', 'c'].sortBy(x, size(x)) == ['c', 'ab']",
    "sets.contains([1, 2], [2]) && sets.equivalent([1, 1], [1]) && !sets.intersects([1], [2])",
    f'{GPU}.exists(name, value, name == "index" && value == 3) && [5, 6].all(i, x, x == i + 5)',
    '{"a": 1}.transformMap(k, v, v + 1) == {"a": 2} && [1, 2].transformList(i, x, x > 1, x) == [2]',
]


@pytest.mark.parametrize("expression", TRUE)
def test_expressions_that_hold(expression: str) -> None:
    assert holds(expression) is True
    assert holds(f"!({expression})") is False


FAILS = {
    f"{GPU}.missing == 1": "missing",
    f"{GPU}.index / 0 == 1": "divide by zero",
    f"{GPU}.model": "of type string, expected bool",
    f'{GPU}.driverVersion == "550.54.15"': "no such overload",
    f'{GPU}.driverVersion != "550.54.15"': "no such overload",
    f"{GPU}.driverVersion == {GPU}.model": "no such overload",
    f"{GPU}.driverVersion < {GPU}.driverVersion": "overload",
    f'{GPU}.model.compareTo(semver("1.0.0")) > 0': "no such overload",
    f"{GPU}.model.isGreaterThan({MEMORY})": "no such overload",
    f'{GPU}.index.startsWith("a")': "overload",
    f"{GPU}.index ? true : false": "overload",
    f"size({GPU}.driverVersion) == 1": "overload",
    f"{GPU}.driverVersion.foo == 1": "foo",
    'quantity("many").isInteger()': "not a quantity",
    'semver("1.0") == semver("1.0.0")': "semantic version",
    # add and sub give a pointer to a quantity, and Equal takes none (quantity.go).
    'quantity("2") == quantity("1").add(1)': "no such overload",
    'device.capacity["other.example.com"].slots.asInteger() == 1': "integer",
    "[dyn(1)].filter(x, false).min() == 1": "empty list",
}


@pytest.mark.parametrize("expression", FAILS)
def test_expressions_that_fail_on_a_device(expression: str) -> None:
    with pytest.raises(CelError, match=FAILS[expression]):
        holds(expression)
    assert holds(f"true || ({expression})")


REFUSED = {
    "?!": "Syntax error",
    "1": "must evaluate to bool or the unknown type, not int",
    "dyn(true)": "must evaluate to bool or the unknown type, not dyn",
    "device": "must evaluate",
    "device.foo == 1": "undefined field 'foo'",
    "devices == 1": "undeclared reference to 'devices'",
    f'{MEMORY} < quantity("1Gi")': "no matching overload",
    f'{GPU}.driverVersion > semver("1.0.0")': "no matching overload",
    f'{MEMORY} == "40Gi"': "no matching overload",
    "1 == 1.0": "no matching overload",
    '"abc".reverse() == "cba"': "no matching overload",
    "math.greatest(1, 2) == 2": "undeclared reference",
    f"{GPU}.model.exists(x, true)": "cannot be the range",
    "isSemver([1]) || true": "no matching overload",
    '[1, "a"].size() == 2': "expected type 'int' but found 'string'",
    '{"a": 1, "b": "c"}.size() == 2': "expected type 'int' but found 'string'",
    f'{GPU}.model.matches("(") || true': "regular expression",
    f'{GPU}.model.find("(") == "" || true': "regular expression",
    'int("x") == 1 || true': "cannot convert",
    "true || " + "1" * 10241: "too long",
}


@pytest.mark.parametrize("expression", REFUSED)
def test_expressions_that_do_not_compile(expression: str) -> None:
    with pytest.raises(CelError, match=REFUSED[expression]) as caught:
        compile_selector(expression, DEFAULT)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "has(device.driver)",
        'dyn(device.attributes)["x"].size() == 0',
        "[device.attributes].size() == 1",
        f"{GPU}.?model == optional.of('a')",
        "dyn(optional.of(1)) == 1",
        '"abc".findAll("[0-9]*").size() == 0',
        'format.dns1123Label().validate("a-b").hasValue()',
        'format.named("uuid").hasValue()',
        'isURL("/a") && url("https://example.com/").getHost() == "example.com"',
        'isIP("10.0.0.1") && ip.isCanonical("::1")',
        f'cidr("10.0.0.0/8").containsIP(ip({GPU}.model))',
        "lists.range(1000000).all(x, lists.range(1000).all(y, x + y > 0))",
        f"[{GPU}.driverVersion] == [{GPU}.model]",
    ],
)
def test_what_cannot_be_told_is_no_verdict_not_even_where_the_other_side_decides(expression: str) -> None:
    with pytest.raises(UnsupportedExpression):
        holds(f"({expression}) || true")


def test_an_unreadable_attribute_fails_every_expression() -> None:
    for attribute in (DeviceAttribute(version="1.0"), DeviceAttribute(strings=["a"]), DeviceAttribute()):
        with pytest.raises(CelError, match="attribute x"):
            holds("true", Device(name="d", attributes={"x": attribute}))


def test_list_attributes_need_their_gate() -> None:
    device = Device(
        name="d",
        attributes={
            "names": DeviceAttribute(strings=["a", "b"]),
            "v": DeviceAttribute(versions=["1.0.0", "2.0.0"]),
            "one": DeviceAttribute(int=1),
        },
    )
    assert holds(f'{GPU}.names.includes("b") && !{GPU}.names.includes("c") && {GPU}.one.includes(1)', device, LISTS)
    assert holds(f'{GPU}.names.exists(x, x == "a") && {GPU}.v.all(x, x.isGreaterThan(semver("0.9.0")))', device, LISTS)
    assert holds(f'{GPU}.v.includes(semver("2.0.0")) && {GPU}.names.size() == 2 && {GPU}.names[0] == "a"', device, LISTS)
    with pytest.raises(CelError):
        holds(f"{GPU}.one.exists(x, x > 0)", device, LISTS)


def test_what_new_and_stored_expressions_may_use_depends_on_version_and_gates() -> None:
    old, off = FeatureGates("1.35"), FeatureGates("1.36", (("DRAConsumableCapacity", False),))
    compile_selector("device.allowMultipleAllocations", old)
    compile_selector(f'{GPU}.model.includes("a100")', DEFAULT)
    for expression, gates, new in (
        ("device.allowMultipleAllocations", old, True),
        ("device.allowMultipleAllocations", off, True),
        (f'{GPU}.model.includes("a100")', DEFAULT, True),
        (f'{GPU}.model.includes("a100")', old, False),
    ):
        with pytest.raises(CelError, match=r"undefined field|undeclared reference"):
            compile_selector(expression, gates, new)


def test_equal_expressions_share_a_selector_and_equal_devices_an_evaluation() -> None:
    selector = compile_selector(f"{GPU}.index == 3", DEFAULT)
    assert compile_selector(f"{GPU}.index == 3", DEFAULT) is selector
    for name in ("a", "b"):
        assert selector.matches(DRIVER, Device(name=name, attributes={"index": DeviceAttribute(int=3)}))
    with pytest.raises(CelError):
        selector.matches("other.example.com", Device(name="a", attributes={"index": DeviceAttribute(int=3)}))


def test_every_recorded_expression_is_evaluated_on_every_kind_of_device() -> None:
    expressions: set[str] = set()
    devices: dict[bytes, tuple[str, Device]] = {}
    with gzip.open(RECORDED, "rb") as lines:
        for line in list(lines)[::4]:
            for item in msgspec.json.decode(line)["snapshot"]["items"]:
                expressions |= set(re.findall(r'"expression":("(?:[^"\\]|\\.)*")', msgspec.json.encode(item).decode()))
                if item["kind"] == "ResourceSlice":
                    for device in msgspec.convert(item["spec"].get("devices") or [], list[Device]):
                        key = msgspec.json.encode(sorted((device.attributes or {}).keys()))
                        devices[key] = (item["spec"]["driver"], device)
    assert len(expressions) > 70
    assert len(devices) > 3
    for text in sorted(expressions):
        selector = compile_selector(msgspec.json.decode(text), DEFAULT)
        for driver, device in devices.values():
            with contextlib.suppress(CelError):  # UnsupportedExpression is none
                selector.matches(driver, device)


def test_every_thread_may_ask_of_a_device() -> None:
    device = Device(name="d", capacity={"memory": DeviceCapacity(value="7Gi")})
    answers = []

    def ask(amount: str) -> None:
        expression = f'device.capacity["gpu.example.com"].memory.compareTo(quantity("{amount}")) >= 0'
        answers.append(compile_selector(expression, DEFAULT).matches("gpu.example.com", device))

    for amount in ("6Gi", "7Gi", "8Gi"):
        asking = threading.Thread(target=ask, args=(amount,))
        asking.start()
        asking.join()
    ask("9Gi")
    assert answers == [True, True, False, False]
