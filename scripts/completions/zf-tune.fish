# fish completion of zf-tune, which says what may follow: see tuner/commands/completions.hpp.
function __zf_tune_complete
    set -l words (commandline -opc)
    set -l found (zf-tune --complete $words[2..-1] (commandline -ct) 2>/dev/null)
    if test "$found[1]" = /
        __fish_complete_path (commandline -ct)
    else
        printf '%s\n' $found
    end
end
complete -c zf-tune -f -a '(__zf_tune_complete)'
