"""Completion scripts of the shells, and the output format for each.

A script runs the program with ``_KUBESTOW_COMPLETE=SHELL`` and the line up to the cursor. It reads one line for each candidate: ``plain``,
``file``, ``dir`` or ``nospace`` (no space after the word), then the word and its description, separated by tabs. kubectl passes words, and
reads the format of cobra: https://github.com/spf13/cobra/blob/main/site/content/completions/_index.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from click.shell_completion import CompletionItem, split_arg_string

#: Environment variable that requests completion.
VARIABLE: Final = "_KUBESTOW_COMPLETE"
SHELLS: Final = ("bash", "zsh", "fish")

_BASH: Final = """\
_NAME_complete() {
    local IFS=$'\\t' program=${1/#\\~/$HOME} type value rest
    COMPREPLY=()
    while read -r type value rest; do
        case $type in
            plain) COMPREPLY+=("$value") ;;
            nospace) compopt -o nospace 2> /dev/null ;;
            file) compopt -o default 2> /dev/null ;;
            dir) compopt -o dirnames 2> /dev/null ;;
        esac
    done < <(VARIABLE=bash COMP_LINE="${COMP_LINE:0:COMP_POINT}" COMP_WORD="$2" "$program" 2> /dev/null)
}
complete -o nosort -F _NAME_complete PROGRAM 2> /dev/null || complete -F _NAME_complete PROGRAM
"""

_ZSH: Final = """\
#compdef PROGRAM
_NAME_complete() {
    local type value help
    local -a values shown files space
    while IFS=$'\\t' read -r type value help; do
        case $type in
            plain)
                values+=("$value")
                shown+=("$value${help:+  -- $help}")
                ;;
            nospace) space=(-S '') ;;
            file) files=(_files) ;;
            dir) files=(_files -/) ;;
        esac
    done < <(VARIABLE=zsh COMP_LINE="${(j: :)words[1,CURRENT-1]} $PREFIX" ${(Q)words[1]/#\\~/$HOME} 2> /dev/null)
    if (( $#values )); then
        compadd -l -V PROGRAM $space -d shown -a values
    elif (( $#files )); then
        compset -P '--*='
        $files
    fi
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _NAME_complete "$@"
else
    compdef _NAME_complete PROGRAM
fi
"""

_FISH: Final = """\
function __NAME_complete
    set -l line (commandline --current-process --cut-at-cursor | string collect)
    set -l program (string replace -r '^~' $HOME -- (commandline --current-process --tokenize)[1])
    set -l word (commandline --current-token --cut-at-cursor | string replace -r '^--[a-z-]+=' '' | string trim --left --chars '"\\'')
    env VARIABLE=fish COMP_LINE="$line" $program 2> /dev/null | while read -l each
        set -l part (string split -m 2 \\t -- $each)
        switch $part[1]
            case plain
                printf '%s\\t%s\\n' $part[2] "$part[3]"
            case file
                __fish_complete_path $word
            case dir
                __fish_complete_directories $word ''
        end
    end
end
complete --command PROGRAM --no-files --arguments '(__NAME_complete)'
"""

_KUBECTL: Final = """\
#!/bin/sh
# kubectl asks this program when `kubectl stow` is completed.
VARIABLE=kubectl exec PROGRAM "$@"
"""

_SCRIPTS: Final = {"bash": _BASH, "zsh": _ZSH, "fish": _FISH, "kubectl": _KUBECTL}

#: Values of cobra's ShellCompDirective.
_NO_SPACE, _NO_FILES, _DIRECTORIES = 2, 4, 16


def source(shell: str, program: str) -> str:
    """Return a shell's script for a program."""
    name = program.replace("-", "_")
    return _SCRIPTS[shell].replace("VARIABLE", VARIABLE).replace("PROGRAM", program).replace("NAME", name)


def words_of(line: str) -> list[str]:
    """Split a line into words without quotes. The last one, which may be empty, is to be completed."""
    mark = "\x00"  # marks the end of the last word, even if it is empty
    words = split_arg_string(line + mark)
    return [*words[:-1], words[-1].removesuffix(mark)] if words and words[-1].endswith(mark) else [*words, ""]


def rows(shell: str, items: Sequence[CompletionItem[str]], word: str, given: str) -> list[str]:
    """Return the output lines for a shell.

    Args:
        shell: Name of the shell.
        items: The candidates.
        word: The word to complete, including ``--option=``.
        given: The word as bash sees it, which begins after the last ``=`` or ``:``.
    """
    plain = [item for item in items if item.type == "plain"]
    open_ended = bool(plain) and all(item.value.endswith(("=", ":", "@", "/", ",")) for item in plain)
    if shell == "kubectl":
        kinds = {item.type for item in items}
        directive = _DIRECTORIES if kinds == {"dir"} else 0 if "file" in kinds else _NO_FILES | (_NO_SPACE if open_ended else 0)
        return [*("\t".join(filter(None, (item.value, _line(item.help)))) for item in plain), f":{directive}"]
    before = word.partition("=")[0] + "=" if word.startswith("--") and "=" in word else ""
    skipped = len(word) - len(given) if shell == "bash" and word.endswith(given) else 0
    found = ["nospace"] if open_ended else []
    for item in items:
        value = f"{before}{item.value}"[skipped:] if item.type == "plain" else ""
        found.append("\t".join((item.type, value, _line(item.help))))
    return found


def _line(text: str | None) -> str:
    return " ".join((text or "").split())
