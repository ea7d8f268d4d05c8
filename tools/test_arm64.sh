#!/usr/bin/env bash
# tools/test_arm64.sh: the unit tests of the tensor room, cross-compiled for 64-bit ARM and run under qemu-user.
# Only rooms without library dependencies are built (base, tensor); tests/arm64/cmocka.h stands in for the package,
# which does not exist for a foreign architecture without more package sources.
set -euo pipefail
cd "$(dirname "$0")/.."

export HEADWAY_SLOW=1 ATTEND_SCHEDULES=${ATTEND_SCHEDULES:-4} # all of each kind runs in `make unit`
exec make --no-print-directory -j"$(nproc)" BUILD="${BUILD:-build}/arm64" CC="${CROSS:-aarch64-linux-gnu-gcc}" PKGS= \
    LIB_ROOMS="base tensor" UNIT_ROOMS=tensor CMOCKA_LIBS= LDFLAGS=-static TEST_EXTRA=-Itests/arm64 \
    UNDER="${QEMU:-qemu-aarch64}" unit
