#!/usr/bin/env bash
# tools/test.sh [STAGE...]: what `make test` runs, stage by stage, each with its time. Without an argument: all but
# `models` and `clients`. Every stage runs even when an earlier one failed; the exit code is 0 only when all passed.
# Once the packages, the virtual environment and the default model are there, nothing here uses the network.
set -uo pipefail
cd "$(dirname "$0")/.."

build=${BUILD:-build}
jobs=$(nproc)
logs=$build/test-logs
export HEADWAY_SHARED=${HEADWAY_SHARED:-$PWD/../shared}
stages=("$@")
[ ${#stages[@]} -gt 0 ] || stages=(tidy unit tsan asan arm64 fuzz e2e)

run_make() { make --no-print-directory "$@"; }

# A virtual environment is made again only when the list of packages in it changed.
venv() { # venv NAME REQUIREMENTS
    local folder=$build/venv-$1 list=$2
    if ! cmp -s "$list" "$folder/.installed"; then
        rm -rf "$folder"
        python3 -m venv "$folder" || return 1
        "$folder/bin/python" -m pip install -q --disable-pip-version-check -r "$list" || return 1
        cp "$list" "$folder/.installed"
    fi
}

# What comes over the network is fetched beside the first stages; who needs it waits. Without a network the unit tests
# that need the model are skipped, and the end-to-end stage says what is missing.
fetching=
fetch() { tools/fetch_model.sh >/dev/null && { [[ " ${stages[*]} " != *" e2e "* ]] || venv_e2e; }; }
await_fetch() {
    [ -n "$fetching" ] || return 0
    wait "$fetching" || tail -n 3 "$logs/fetch.log"
    fetching=
}
venv_e2e() { venv e2e tests/e2e/requirements.txt; }

stage_tidy() { python3 tools/tidy_test.py && python3 tools/run_units_test.py && run_make tidy; }
stage_unit() { run_make -j"$jobs" unit-build && { await_fetch; run_make unit; }; }
stage_asan() { run_make -j"$jobs" asan; }
stage_tsan() { run_make -j"$jobs" tsan; }
stage_arm64() { tools/test_arm64.sh; }
stage_fuzz() { run_make -j"$jobs" fuzz FUZZ_SECONDS="${FUZZ_SECONDS:-5}"; }

e2e() { # e2e PYTEST-ARGUMENTS...
    await_fetch
    run_make -j"$jobs" all && tools/fetch_model.sh >/dev/null && venv_e2e &&
        "$build/venv-e2e/bin/python" -m pytest -q -p no:cacheprovider "$@"
}
stage_e2e() {
    if [ -z "$(find tests/e2e -name 'test_*.py' -print -quit 2>/dev/null)" ]; then
        echo "no tests under tests/e2e"
        return 0
    fi
    # Two at once, for they mostly wait; then the ones that assert on time, with the machine to themselves.
    local failed=0
    e2e -n 2 --dist worksteal --durations=10 -m 'not models and not clients and not alone' tests/e2e || failed=1
    e2e -m 'alone and not models and not clients' tests/e2e || failed=1
    return $failed
}
stage_models() {
    HEADWAY_GEMMA3=$(tools/fetch_model.sh gemma3) && HEADWAY_QWEN25=$(tools/fetch_model.sh qwen2.5) || return 1
    export HEADWAY_GEMMA3 HEADWAY_QWEN25
    e2e -m models tests/e2e
}
stage_bench-venv() { tools/packages.sh bench && CMAKE_ARGS=-DGGML_NATIVE=ON venv bench tools/bench_requirements.txt; }
# The agents among them may be impossible to install somewhere: then their tests are skipped, and say so.
client_venv() { # client_venv NAME: HEADWAY_NAME_PYTHON is its Python
    local upper=${1^^}
    venv "$1" "tests/e2e/requirements-$1.txt" && export "HEADWAY_${upper//-/_}_PYTHON=$PWD/$build/venv-$1/bin/python"
}
stage_clients() {
    local name
    for name in llm litellm router ollama; do client_venv "$name" || return 1; done
    for name in openai-agents pydantic-ai aider; do
        client_venv "$name" || echo "clients: $name cannot be installed here, its tests are skipped"
    done
    e2e -m clients -rs tests/e2e
}

tools/packages.sh build || exit 1
[ "${stages[*]}" = bench-venv ] || tools/packages.sh test || exit 1
mkdir -p "$logs"
case " ${stages[*]} " in
    *" unit "* | *" e2e "*) fetch >"$logs/fetch.log" 2>&1 & fetching=$!
        trap '[ -z "$fetching" ] || kill "$fetching"' EXIT ;;
esac
failed=() passed=0
for stage in "${stages[@]}"; do
    declare -F "stage_$stage" >/dev/null || { echo "test: no stage '$stage'" >&2; exit 2; }
    started=$SECONDS
    echo "==== $stage"
    if "stage_$stage" </dev/null > >(tee "$logs/$stage.log") 2>&1; then
        passed=$((passed + 1))
        echo "==== $stage: passed in $((SECONDS - started)) s"
    else
        failed+=("$stage")
        echo "==== $stage: FAILED after $((SECONDS - started)) s"
    fi
done
[ ${#failed[@]} -eq 0 ] || echo "failed stages: ${failed[*]}"
echo "$passed passed, ${#failed[@]} failed"
[ ${#failed[@]} -eq 0 ]
