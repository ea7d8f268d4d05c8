# Unit tests: every tests/unit/ROOM/NAME_test.c is one cmocka program linked with the library. UNIT_ROOMS="tensor kv":
# only those rooms.
UNIT_SOURCES := $(shell find $(if $(UNIT_ROOMS),$(UNIT_ROOMS:%=tests/unit/%),tests/unit) -name '*_test.c' \
    2>/dev/null | LC_ALL=C sort)
UNIT_BINS := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/unit/%)
# Tests join string literals in tables; clang takes that for a forgotten comma.
TEST_FLAGS = -Itests $(TEST_EXTRA) -Wno-string-concatenation -Wno-string-plus-int -Wno-unused-function
CMOCKA_LIBS := $(shell pkg-config --libs cmocka 2>/dev/null)
COMMAND_OBJECTS := $(filter-out $(BUILD)/obj/cli/main.o,$(CLI_OBJECTS))

$(BUILD)/unit/%: tests/unit/%.c $(BUILD)/libheadway.a $(BUILD)/flags
	@mkdir -p $(@D); echo "TEST-CC $<"; \
	$(CC) $(ALL_CFLAGS) $(TEST_FLAGS) -o $@ $< $(BUILD)/libheadway.a $(LDFLAGS) $(CMOCKA_LIBS) $(LIBS)

# Tests of the commands need the objects of src/cli too (all but main).
$(BUILD)/libcommands.a: $(COMMAND_OBJECTS) $(BUILD)/files
	@echo "AR $@"; rm -f $@; ar rcs $@ $(COMMAND_OBJECTS)

$(BUILD)/unit/cli/%: tests/unit/cli/%.c $(BUILD)/libheadway.a $(BUILD)/libcommands.a $(BUILD)/flags
	@mkdir -p $(@D); echo "TEST-CC $<"; \
	$(CC) $(ALL_CFLAGS) $(TEST_FLAGS) -o $@ $< $(BUILD)/libcommands.a $(BUILD)/libheadway.a $(LDFLAGS) $(CMOCKA_LIBS) \
	    $(LIBS)

-include $(UNIT_BINS:=.d)

.PHONY: unit unit-build test test-models test-clients test-arm64 asan tsan tidy bench
unit-build: $(UNIT_BINS)

# As many at once as there are cores. The longest begin first, so that none is left over at the end; what needs the
# machine for itself comes after the others.
UNIT_FIRST := tensor/matmul_test model/same_bits_test runner/restore_test tensor/experts_test text/tokenizer_test \
    tensor/attend_test kv/disk_crash_test kv/redis_test
UNIT_ALONE :=
longest_first = $(foreach t,$(UNIT_FIRST:%=$(BUILD)/unit/%),$(filter $t,$1)) \
    $(filter-out $(UNIT_FIRST:%=$(BUILD)/unit/%),$1)
chosen = $(if $(UNIT),$(foreach t,$1,$(if $(findstring $(UNIT),$t),$t)),$1)
run_units = python3 tools/run_units.py --jobs $(JOBS) $(UNIT_ALONE:%=--alone %) $(if $(UNDER),--under $(UNDER)) \
    $(call longest_first,$(call chosen,$1))

unit: $(call chosen,$(UNIT_BINS)) # the unit tests; UNIT=text builds and runs those whose path holds "text"
	@$(call run_units,$(UNIT_BINS))

# One build under the address and undefined-behaviour sanitizers serves the unit tests and the fuzz targets. The
# unrolled vector kernels go without the second, and the products among them call the first's checks instead of having
# them inline: either way their pointer arithmetic costs the compiler minutes, and the tables' tests are exact anyway.
# Of debug information, line numbers are what a report needs.
SANITIZED = $(MAKE) --no-print-directory BUILD=$(BUILD)/asan CC=clang CFLAGS="-O1 -g1" KERNEL_OPT=-O1 \
    VECTOR_OPT=-fno-sanitize=undefined MATMUL_OPT=-fsanitize-address-outline-instrumentation \
    EXTRA="-fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all -fno-omit-frame-pointer" \
    LDFLAGS="-fsanitize=address,undefined"
# The sanitized programs do not see the model cache: what needs the default model runs in `make unit`, at full speed;
# so do all the schedules and the published tokenizers besides the first.
asan: # the unit tests under the address and undefined-behaviour sanitizers
	+@XDG_CACHE_HOME=$(abspath $(BUILD))/no-cache HEADWAY_SLOW=1 ATTEND_SCHEDULES=4 HEADWAY_SCHEDULES=10 \
	    TOKENIZER_FILES=1 $(SANITIZED) unit

tsan: # the unit tests that use threads, under the thread sanitizer
	@XDG_CACHE_HOME=$(abspath $(BUILD))/no-cache HEADWAY_SLOW=1 ATTEND_SCHEDULES=4 \
	    $(MAKE) --no-print-directory BUILD=$(BUILD)/tsan CC=clang CFLAGS="-O1 -g1" KERNEL_OPT=-O1 \
	    EXTRA="-fsanitize=thread" LDFLAGS="-fsanitize=thread" unit-threads

# Programs that start threads; the model's are left out, their threads are those of the tensor tests. So are those
# that have no thread, only a fixture: of tokenizers and grammars.
NO_THREADS := tests/unit/model/% tests/unit/text/tokenizer_test.c tests/unit/text/schema_groups_test.c \
    tests/unit/cli/gguf_vocab_test.c tests/unit/cli/token_masks_test.c
UNIT_THREADS := $(filter-out $(NO_THREADS),$(shell \
    grep -lE 'pthread_create|pool_create|cpu_backend_open|_fixture\.h|_world\.h|engine_start|server_' \
        $(UNIT_SOURCES) /dev/null))
THREAD_BINS := $(UNIT_THREADS:tests/unit/%.c=$(BUILD)/unit/%)
.PHONY: unit-threads
unit-threads: $(call chosen,$(THREAD_BINS))
	@$(call run_units,$(THREAD_BINS))

test: # everything that a change must pass; installs what it needs; no network once that and the model are there
	@tools/test.sh

test-models: # the end-to-end tests that need the two larger models (downloads 0.7 GB once)
	@tools/test.sh models

test-clients: # the client libraries, a virtual environment each
	@tools/test.sh clients

test-arm64: # the tensor tests, cross-compiled, under qemu
	@tools/test.sh arm64

tidy: # the house rules: include arrows, lengths, format, banned calls
	@python3 tools/tidy.py

# llama.cpp is built from source here, so that it is as native as we are: minutes, once. BENCH_PYTHON=… names a Python
# that has it.
BENCH_FLAGS ?=
bench: all model # the README's table beside llama.cpp, as text and as build/bench/peers.json; BENCH_FLAGS="--rounds 5"
	@python=$(BENCH_PYTHON); if [ -z "$$python" ]; then \
	    tools/test.sh bench-venv || exit 1; python=$(BUILD)/venv-bench/bin/python; fi; \
	mkdir -p $(BUILD)/bench && \
	$$python tools/bench_peers.py $(BUILD)/headway $$python $(BUILD)/bench/peers.json $(BENCH_FLAGS)

# CADENCE_FLAGS="--only gap,cost"; BENCH_PYTHON=… (one that has xllamacpp) adds llama.cpp's server.
CADENCE_FLAGS ?=
.PHONY: bench-cadence
bench-cadence: all # the bars of the schedule, each on a server of its own; build/bench/cadence.json keeps all runs
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(tools/fetch_model.sh) || exit 1; mkdir -p $(BUILD)/bench; \
	exec python3 tools/bench_cadence.py $(BUILD)/headway "$$model" --out $(BUILD)/bench/cadence.json \
	    $(if $(BENCH_PYTHON),--llama $(BENCH_PYTHON)) $(CADENCE_FLAGS)

# DAY_FLAGS="--seconds 100"; `make test` has the short form.
DAY_FLAGS ?=
.PHONY: bench-day
bench-day: all # six agents, aborts and batch jobs: a day in 5 minutes; build/bench/day.json keeps all runs
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(tools/fetch_model.sh) || exit 1; mkdir -p $(BUILD)/bench; \
	exec python3 tools/bench_day.py $(BUILD)/headway "$$model" --out $(BUILD)/bench/day.json $(DAY_FLAGS)

# CACHE_FLAGS="--only warm,disk"; BENCH_PYTHON=… adds llama.cpp's server to the warm turn.
CACHE_FLAGS ?=
.PHONY: bench-cache
bench-cache: all # the bars of the prefix cache; build/bench/cache.json keeps all runs
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(tools/fetch_model.sh) || exit 1; mkdir -p $(BUILD)/bench; \
	exec python3 tools/bench_cache.py $(BUILD)/headway "$$model" --json $(BUILD)/bench/cache.json \
	    $(if $(BENCH_PYTHON),--llama $(BENCH_PYTHON)) $(CACHE_FLAGS)

# Helper programs of the tests: tests/tools/NAME.c is build/tools/NAME.
TEST_TOOLS := $(patsubst tests/tools/%.c,$(BUILD)/tools/%,$(wildcard tests/tools/*.c))
$(BUILD)/tools/%: tests/tools/%.c $(BUILD)/libheadway.a $(BUILD)/flags
	@mkdir -p $(@D); echo "TOOL-CC $<"; $(CC) $(ALL_CFLAGS) $(TEST_FLAGS) -o $@ $< $(BUILD)/libheadway.a $(LDFLAGS) $(LIBS)
# Measuring programs: tests/bench/NAME.c is build/bench/NAME.
BENCH_TOOLS := $(patsubst tests/bench/%.c,$(BUILD)/bench/%,$(wildcard tests/bench/*.c))
$(BUILD)/bench/%: tests/bench/%.c $(BUILD)/libheadway.a $(BUILD)/flags
	@mkdir -p $(@D); echo "BENCH-CC $<"; \
	$(CC) $(ALL_CFLAGS) $(TEST_FLAGS) -o $@ $< $(BUILD)/libheadway.a $(LDFLAGS) $(LIBS)
.PHONY: test-tools bench-tools
bench-tools: $(BENCH_TOOLS)
test-tools: $(TEST_TOOLS)
