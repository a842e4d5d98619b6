# bash completion of zf-tune, which says what may follow: see tuner/commands/completions.hpp.
_zf_tune() {
  local line typed=${COMP_WORDS[COMP_CWORD]}
  COMPREPLY=()
  while IFS= read -r line; do COMPREPLY+=("${line%%$'\t'*}"); done \
    < <(zf-tune --complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
  [[ ${COMPREPLY[0]-} != / ]] || mapfile -t COMPREPLY < <(compgen -f -- "$typed")
}
complete -o filenames -F _zf_tune zf-tune
