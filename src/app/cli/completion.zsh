#compdef regatta
# Completions of regatta: `source <(regatta completions zsh)` in ~/.zshrc, behind compinit.
_regatta() {
    local -a offered open other
    local one
    offered=("${(@f)$(_CLAP_IFS=$'\n' _CLAP_COMPLETE_INDEX=$((CURRENT - 1)) REGATTA_COMPLETE=zsh regatta -- "${words[@]}" 2>/dev/null)}")
    for one in $offered; do
        # A value, or a name in the folder, follows without a blank.
        if [[ ${one%%:*} == *[=/] ]]; then open+=("$one"); else other+=("$one"); fi
    done
    [[ -n $open ]] && _describe -V 'settings' open -S ''
    [[ -n $other ]] && _describe -V 'values' other
}
compdef _regatta regatta
