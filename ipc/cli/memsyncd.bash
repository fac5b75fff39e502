# Bash completion for memsyncd.
# shellcheck shell=bash

_memsyncd()
{
    local options="--config --volume --index --endpoint --log-level --check-config --print-config
        --print-sample-config -V --version -h --help"
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}

    COMPREPLY=()
    case $previous in
    --config)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        ;;
    --volume | --index)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
        ;;
    --log-level)
        mapfile -t COMPREPLY < <(compgen -W "error warning notice info debug" -- "$current")
        ;;
    --endpoint) ;;
    *)
        mapfile -t COMPREPLY < <(compgen -W "$options" -- "$current")
        ;;
    esac
}

complete -F _memsyncd memsyncd
