# bash completion of headway. Commands and flags are read from the program's own help, so they are always those it has.
_headway()
{
    local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]} command=${COMP_WORDS[1]} words=
    COMPREPLY=()
    if [ "$COMP_CWORD" = 1 ]; then
        words="$(headway --help 2>/dev/null | sed -nE 's/^  ([a-z-]+) .*/\1/p' | grep -v headway) --help --version"
    elif [ "$COMP_CWORD" = 2 ] && [[ $command =~ ^(bench|simulate)$ ]] && [[ $word != -* ]]; then
        words='agents documents mixed trace'
    else
        [[ $command =~ ^(bench|simulate)$ ]] &&
            case ${COMP_WORDS[2]} in [amdt]*) command="$command ${COMP_WORDS[2]}" ;; esac
        case $before in
            --ignore-eos | --keep) words='on off' ;;
            --json | --html) ;;
            --key | --doc-key | --seed | --scale | --duration | --requests | --agents | --workers | --rate | --speed | \
                --ttft-ms | --tier) return ;;
            --policy) words='prefill-first decode-first chunked gate cadence' ;;
            --router) words='round-robin least-loaded prefix' ;;
            --cache) words='on off' ;;
            --boxes | --split | --link | --document-output | --prompt-tokens | --output-tokens | --think-s | --step-gb | \
                --fit-* | --sweep | --by | --devices) return ;;
            --gap-ms) words='auto' ;;
            --runner) words='model sim script:' ;;
            --kv) words='f16 bf16 q8 q4' ;;
            --format) words='gguf hf mlx' ;;
            --type) words='f32 f16 bf16 q8_0 q4_0 mxfp8 mxfp4 affine4' ;;
            --list) words='hardware models' ;;
            --hardware | --compare) words=$(headway plan --list hardware 2>/dev/null | sed -nE '2,$s/^([a-z0-9.-]+)  +.*/\1/p') ;;
            --bandwidth | --flops | --memory | --watts | --devices | --link | --batch | --step-gb | --prompt | --cached | \
                --prefill-tok-s | --overhead | --document | --ssd | --sessions | --session-tokens | --read-ratio | --draft | \
                --accept) return ;;
            --import) ;;
            --tokenizer | --out | --model | --template | --chat-template | --config | --curves | --cache-disk | \
                --batch-dir) ;;
            --url | --host | --port | --threads | --ctx | --parallel | --kv-memory | --cache-ram | --cache-sessions | \
                --cache-session-tokens | --cache-disk-size | --cache-redis | --cache-ttl | --reuse | --api-key | \
                --batch-dir-size | --forward-batch | --forward-batch-key | --chat-share | --chunk | \
                --window-ms | --document-tokens) return ;;
            *) words=$(headway $command --help 2>/dev/null | sed -nE 's/^  (--[a-z-]+).*/\1/p') ;;
        esac
    fi
    [[ $word == -* || -n $words ]] && mapfile -t COMPREPLY < <(compgen -W "$words" -- "$word")
    [[ $COMP_CWORD -gt 1 && $word != -* ]] && mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "$word")
    return 0
}
complete -o filenames -F _headway headway
