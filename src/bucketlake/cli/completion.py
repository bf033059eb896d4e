"""What the shell offers for a line that is being typed: commands, options, names of tables.

The shell's own function (SCRIPTS) calls `bucketlake` with the line in its environment; of the commands only the family
that the line names is loaded. Answers are lines: a value, for zsh and fish a tab and what it means behind it. What
nothing is known of (names of files, say) is left to the shell.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from bucketlake.lazy import lazy

if TYPE_CHECKING:
    from click import shell_completion

    from bucketlake.cli.grammar import Group
else:
    shell_completion = lazy("click.shell_completion")

__all__ = ["SCRIPTS", "VARIABLE", "answer"]

VARIABLE = "_BUCKETLAKE_COMPLETE"
SCRIPTS = {
    "bash": """_bucketlake_completion() {
    local IFS=$'\\n'
    COMPREPLY=( $( env COMP_WORDS="${COMP_WORDS[*]}" COMP_CWORD=$COMP_CWORD \\
        _BUCKETLAKE_COMPLETE=bash "$1" 2>/dev/null ) )
    case "${COMPREPLY[0]}" in *.) compopt -o nospace ;; esac
    return 0
}
complete -o default -F _bucketlake_completion bucketlake""",
    "zsh": """#compdef bucketlake
_bucketlake_completion() {
    local tab=$'\\t'
    local -a told values about
    told=(${(f)"$(env COMP_WORDS="${(pj:\\n:)words}" COMP_CWORD=$((CURRENT-1)) \\
        _BUCKETLAKE_COMPLETE=zsh bucketlake 2>/dev/null)"})
    if (( ! ${#told} )); then _files; return; fi
    values=(${told%%${tab}*})
    about=(${told/${tab}/  -- })
    if [[ "${values[1]}" == *. ]]; then compadd -l -d about -S '' -a values; else compadd -l -d about -a values; fi
}
compdef _bucketlake_completion bucketlake""",
    "fish": """function __bucketlake_completion
    set -l told (env COMP_WORDS=(string join \\n -- (commandline -opc) (commandline -ct) | string collect) \\
        COMP_CWORD=(count (commandline -opc)) _BUCKETLAKE_COMPLETE=fish bucketlake 2>/dev/null)
    if test (count $told) -gt 0
        printf '%s\\n' $told
    else
        __fish_complete_path (commandline -ct)
    end
end
complete --command bucketlake --no-files --arguments '(__bucketlake_completion)'""",
}


def answer(build: Callable[[Sequence[str]], Group], program: str, environment: Mapping[str, str] = os.environ) -> int:
    """Print what continues the line that the environment holds; the exit status."""
    shell = environment[VARIABLE]
    if shell not in SCRIPTS:
        return 1
    words = environment.get("COMP_WORDS", "").split("\n")
    place = environment.get("COMP_CWORD", "")
    if not place.isdecimal():
        return 1
    before, begun = words[1 : int(place)], "".join(words[int(place) : int(place) + 1])
    before = [one for word in before for one in shell_completion.split_arg_string(word)]
    found = shell_completion.ShellComplete(build(before), {}, program, VARIABLE).get_completions(before, begun)
    for one in found:
        about = " ".join((one.help or "").split())
        print(one.value if shell == "bash" or not about else f"{one.value}\t{about}")
    return 0
