# Completion of riptide's commands and flags, for bash and (through bashcompinit) zsh:
#     source riptide.bash
# Both are read from `--help`, so that they are those of the program that is called.
if [ -n "${ZSH_VERSION-}" ]; then
    autoload -U +X bashcompinit && bashcompinit
fi

_riptide() {
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} program=${COMP_WORDS[0]} list
    COMPREPLY=()
    if [ "$COMP_CWORD" -eq 1 ]; then
        list=$("$program" --help 2>/dev/null | sed -n 's/^  \([a-z][a-z-]*\) .*/\1/p')
        COMPREPLY=($(compgen -W "$list --help --version" -- "$word"))
        return
    fi
    case $before in
    --model | --draft-model | --messages | --ids-file | --out | --response-store | --json-schema | --grammar)
        COMPREPLY=($(compgen -f -- "$word"))
        return
        ;;
    esac
    # The words between "|" behind a flag are what it takes.
    list=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null |
        sed -n "s/^  $before \([a-z0-9_|-]*|[a-z0-9_|-]*\) .*/\1/p" | tr '|' ' ')
    if [ -n "$list" ]; then
        COMPREPLY=($(compgen -W "$list" -- "$word"))
    elif [ "${word#-}" != "$word" ]; then
        list=$("$program" "${COMP_WORDS[1]}" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
        COMPREPLY=($(compgen -W "$list" -- "$word"))
    fi
}
complete -o default -F _riptide riptide
