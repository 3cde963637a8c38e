"""Create the krew files of a release: an archive per platform, and the manifest ``stow.yaml``, by krew's rules.

``python packaging/krew/fill.py --homepage URL --base URL --bundle linux/amd64=FILE... DIRECTORY``: a bundle is one
executable file that runs kubestow; BASE is the address of the archives of DIRECTORY. Archives are reproducible byte
by byte.

The rules: https://github.com/kubernetes-sigs/krew/blob/master/internal/index/validation/validate.go and
https://github.com/kubernetes-sigs/krew/blob/master/cmd/validate-krew-manifest/main.go.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import re
import sys
import tarfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import click
import yaml

ROOT: Final = Path(__file__).resolve().parents[2]
TEMPLATE: Final = Path(__file__).with_name("stow.yaml.in")
NAME: Final = "stow"
#: Name of the program in an archive; krew creates a link of this name.
BIN: Final = "kubectl-stow"
#: Operating systems and processors supported by krew.
PLATFORMS: Final = tuple(
    (system, processor)
    for system, processors in (
        ("darwin", ("amd64", "arm64")),
        ("linux", ("386", "amd64", "arm", "arm64", "ppc64le")),
        ("windows", ("386", "amd64", "arm64")),
    )
    for processor in processors
)
_RESERVED: Final = ("CON", "PRN", "AUX", "NUL", *(f"{port}{n}" for port in ("COM", "LPT") for n in range(1, 10)))
#: https://semver.org, with the leading v that krew requires.
_VERSION: Final = re.compile(
    r"v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*)(\.(0|[1-9]\d*|\d*[A-Za-z-][0-9A-Za-z-]*))*)?"
    r"(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?",
    re.ASCII,
)
#: Fields of a manifest's spec, with the largest number of characters per line (0: no text field).
_SPEC: Final = {"version": 0, "homepage": 0, "shortDescription": 70, "description": 80, "caveats": 80, "platforms": 0}
_PLATFORM: Final = {"uri", "sha256", "selector", "files", "bin", "license"}


def archive(bundle: Path) -> bytes:
    """Return a ``.tar.gz`` with the program and the licence, which krew requires; reproducible byte by byte."""
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream,
        tarfile.open(fileobj=stream, mode="w", format=tarfile.USTAR_FORMAT) as tar,
    ):
        for name, path, mode in ((BIN, bundle, 0o755), ("LICENSE", ROOT / "LICENSE", 0o644)):
            data = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(data), mode
            tar.addfile(entry, io.BytesIO(data))
    return packed.getvalue()


def manifest(version: str, homepage: str, archives: Mapping[tuple[str, str], tuple[str, bytes]]) -> str:
    """Return the filled manifest. ``archives`` has address and bytes by operating system and processor."""
    text = TEMPLATE.read_text(encoding="utf-8").replace("@VERSION@", version).replace("@HOMEPAGE@", homepage)
    platforms = [
        {
            "selector": {"matchLabels": {"os": system, "arch": processor}},
            "uri": uri,
            "sha256": hashlib.sha256(data).hexdigest(),
            "bin": BIN,
        }
        for (system, processor), (uri, data) in sorted(archives.items())
    ]
    listed = yaml.safe_dump({"platforms": platforms}, sort_keys=False, width=1000)
    return text.replace("  platforms: []\n", "".join(f"  {line}\n" for line in listed.splitlines()))


def problems(text: str, file: str = f"{NAME}.yaml") -> list[str]:
    """Return problems for which krew rejects a manifest or warns. ``file`` is its name in krew's index."""
    try:
        found = yaml.safe_load(text)
    except yaml.YAMLError as error:
        return [f"not valid YAML: {' '.join(str(error).split())}"]
    if not isinstance(found, dict) or not isinstance(found.get("spec"), dict) or not isinstance(found.get("metadata"), dict):
        return ["expected a mapping with metadata and spec"]
    return [*_about(found, file), *_spec(found["spec"]), *_platforms(found["spec"].get("platforms"))]


def _about(found: Mapping[str, Any], file: str) -> Iterator[str]:
    name = found["metadata"].get("name")
    if found.get("apiVersion") != "krew.googlecontainertools.github.com/v1alpha2":
        yield f"apiVersion: {found.get('apiVersion')!r} is not known to krew"
    if found.get("kind") != "Plugin":
        yield f"kind: expected Plugin, found {found.get('kind')!r}"
    if not isinstance(name, str) or not re.fullmatch(r"[A-Za-z0-9_-]+", name) or name.upper() in _RESERVED:
        yield f"metadata.name: {name!r} is not a valid plugin name"
    if file != f"{name}.yaml":
        yield f"{file}: the file of {name!r} must be named {name}.yaml"
    yield from (f"{field}: unknown field" for field in found.keys() - {"apiVersion", "kind", "metadata", "spec"})


def _spec(spec: Mapping[str, Any]) -> Iterator[str]:
    yield from (f"spec.{field}: unknown field" for field in spec if field not in _SPEC)
    if not _VERSION.fullmatch(str(spec.get("version"))):
        yield f"spec.version: {spec.get('version')!r} is not a semantic version with a leading v"
    if urlsplit(str(spec.get("homepage"))).scheme != "https":
        yield f"spec.homepage: expected an address with https, found {spec.get('homepage')!r}"
    for field, width in _SPEC.items():
        text = spec.get(field)
        if width and (not isinstance(text, str) or not text.strip()):
            yield f"spec.{field}: expected a text"
        elif width and any(len(line) > width and " " in line.strip() for line in str(text).split("\n")):
            yield f"spec.{field}: a line has more than {width} characters"
    if "\n" in str(spec.get("shortDescription")):
        yield "spec.shortDescription: expected one line"
    if "@" in "".join(str(spec.get(field)) for field in ("version", "homepage")):
        yield "spec: a placeholder is not filled in"


def _platforms(platforms: Any) -> Iterator[str]:
    if not isinstance(platforms, list) or not platforms:
        yield "spec.platforms: expected at least one platform"
        return
    taken: dict[tuple[str, str], int] = {}
    for index, each in enumerate(platforms):
        where = f"spec.platforms[{index}]"
        if not isinstance(each, dict):
            yield f"{where}: expected a mapping"
            continue
        yield from (f"{where}.{field}: unknown field" for field in each if field not in _PLATFORM)
        uri = urlsplit(str(each.get("uri")))
        if uri.scheme != "https" or not uri.path.endswith((".tar.gz", ".zip")):
            yield f"{where}.uri: expected the address of a .tar.gz or .zip with https, found {each.get('uri')!r}"
        if not re.fullmatch("[a-f0-9]{64}", str(each.get("sha256"))):
            yield f"{where}.sha256: expected 64 hexadecimal digits, found {each.get('sha256')!r}"
        if not each.get("bin") or str(each["bin"]).startswith("/") or ".." in Path(str(each["bin"])).parts:
            yield f"{where}.bin: expected a path within the archive, found {each.get('bin')!r}"
        yield from _files(each, where)
        matched = list(_matched(each.get("selector")))
        if not matched:
            yield f"{where}.selector: matches no platform of krew"
        for platform in matched:
            if platform in taken:
                yield f"{where}.selector: {'/'.join(platform)} is also matched by spec.platforms[{taken[platform]}]"
            taken.setdefault(platform, index)


def _files(platform: Mapping[str, Any], where: str) -> Iterator[str]:
    files = platform.get("files")
    if files is not None and (not files or any(not each.get("from") or not each.get("to") for each in files)):
        yield f"{where}.files: expected no files, or from and to in each"


def _matched(selector: Any) -> Iterator[tuple[str, str]]:
    """Yield the platforms that a label selector of ``os`` and ``arch`` matches; none if krew rejects the selector."""
    if not isinstance(selector, dict) or not selector or not selector.keys() <= {"matchLabels", "matchExpressions"}:
        return
    labels, expressions = selector.get("matchLabels", {}), selector.get("matchExpressions", [])
    wrong = any(field in selector and not selector[field] for field in ("matchLabels", "matchExpressions"))
    if wrong or not {*labels, *(each.get("key") for each in expressions)} <= {"os", "arch"}:
        return
    for system, processor in PLATFORMS:
        of = {"os": system, "arch": processor}
        if all(of[key] == value for key, value in labels.items()) and all(_holds(each, of) for each in expressions):
            yield system, processor


def _holds(expression: Mapping[str, Any], of: Mapping[str, str]) -> bool:
    key, values = expression["key"], expression.get("values") or ()
    return {"In": of[key] in values, "NotIn": of[key] not in values, "Exists": True}.get(str(expression.get("operator")), False)


def _bundle(ctx: click.Context, param: click.Parameter, value: tuple[str, ...]) -> dict[tuple[str, str], Path]:
    found: dict[tuple[str, str], Path] = {}
    for each in value:
        platform, _, path = each.partition("=")
        system, _, processor = platform.partition("/")
        if (system, processor) not in PLATFORMS or not Path(path).is_file():
            raise click.BadParameter(f"{each!r} expected OS/ARCH=FILE with a platform of krew and an existing file")
        found[system, processor] = Path(path)
    return found


def _version() -> str:
    sys.path.insert(0, str(ROOT))
    from kubestow.commands import VERSION

    return VERSION


@click.command()
@click.option(
    "--bundle", "bundles", multiple=True, required=True, callback=_bundle, metavar="OS/ARCH=FILE", help="The program; repeatable."
)
@click.option("--homepage", required=True, metavar="URL", help="The project's page.")
@click.option("--base", required=True, metavar="URL", help="Base address of the archives.")
@click.option("--version", metavar="VERSION", help="Version of the release (default: that of the tree).")
@click.argument("directory", type=click.Path(path_type=Path, file_okay=False))
def main(bundles: dict[tuple[str, str], Path], homepage: str, base: str, version: str | None, directory: Path) -> None:
    """Write the archives and the manifest of a release to DIRECTORY."""
    version = version or _version()
    archives = {}
    for (system, processor), bundle in bundles.items():
        name = f"{BIN}-{version}-{system}-{processor}.tar.gz"
        archives[system, processor] = name, archive(bundle)
    text = manifest(version, homepage, {key: (f"{base.rstrip('/')}/{name}", data) for key, (name, data) in archives.items()})
    if wrong := problems(text):
        raise click.ClickException("; ".join(wrong))
    directory.mkdir(parents=True, exist_ok=True)
    for name, data in archives.values():
        (directory / name).write_bytes(data)
    (directory / f"{NAME}.yaml").write_text(text, encoding="utf-8")
    click.echo(f"{NAME}.yaml and {len(archives)} archives written to {directory}")


if __name__ == "__main__":
    main()
