# Bash completion for memsync. Users and agents are not completed: that would ask the agent.
# shellcheck shell=bash

_memsync()
{
    local commands="search list get memory summaries add update delete export import clear migrate
        context status scopes refresh verify events ping capabilities backends doctor version help"
    local common="-e --endpoint --json --timeout --color -h --help -V --version"
    local scope="-u --user --no-user -a --agent"
    local freshness="--freshness --max-staleness"
    local fact="-c --category --confidence --topic --source-error"
    local sections="user.workContext= user.personalContext= user.topOfMind= history.recentMonths=
        history.earlierContext= history.longTermBackground="
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
    -o | --output | --set-file)
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
        return
        ;;
    --set)
        compopt -o nospace 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -W "$sections" -- "$current")
        return
        ;;
    --source)
        mapfile -t COMPREPLY < <(compgen -W "manual consolidation import unknown" -- "$current")
        return
        ;;
    -u | --user | -a | --agent | -e | --endpoint | --timeout | -k | --top-k | -c | --category | \
        --max-staleness | --count | --limit | --offset | --interval | --content | --confidence | \
        --topic | --source-error | --expect-revision)
        return
        ;;
    esac

    # The command is the first word that is neither an option nor an option's value.
    for ((i = 1; i < COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        case $word in
        -u | --user | -a | --agent | -e | --endpoint | --timeout | --color | -k | --top-k | -c | \
            --category | --freshness | --max-staleness | --count | --limit | --offset | \
            --interval | -o | --output | --set-file | --set | --source | --content | \
            --confidence | --topic | --source-error | --expect-revision)
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
    get | memory) options="$scope $freshness" ;;
    summaries) options="$scope $freshness --set --set-file --expect-revision" ;;
    add) options="$scope $fact --source" ;;
    update) options="$scope $fact --content --expect-revision" ;;
    delete) options="$scope -y --yes --expect-revision" ;;
    export) options="$scope $freshness -o --output" ;;
    import) options="$scope -y --yes --dry-run --expect-revision" ;;
    clear) options="$scope --all -y --yes --erase --expect-revision" ;;
    context | verify | migrate) options="$scope" ;;
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
    elif [[ $command == import ]]; then
        compopt -o filenames 2>/dev/null
        mapfile -t COMPREPLY < <(compgen -f -- "$current")
    fi
}

complete -F _memsync memsync
