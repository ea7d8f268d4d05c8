#!/usr/bin/env bash
# tools/test_arm64.sh: the unit tests of the tensor room, cross-compiled for 64-bit ARM and run under qemu-user.
# Only rooms without library dependencies are built (base, tensor); tests/arm64/cmocka.h stands in for the package,
# which does not exist for a foreign architecture without more package sources.
set -euo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}/arm64
cross=${CROSS:-aarch64-linux-gnu-gcc}
qemu=${QEMU:-qemu-aarch64}
mapfile -t tests < <(find tests/unit/tensor -name '*_test.c' 2>/dev/null | LC_ALL=C sort)
[ ${#tests[@]} -gt 0 ] || { echo "arm64: no tests under tests/unit/tensor"; exit 0; }

make --no-print-directory -j"$(nproc)" BUILD="$build" CC="$cross" PKGS= LIB_ROOMS="base tensor" lib
export ATTEND_SCHEDULES=${ATTEND_SCHEDULES:-4} # an emulator is slow; the full number runs in `make unit`
failed=0
for source in "${tests[@]}"; do
    program=$build/$(basename "$source" .c)
    "$cross" -std=gnu17 -O2 -g -Wall -Wextra -fno-math-errno -ffp-contract=off -pthread -static \
        -Isrc -Itests -Itests/arm64 -o "$program" "$source" "$build/libheadway.a" -lm -pthread
    echo "RUN $program (qemu)"
    "$qemu" "$program" || failed=$((failed + 1))
done
[ $failed = 0 ] || { echo "arm64: $failed programs failed"; exit 1; }
