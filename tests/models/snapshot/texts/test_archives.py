"""Archives give the snapshot of the folder that was packed; what could do harm in them is refused."""

from __future__ import annotations

import bz2
import gzip
import io
import lzma
import random
import stat
import tarfile
import zipfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from kubestow import cli
from kubestow.models.snapshot import sources
from kubestow.models.snapshot.snapshot import InputError, load
from tests.models.snapshot.texts.test_bundles import listed, put
from tests.objects import node, pod

FILES = {
    "bundle/cluster-resources/nodes.json": listed("NodeList", node("n"), bare=True),
    "bundle/cluster-resources/pods/shop.json": listed("PodList", pod("p", namespace="shop"), bare=True),
    "bundle/cluster-info/cluster_version.json": {"info": {"gitVersion": "v1.35.2"}},
    "bundle/.hidden/pods.json": listed("PodList", pod("hidden")),
    "bundle/logs/current.log": "line\n",
    "bundle/version.yaml": "text: only\n",
}


def tarred(files: dict[str, bytes]) -> bytes:
    made = io.BytesIO()
    with tarfile.open(fileobj=made, mode="w") as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
    return made.getvalue()


def zipped(files: dict[str, bytes], compression: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return made.getvalue()


FORMS: dict[str, Callable[[dict[str, bytes]], bytes]] = {
    ".tar": tarred,
    ".tgz": lambda files: gzip.compress(tarred(files)),
    ".tar.bz2": lambda files: bz2.compress(tarred(files)),
    ".tar.xz": lambda files: lzma.compress(tarred(files)),
    ".zip": zipped,
    ".lzma.zip": lambda files: zipped(files, zipfile.ZIP_LZMA),
}
ALL = pytest.mark.parametrize("form", FORMS)


def packed(tmp_path: Path, form: str, files: dict[str, bytes]) -> str:
    path = tmp_path / f"packed{form}"
    path.write_bytes(FORMS[form](files))
    return str(path)


def contents(folder: Path) -> dict[str, bytes]:
    return {f"./{path.relative_to(folder)}": path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@ALL
def test_an_archive_is_read_as_the_folder_that_it_holds(tmp_path: Path, form: str) -> None:
    folder = put(tmp_path / "folder", FILES)
    archive = packed(tmp_path, form, contents(Path(folder)))
    expected, found = load([folder]), load([archive])
    assert found.sha256 == expected.sha256
    assert msgspec.json.encode((found.nodes, found.pods)) == msgspec.json.encode((expected.nodes, expected.pods))
    assert found.capture == expected.capture
    assert found.capture is not None
    assert found.omissions == [each.replace(folder, archive) for each in expected.omissions]
    assert any("version.yaml" in each for each in found.omissions)


@ALL
def test_commands_read_archives_from_files_and_from_standard_input(tmp_path: Path, form: str) -> None:
    files = {"a/nodes.json": msgspec.json.encode(node("n")), "a/pods.json.gz": gzip.compress(msgspec.json.encode(pod("p")))}
    archive = packed(tmp_path, form, files)
    named = CliRunner().invoke(cli.main, ["solve", archive, "-f", "json", "-q", "--deterministic"])
    assert (named.exit_code, named.stderr) == (0, "")
    piped = CliRunner().invoke(cli.main, ["solve", "-", "-f", "json", "-q", "--deterministic"], input=Path(archive).read_bytes())
    assert msgspec.json.decode(piped.stdout)["assignments"] == msgspec.json.decode(named.stdout)["assignments"]


def test_a_problem_in_an_archive_names_archive_and_file(tmp_path: Path) -> None:
    archive = packed(tmp_path, ".tgz", {"a/pods.json": b'{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": 3}}'})
    with pytest.raises(InputError) as raised:
        load([archive])
    assert str(raised.value).startswith(f"{archive}/a/pods.json: ")


@ALL
@pytest.mark.parametrize("name", ["../pods.json", "/etc/pods.json", "a/../../pods.json"])
def test_names_that_lead_out_of_an_archive_are_refused(tmp_path: Path, form: str, name: str) -> None:
    archive = packed(tmp_path, form, {"nodes.json": msgspec.json.encode(node("n")), name: msgspec.json.encode(pod("p"))})
    with pytest.raises(InputError, match="names files outside of itself: "):
        load([archive])


@pytest.mark.parametrize("kind", [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.CHRTYPE, tarfile.FIFOTYPE])
def test_links_and_devices_are_refused_in_place_of_files_and_else_ignored(tmp_path: Path, kind: bytes) -> None:
    for name, refused in (("pods.json", True), ("latest", False)):
        path = tmp_path / "links.tar"
        with tarfile.open(path, "w") as archive:
            data = msgspec.json.encode(node("n"))
            info = tarfile.TarInfo("nodes.json")
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))
            link = tarfile.TarInfo(name)
            link.type, link.linkname = kind, "/etc/passwd"
            archive.addfile(link)
        if refused:
            with pytest.raises(InputError, match=r"has links or devices in place of files, which are not followed: pods\.json"):
                load([str(path)])
        else:
            assert len(load([str(path)]).nodes) == 1


def test_links_in_a_zip_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "links.zip"
    with zipfile.ZipFile(path, "w") as archive:
        link = zipfile.ZipInfo("pods.json")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        archive.writestr(link, "/etc/passwd")
    with pytest.raises(InputError, match="has links or devices"):
        load([str(path)])


@ALL
def test_the_size_limit_counts_all_files_of_an_archive_unpacked(tmp_path: Path, form: str) -> None:
    files = {f"{number}.json": msgspec.json.encode(node(f"n{number}")) + b" " * 40_000 for number in range(5)}
    archive = packed(tmp_path, form, files)
    with sources.at_most(300_000):
        assert len(load([archive]).nodes) == 5
    with sources.at_most(150_000), pytest.raises(InputError, match=r"takes more than 146\.4 KiB.*--max-input SIZE"):
        load([archive])


def test_a_bomb_inside_an_archive_meets_the_limit(tmp_path: Path) -> None:
    archive = packed(tmp_path, ".tgz", {"a.json.gz": gzip.compress(b" " * 10_000_000), "b.json.gz": gzip.compress(b" " * 10_000_000)})
    with sources.at_most(15_000_000), pytest.raises(InputError, match=r"takes more than 14\.3 MiB unpacked"):
        load([archive])


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"readme.txt": b"x"}, "holds no .json, .yaml or .yml file"),
        ({"web/Chart.yaml": b"name: web", "web/templates/a.yaml": b"{{ x }}"}, "is a packaged Helm chart, expected objects (helm template"),
    ],
)
@ALL
def test_archives_of_other_things_are_named(tmp_path: Path, form: str, files: dict[str, bytes], message: str) -> None:
    with pytest.raises(InputError) as raised:
        load([packed(tmp_path, form, files)])
    assert message in str(raised.value)


@ALL
def test_spoiled_bytes_end_in_a_snapshot_or_in_bad_input(tmp_path: Path, form: str) -> None:
    rng = random.Random(7)
    whole = FORMS[form]({f"{number}.json": msgspec.json.encode(node(f"n{number}")) for number in range(4)})
    path = tmp_path / f"spoiled{form}"
    for _ in range(40):
        data = bytearray(whole)
        for _ in range(rng.choice((1, 4, 16))):
            data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        with suppress(InputError):
            load([str(path)])


@ALL
def test_a_damaged_archive_is_one_line(tmp_path: Path, form: str) -> None:
    whole = FORMS[form]({f"{number}.json": msgspec.json.encode(node(f"n{number}")) for number in range(30)})
    lengths = (300, 600, 1536, 2048, len(whole) // 3, len(whole) // 2, len(whole) - 100)
    for length in (each for each in lengths if each < len(whole)):
        path = tmp_path / f"cut{form}"
        path.write_bytes(whole[:length])
        try:
            assert len(load([str(path)]).nodes) == 30  # only padding after the end of the archive is lost
            assert (form, length) == (".tar", len(whole) - 100)
        except InputError as error:
            (line,) = str(error).splitlines()
            assert str(path) in line
