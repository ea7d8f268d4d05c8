# fish completion of headway. Commands and flags are read from the program's own help.
function __headway_commands
    headway --help 2>/dev/null | string match -r '^  [a-z-]+ .*' | string replace -r '^  (\S+)\s+(.*)' '$1\t$2' | string match -v 'headway*'
end
function __headway_flags
    set -l words (commandline -opc)
    set -l command $words[2]
    if contains -- "$command" bench simulate; and contains -- "$words[3]" agents documents mixed trace
        set command $command $words[3]
    end
    headway $command --help 2>/dev/null | string match -r '^  --.*' | string replace -r '^  (--[a-z-]+)( \S+)?  +(.*)' '$1\t$3'
end
complete -c headway -n 'test (count (commandline -opc)) = 1' -f -a '(__headway_commands)'
complete -c headway -n 'test (count (commandline -opc)) -gt 1' -a '(__headway_flags)'
complete -c headway -n '__fish_seen_subcommand_from bench simulate; and test (count (commandline -opc)) = 2' -a 'agents documents mixed trace'
