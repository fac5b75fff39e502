# Bash completion for memsync. Users and agents are not completed: that would ask the agent.
# shellcheck shell=bash

_memsync()
{
    local commands="search list get memory summaries export context status scopes refresh verify
        events ping capabilities backends doctor version help"
    local common="-e --endpoint --json --timeout --color -h --help -V --version"
    local scope="-u --user --no-user -a --agent"
    local freshness="--freshness --max-staleness"
    local word command="" options="" i
    local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD - 1]}

    COMPREPLY=()
    case $previous in
    --color)
        mapfile -t COMPREPLY < <(compgen -W "auto always never" -- "$current")
        return
        ;;
    --freshness)
        mapfile -t COMPREPLY < <(compgen -W "strict bounded local" -- "$current")
        return
        ;;
    -u | --user | -a | --agent | -e | --endpoint | --timeout | -k | --top-k | -c | --category | \
        --max-staleness | --count | --limit | --offset | --interval)
        return
        ;;
    esac

    # The command is the first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        -u | --user | -a | --agent | -e | --endpoint | --timeout | --color | -k | --top-k | -c | \
            --category | --freshness | --max-staleness | --count | --limit | --offset | --interval)
            ((i++))
            ;;
        -*) ;;
        *)
            command=$word
            break
            ;;
        esac
    done

    case $command in
    search) options="$scope $freshness -k --top-k -c --category" ;;
    list) options="$scope $freshness -c --category --limit --offset" ;;
    get | memory | summaries | export) options="$scope $freshness" ;;
    context | verify) options="$scope" ;;
    status) options="--watch --interval" ;;
    scopes) options="-u --user --no-user" ;;
    refresh) options="$scope --full --all --accept-volume" ;;
    events) options="$scope --count" ;;
    "") options="$scope" ;;
    esac

    if [[ $current == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$options $common" -- "$current")
    elif [[ -z $command || $command == help ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$commands" -- "$current")
    elif [[ $command == doctor ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -d -- "$current")
    fi
}

complete -F _memsync memsync
