"""The scripts in real shells, where these are installed; kubectl is asked as it asks the plugin."""

from __future__ import annotations

import os
import pty
import re
import select
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import CompletionItem
from click.testing import CliRunner

from kubestow import cli
from kubestow.commands.common.cluster_choice import PLUGIN
from kubestow.commands.completion import shells

_ROOT = Path(cli.__file__).resolve().parent
_SNAPSHOT = str(_ROOT / "instances/quickstart.yaml")
#: The input before TAB, and the words on the line after it.
_TYPED = {
    "kubestow expl": ["kubestow", "explain"],
    "kubestow solve --eng": ["kubestow", "solve", "--engine"],
    "kubestow solve --engine gr": ["kubestow", "solve", "--engine", "greedy"],
    "kubestow explain SNAPSHOT --pod shop/db-1": ["kubestow", "explain", "SNAPSHOT", "--pod", "shop/db-1"],
    "kubestow explain SNAPSHOT --pod=shop/report-1": ["kubestow", "explain", "SNAPSHOT", "--pod=shop/report-1"],
    "kubestow explain SNAPSHOT --node c": ["kubestow", "explain", "SNAPSHOT", "--node", "c1"],
    "kubestow solve SNAPSHOT --add-nodes 2:c": ["kubestow", "solve", "SNAPSHOT", "--add-nodes", "2:c1"],
    "kubestow solve SNAPSHOT --remove-domain topology.kubernetes.io/zone=zone-b": [
        "kubestow", "solve", "SNAPSHOT", "--remove-domain", "topology.kubernetes.io/zone=zone-b",
    ],
    "kubestow solve 'with space.j": ["kubestow", "solve", "with space.json"],
    "true && kubestow nodes SNAPSHOT --sort free-c": ["kubestow", "nodes", "SNAPSHOT", "--sort", "free-cpu"],
}  # fmt: skip


def _installed(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"no {name} here")
    return found


#: Replaces the entry points. Unless it is asked what completes a line, it shows the words that it is given.
_PROGRAM = """\
#!/bin/sh
if [ -z "$_KUBESTOW_COMPLETE" ] && [ NAME != kubectl_complete-stow ]; then
    printf '<%s>' NAME "$@"
    exec echo
fi
exec PYTHON -c 'import sys, cli; sys.argv[0] = "NAME"; cli.ENTRY()' "$@"
"""
_PROMPT = "READY> "


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A folder with the programs and something to complete."""
    (tmp_path / "bin").mkdir()
    for name, entry in (("kubestow", "main"), ("kubectl-stow", "plugin"), ("kubectl_complete-stow", "complete_plugin")):
        text = _PROGRAM.replace("NAME", name).replace("PYTHON", shlex.quote(sys.executable)).replace("ENTRY", entry)
        _write(tmp_path / "bin" / name, text)
    (tmp_path / "s.yaml").symlink_to(_SNAPSHOT)
    (tmp_path / "with space.json").write_text("{}", encoding="utf-8")
    return tmp_path


def _write(program: Path, text: str) -> None:
    program.write_text(text, encoding="utf-8")
    program.chmod(0o755)


def _environment(place: Path) -> dict[str, str]:
    path = os.pathsep.join([str(place / "bin"), os.environ.get("PATH", os.defpath)])
    known = {"PATH": path, "PYTHONPATH": str(_ROOT), "HOME": str(place), "TERM": "xterm", "LC_ALL": "C.UTF-8"}
    return {**known, "KUBECONFIG": str(place / "none"), "XDG_CONFIG_HOME": str(place), "XDG_DATA_HOME": str(place)}


def script(shell: str, name: str = "kubestow") -> str:
    result = CliRunner().invoke(cli.main, ["completion", shell], prog_name=name)
    assert result.exit_code == 0, result.stderr
    return result.stdout


def _in_bash(place: Path, line: str) -> list[str]:
    start = f"PS1='{_PROMPT}'\nbind 'set enable-bracketed-paste off'\nbind 'set bell-style none'\n{script('bash')}"
    (place / "start.bash").write_text(start, encoding="utf-8")
    return _typed(place, [_installed("bash"), "--noprofile", "--rcfile", "start.bash", "-i"], line)


def _in_zsh(place: Path, line: str) -> list[str]:
    start = f"PS1='{_PROMPT}' RPS1=\nunset zle_bracketed_paste\nautoload -Uz compinit && compinit -u -D\nbindkey -e\n{script('zsh')}"
    (place / ".zshrc").write_text(start, encoding="utf-8")
    return _typed(place, [_installed("zsh"), "-d", "-i"], line)


def _in_fish(place: Path, line: str) -> list[str]:
    """fish has a command for what TAB does; words are those of the last command of the line."""
    (place / "kubestow.fish").write_text(script("fish"), encoding="utf-8")
    command = [_installed("fish"), "--no-config", "-c", f"source kubestow.fish; complete -C {shlex.quote(line)}"]
    done = subprocess.run(command, cwd=place, env=_environment(place), capture_output=True, text=True, timeout=120, check=True)
    assert done.stderr == ""
    (value,) = {row.partition("\t")[0] for row in done.stdout.splitlines()}
    return [*shells.words_of(line.rpartition("&& ")[2])[:-1], value]


def _typed(place: Path, command: list[str], line: str) -> list[str]:
    """The words that the program is given when the line is typed on a terminal, completed by TAB, and run."""
    process, own = pty.fork()
    if not process:
        os.chdir(place)
        os.execve(command[0], command, _environment(place))
    try:
        shown = _until(own, _PROMPT)
        os.write(own, f"{line}\t\r".encode())
        shown = _until(own, r"<kubestow>[^\r\n]*>\r?\n")
    finally:
        os.close(own)  # hangs up
        os.waitpid(process, 0)
    return re.findall("<(.*?)>", shown[shown.rindex("<kubestow>") :])


def _until(terminal: int, pattern: str) -> str:
    """Return the screen up to here."""
    shown = b""
    while select.select([terminal], [], [], 60)[0]:
        try:
            part = os.read(terminal, 65536)
        except OSError:
            break
        shown += part
        if found := re.search(pattern, shown.decode(errors="replace")):
            return shown.decode(errors="replace")[: found.end()]
    raise AssertionError(shown.decode(errors="replace"))


@pytest.mark.full
@pytest.mark.parametrize("line", _TYPED)
@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_tab_completes(shell: str, line: str, place: Path) -> None:
    words = {"bash": _in_bash, "zsh": _in_zsh, "fish": _in_fish}[shell](place, line.replace("SNAPSHOT", "s.yaml"))
    assert words == [word.replace("SNAPSHOT", "s.yaml") for word in _TYPED[line]]


@pytest.mark.full
def test_kubectl_completes_the_plugin_by_its_program(place: Path) -> None:
    asked = [_installed("kubectl"), "__complete", PLUGIN.partition(" ")[2]]
    done = subprocess.run([*asked, "explain", "s.yaml", "--node", "a"], cwd=place, env=_environment(place), capture_output=True, text=True)
    if "kubectl_complete-stow" not in done.stderr:
        pytest.skip("this kubectl asks no plugins")
    assert done.stdout.splitlines() == ["a1", "a2", ":4"]
    _write(place / "bin" / "kubectl_complete-stow", script("kubectl"))  # as krew needs it, which links one program
    done = subprocess.run([*asked, "solve", "s.yaml", "--eng"], cwd=place, env=_environment(place), capture_output=True, text=True)
    assert done.stdout.splitlines() == ["--engine\tSearch engine.", ":4"]


@pytest.mark.full
def test_kubectl_runs_the_plugin(place: Path) -> None:
    command = [_installed("kubectl"), "stow", "nodes", "s.yaml", "--sort", "name"]
    done = subprocess.run(command, cwd=place, env=_environment(place), capture_output=True, text=True, check=True)
    assert done.stdout == "<kubectl-stow><nodes><s.yaml><--sort><name>\n"


# --- calls of each shell ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("items", "expected"),
    [
        ([CompletionItem("a", help="one\nline"), CompletionItem("b")], ["a\tone line", "b", ":4"]),
        ([CompletionItem("zone="), CompletionItem("pool=")], ["zone=", "pool=", ":6"]),
        ([CompletionItem("", type="file")], [":0"]),
        ([CompletionItem("", type="dir")], [":16"]),
        ([], [":4"]),
    ],
)
def test_kubectl_hears_directives_of_cobra(items: list[CompletionItem[str]], expected: list[str]) -> None:
    assert shells.rows("kubectl", items, "", "") == expected


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("kubestow solve ", ["kubestow", "solve", ""]),
        ("kubestow so", ["kubestow", "so"]),
        ("kubestow 'a b' \"c d", ["kubestow", "a b", "c d"]),
        ("kubestow a\\ b", ["kubestow", "a b"]),
        ("", [""]),
    ],
)
def test_lines_are_cut_into_words_as_shells_do(line: str, words: list[str]) -> None:
    assert shells.words_of(line) == words


@pytest.mark.parametrize(("word", "given", "value"), [("2:n", "n", "n1"), ("2:", "", "n1"), ("2:n", "2:n", "2:n1")])
def test_bash_is_given_what_it_takes_for_the_word(word: str, given: str, value: str) -> None:
    assert shells.rows("bash", [CompletionItem("2:n1")], word, given) == [f"plain\t{value}\t"]


@pytest.mark.parametrize("line", ["kubestow explain broken --node ", "kubestow nosuch --x ", 'kubestow "', "kubestow --", "\x00"])
def test_nothing_is_ever_said_on_standard_error(line: str, place: Path) -> None:
    environment = {**_environment(place), "_KUBESTOW_COMPLETE": "bash", "COMP_LINE": line.replace("\x00", "\ufffd")}
    done = subprocess.run([place / "bin" / "kubestow"], cwd=place, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.full
def test_a_shell_does_not_wait_for_long(place: Path) -> None:
    """A large file in YAML, and very little time."""
    pod = "kind: Pod\nmetadata: {name: p, namespace: shop}\nspec: {containers: [{name: a, image: b}, {name: c, image: d}]}\n---\n"
    (place / "large.yaml").write_text(pod * 50_000, encoding="utf-8")
    busy = "a._MAX_CPU_SECONDS = 0.2; a.answer(cli.main, 'kubestow', 'fish')"
    code = f"from kubestow import cli; from kubestow.commands.completion import answer as a; {busy}"
    environment = {**_environment(place), "COMP_LINE": "kubestow explain large.yaml --pod "}
    done = subprocess.run([sys.executable, "-c", code], cwd=place, env=environment, capture_output=True, timeout=120)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_the_script_of_the_plugin_is_for_its_own_program() -> None:
    assert "complete -o nosort -F _kubectl_stow_complete kubectl-stow" in script("bash", PLUGIN)
    assert script("kubectl") == script("kubectl", PLUGIN)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish", "kubectl"])
def test_scripts_are_sound(shell: str, tmp_path: Path) -> None:
    checker = _installed({"kubectl": "sh"}.get(shell, shell))
    path = tmp_path / "script"
    path.write_text(script(shell), encoding="utf-8")
    done = subprocess.run([checker, "-n", str(path)], capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
