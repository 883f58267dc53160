# Completions of regatta: `source <(regatta completions bash)` in ~/.bashrc.
_regatta() {
    local IFS=$'\013' words=() word
    local is_new=false
    [[ ${COMP_LINE:COMP_POINT-1:1} == [[:space:]] ]] && is_new=true
    # Bash breaks words at "=": put them together again.
    local at=0
    for word in "${COMP_WORDS[@]:0:COMP_CWORD+1}"; do
        if [[ $at -gt 0 && ! ( $at -eq $COMP_CWORD && $is_new == true ) && ( $word == = || ${words[-1]} == *= ) ]]; then
            words[-1]+=$word
        else
            words+=("$word")
        fi
        at=$((at + 1))
    done
    local current=${words[-1]}
    COMPREPLY=( $(_CLAP_IFS="$IFS" _CLAP_COMPLETE_INDEX=$((${#words[@]} - 1)) REGATTA_COMPLETE=bash regatta -- "${words[@]}") )
    # What bash replaces is only what stands behind the last "=".
    if [[ $current == *=* && $COMP_WORDBREAKS == *=* ]]; then
        local front=${current%"${current##*=}"}
        COMPREPLY=("${COMPREPLY[@]#"$front"}")
    fi
    [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == *[=/] ]] && compopt -o nospace
    return 0
}
complete -o bashdefault -F _regatta regatta
