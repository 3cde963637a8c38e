"""Recommended requests of krr, VerticalPodAutoscalers and Prometheus: exact values, and errors for other input."""

from __future__ import annotations

import json
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kubestow.models.right_sizing import prometheus
from kubestow.models.right_sizing.quantities import canonical, number, text
from kubestow.models.right_sizing.read import read
from kubestow.models.snapshot.snapshot import InputError

Plain = dict[str, Any]


def read_requests(path: Path, content: object, spec: str = "") -> list[tuple[str, str, dict[str, str]]]:
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return [(each.workload, each.container, each.requests) for each in read([f"{spec}{path}"])]


def problem(path: Path, content: object, spec: str = "") -> str:
    with pytest.raises(InputError) as error:
        read_requests(path, content, spec)
    (line,) = error.value.problems
    assert line.startswith(f"{path}: ")
    assert "\n" not in line
    return line.removeprefix(f"{path}: ")


def scan(kind: str = "Deployment", cpu: object = 0.1, memory: object = 1e6, **more: Any) -> Plain:
    pods = [{"name": "web-1", "deleted": False}, {"name": "web-0", "deleted": True}]
    recommended = {"requests": {"cpu": {"value": cpu, "severity": "OK"}, "memory": {"value": memory, "severity": "OK"}}}
    return {
        "object": {"kind": kind, "namespace": "shop", "name": "web", "container": "app", "pods": pods, **more},
        "recommended": recommended,
    }


def answer(*series: tuple[Plain, list[str]]) -> Plain:
    result = [{"metric": labels, "values": [[i, value] for i, value in enumerate(values)]} for labels, values in series]
    return {"status": "success", "data": {"resultType": "matrix", "result": result}}


LABELS = {"namespace": "shop", "pod": "web-1", "container": "app"}


# --- krr --------------------------------------------------------------------------------------------------------------


def test_scans_of_krr(tmp_path: Path) -> None:
    found = read_requests(
        tmp_path / "krr.json", {"scans": [scan(cpu=0.0104), scan("StatefulSet", cpu="?", memory=104857600.5), scan(cpu=None, memory="?")]}
    )
    assert found == [
        ("Deployment shop/web", "app", {"cpu": "11m", "memory": "1000000"}),
        ("StatefulSet shop/web", "app", {"memory": "104857601"}),
        ("Deployment shop/web", "app", {}),
    ]


def test_numbers_are_read_as_they_are_written(tmp_path: Path) -> None:
    """0.29 * 1000 is more than 290 in floating point, and would be rounded up."""
    assert read_requests(tmp_path / "krr.json", {"scans": [scan(cpu=0.29, memory=None)]}) == [
        ("Deployment shop/web", "app", {"cpu": "290m"})
    ]


def test_recommendations_without_a_severity(tmp_path: Path) -> None:
    plain = scan()
    plain["recommended"] = {"requests": {"cpu": 1, "memory": None}}
    assert read_requests(tmp_path / "krr.json", {"scans": [plain]}) == [("Deployment shop/web", "app", {"cpu": "1000m"})]


def test_workloads_of_other_kinds_are_known_by_their_pods(tmp_path: Path) -> None:
    found = read_requests(tmp_path / "krr.json", {"scans": [scan("Rollout")]})
    assert found == [("Pod shop/web-1", "app", {"cpu": "100m", "memory": "1000000"})]


def test_workloads_of_other_kinds_without_pods_are_told_of(tmp_path: Path) -> None:
    assert [each[0] for each in read_requests(tmp_path / "krr.json", {"scans": [scan("Rollout", pods=[])]})] == ["Rollout shop/web"]


def test_what_is_not_a_number_is_not_known(tmp_path: Path) -> None:
    assert read_requests(tmp_path / "krr.json", {"scans": [scan(cpu=float("nan"))]}) == [
        ("Deployment shop/web", "app", {"memory": "1000000"})
    ]
    assert read_requests(tmp_path / "krr.yaml", yaml.safe_dump({"scans": [scan(cpu=float("nan"))]}))[0][2] == {"memory": "1000000"}


def test_numbers_of_yaml(tmp_path: Path) -> None:
    assert read_requests(tmp_path / "krr.yaml", yaml.safe_dump({"scans": [scan(cpu=0.29)]})) == [
        ("Deployment shop/web", "app", {"cpu": "290m", "memory": "1000000"})
    ]


_WHO = "scans[0]: Deployment shop/web: container app: "


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        ({"object": {}}, "scans[0]: a b/c: container d: recommended is missing"),
        (scan(container=""), "scans[0]: Deployment shop/web: container ?: expected a text in kind"),
        (scan(cpu="much"), f"{_WHO}recommended.requests.cpu: expected a number"),
        (scan(cpu=-1), f"{_WHO}recommended.requests.cpu: expected an amount of at least 0"),
        (scan(cpu=1e300), f"{_WHO}recommended.requests.cpu: expected a finite number"),
        (5, "scans[0]: expected object and recommended"),
    ],
)
def test_what_krr_does_not_write(plain: object, said: str, tmp_path: Path) -> None:
    if isinstance(plain, dict) and "recommended" not in plain:
        plain = {"object": {"kind": "a", "namespace": "b", "name": "c", "container": "d"}}
    assert problem(tmp_path / "krr.json", {"scans": [plain]}).startswith(said)


# --- VerticalPodAutoscaler --------------------------------------------------------------------------------------------


def scaler(*recommended: Plain, **spec: Any) -> Plain:
    target = {"kind": "Deployment", "name": "web", "apiVersion": "apps/v1"}
    found = {"kind": "VerticalPodAutoscaler", "metadata": {"name": "web", "namespace": "shop"}, "spec": {"targetRef": target, **spec}}
    return {**found, "status": {"recommendation": {"containerRecommendations": list(recommended)}}} if recommended else found


WHERE = "VerticalPodAutoscaler shop/web: status.recommendation.containerRecommendations[0]"
TARGET = {"containerName": "app", "target": {"cpu": "1500u", "memory": "1Ki", "gpu": "1"}}


@pytest.mark.parametrize("wrap", [lambda each: each, lambda each: {"kind": "List", "items": [each, scaler()]}])
def test_targets_of_vertical_pod_autoscalers(wrap: Any, tmp_path: Path) -> None:
    assert read_requests(tmp_path / "vpa.json", wrap(scaler(TARGET))) == [("Deployment shop/web", "app", {"cpu": "2m", "memory": "1024"})]


def test_a_list_of_the_kind(tmp_path: Path) -> None:
    each = {key: value for key, value in scaler(TARGET).items() if key != "kind"}
    assert len(read_requests(tmp_path / "vpa.json", {"kind": "VerticalPodAutoscalerList", "items": [each]})) == 1


@pytest.mark.parametrize(
    ("plain", "said"),
    [
        (scaler(TARGET, targetRef=None), "VerticalPodAutoscaler: expected metadata.name and spec.targetRef"),
        (scaler({"containerName": "app"}), f"{WHERE}: expected containerName and target"),
        (scaler({"containerName": "app", "target": {"cpu": "x"}}), f"{WHERE}.target: "),
        ({"kind": "Pod"}, "is a 'Pod', expected krr's JSON"),
        ([1], "expected krr's JSON"),
        ("", "is empty, expected krr's JSON"),
        ("{", "line 2: is neither JSON nor YAML"),
    ],
)  # fmt: skip
def test_what_is_no_autoscaler(plain: object, said: str, tmp_path: Path) -> None:
    assert problem(tmp_path / "vpa.yaml", plain).startswith(said)


# --- Prometheus -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("spec", "expected"),
    [("cpu=", "10m"), ("cpu:p50=", "5m"), ("cpu:p0=", "1m"), ("cpu:p100=", "10m"), ("cpu:max+15%=", "12m"), ("cpu:p90+100%=", "18m")],
)
def test_quantiles_are_by_nearest_rank(spec: str, expected: str, tmp_path: Path) -> None:
    values = [f"0.{n:03d}" for n in (3, 1, 2, 5, 4, 10, 9, 8, 7, 6)]
    assert read_requests(tmp_path / "cpu.json", answer((LABELS, values)), spec) == [("Pod shop/web-1", "app", {"cpu": expected})]


def test_series_of_a_container_belong_together(tmp_path: Path) -> None:
    series = [
        (LABELS, ["1", "NaN"]),
        ({**LABELS, "id": "/restarted"}, ["3", "+Inf"]),
        ({**LABELS, "container": "POD"}, ["9"]),
        ({"pod": "x"}, ["9"]),
    ]
    assert read_requests(tmp_path / "memory.json", answer(*series), "memory=") == [("Pod shop/web-1", "app", {"memory": "3"})]


def test_a_container_without_a_finite_sample_gets_no_requests(tmp_path: Path) -> None:
    assert read_requests(tmp_path / "cpu.json", answer((LABELS, ["NaN", "+Inf"])), "cpu=") == [("Pod shop/web-1", "app", {})]


def test_the_data_alone(tmp_path: Path) -> None:
    assert read_requests(tmp_path / "memory.json", answer((LABELS, ["7"]))["data"], "memory:max=") == [
        ("Pod shop/web-1", "app", {"memory": "7"})
    ]


@pytest.mark.parametrize(
    ("plain", "spec", "said"),
    [
        (answer((LABELS, ["1"])), "", "is an answer of Prometheus, expected with its resource"),
        ({"status": "error"}, "cpu=", "expected the answer of Prometheus"),
        ({"status": "error", "error": "bad query"}, "cpu=", "Prometheus answered with an error: 'bad query'"),
        (answer(({**LABELS, "pod": ["a"]}, ["1"])), "cpu=", "data.result[0]: expected the labels"),
        (answer(({**LABELS, "container": {"a": 1}}, ["1"])), "cpu=", "data.result[0]: expected the labels"),
        ({"resultType": "matrix", "result": 5}, "cpu=", "data.result: expected a list"),
        (answer(({"container": "app"}, ["1"])), "cpu=", "data.result[0]: expected the labels"),
        (answer((LABELS, ["one"])), "cpu=", "data.result[0]: expected a number"),
        (answer((LABELS, ["-1"])), "cpu=", "data.result[0]: expected usage of at least 0"),
        (answer((LABELS, ["1_0"])), "cpu=", "data.result[0]: expected a number"),
        (answer((LABELS, ["\u0661"])), "cpu=", "data.result[0]: expected a number"),
        ({"resultType": "matrix", "result": [{"metric": LABELS, "values": [[1]]}]}, "cpu=", "data.result[0]: expected metric and values"),
        ({"resultType": "matrix", "result": [{"metric": LABELS, "values": ["ab"]}]}, "cpu=", "data.result[0]: expected metric and values"),
    ],
)
def test_what_is_no_answer_of_prometheus(plain: object, spec: str, said: str, tmp_path: Path) -> None:
    assert problem(tmp_path / "cpu.json", plain, spec).startswith(said)


@given(st.lists(st.integers(0, 10**6), min_size=1, max_size=40), st.integers(0, 100))
def test_a_quantile_is_the_least_sample_that_enough_do_not_exceed(samples: list[int], rank: int) -> None:
    values = [Fraction(sample) for sample in samples]
    found = prometheus.SampleQuantile("cpu", Fraction(rank)).of(values)
    enough = [value for value in sorted(values) if 100 * sum(other <= value for other in values) >= rank * len(values)]
    assert found == enough[0]


# --- files and amounts ------------------------------------------------------------------------------------------------


def test_files_that_are_not_there_are_all_named(tmp_path: Path) -> None:
    with pytest.raises(InputError) as error:
        read([str(tmp_path / "a=b.json"), f"cpu={tmp_path / 'c.json'}"])
    assert [line.rpartition("/")[2] for line in error.value.problems] == [
        "a=b.json: No such file or directory",
        "c.json: No such file or directory",
    ]


@pytest.mark.parametrize("spec", ["cpu:p101", "cpu:95", "CPU", "memory:min", "cpu+1000%", "disk"])
def test_a_misspelt_choice_of_samples_is_no_missing_file(spec: str, tmp_path: Path) -> None:
    path = tmp_path / "cpu.json"
    path.write_text(json.dumps(answer((LABELS, ["1"]))), encoding="utf-8")
    with pytest.raises(InputError) as error:
        read([f"{spec}={path}"])
    assert error.value.problems == [f"--requests {spec}={path}: {spec!r}: {prometheus.EXPECTED}"]


@pytest.mark.parametrize(("plain", "spec"), [({"scans": []}, ""), (answer(), "cpu="), (scaler(), "")])
def test_a_file_that_recommends_nothing_is_said(plain: Plain, spec: str, tmp_path: Path) -> None:
    path, odd = tmp_path / "empty.json", list[str]()
    path.write_text(json.dumps(plain), encoding="utf-8")
    assert read([f"{spec}{path}"], odd) == []
    assert odd == [f"--requests: {path} recommends nothing, and requests stay as they are"]


@given(st.integers(0, 2**60))
def test_amounts_are_rounded_up(nano: int) -> None:
    amount = Fraction(nano, 10**9)
    milli = int(text("cpu", amount).removesuffix("m"))
    assert Fraction(milli - 1, 1000) < amount <= Fraction(milli, 1000)
    assert canonical("cpu", f"{nano}n") == text("cpu", amount)


def test_numbers_are_exact() -> None:
    assert number("0.1") == number(0.1) == Fraction(1, 10)
    assert canonical("cpu", 0.29) == "290m"
    for odd in (True, None, "x", "Infinity", [1]):
        with pytest.raises(ValueError, match="number"):
            number(odd)
