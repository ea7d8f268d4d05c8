# Fuzz targets: every tests/fuzz/NAME_fuzz.c is one libFuzzer program, linked with the sanitized library.
# tests/fuzz/seeds/NAME/ holds files to start from; what a run finds of interest is kept in build/asan/corpus/NAME/.
FUZZ_SOURCES := $(shell find tests/fuzz -name '*_fuzz.c' 2>/dev/null | LC_ALL=C sort)
FUZZ_NAMES := $(patsubst tests/fuzz/%_fuzz.c,%,$(FUZZ_SOURCES))
FUZZ_BINS := $(FUZZ_NAMES:%=$(BUILD)/bin/%_fuzz)
FUZZ_SECONDS ?= 600

$(BUILD)/bin/%_fuzz: tests/fuzz/%_fuzz.c $(BUILD)/libheadway.a $(BUILD)/flags
	@mkdir -p $(@D); echo "FUZZ-CC $<"; \
	$(CC) $(ALL_CFLAGS) $(TEST_FLAGS) -fsanitize=fuzzer -o $@ $< $(BUILD)/libheadway.a $(LDFLAGS) $(LIBS)

.PHONY: fuzz fuzz-build fuzz-run
fuzz: # every fuzz target for FUZZ_SECONDS=600 each; FUZZ=http runs those whose name holds "http"
	+@$(SANITIZED) FUZZ_SECONDS=$(FUZZ_SECONDS) fuzz-run

fuzz-build: $(FUZZ_BINS)

# One target for each, so that `make -j2 fuzz` runs two at once. One that fails keeps the others from beginning.
FUZZ_RUNS := $(foreach n,$(FUZZ_NAMES),$(if $(FUZZ),$(if $(findstring $(FUZZ),$n),fuzz-run-$n),fuzz-run-$n))
.PHONY: $(FUZZ_RUNS)
fuzz-run: $(FUZZ_RUNS)
$(FUZZ_RUNS): fuzz-run-%: $(BUILD)/bin/%_fuzz
	@mkdir -p $(BUILD)/corpus/$* $(BUILD)/found; seeds=; [ ! -d tests/fuzz/seeds/$* ] || seeds=tests/fuzz/seeds/$*; \
	log=$(BUILD)/found/$*.log; \
	$(BUILD)/bin/$*_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -verbosity=0 \
	    -print_final_stats=1 -artifact_prefix=$(BUILD)/found/$*- $(BUILD)/corpus/$* $$seeds >$$log 2>&1; ended=$$?; \
	echo "FUZZ $* for $(FUZZ_SECONDS) s: $$(sed -n 's/^stat::number_of_executed_units: *//p' $$log) runs"; \
	[ $$ended = 0 ] || { grep -E 'ERROR|SUMMARY|artifact' $$log || tail -n 20 $$log; exit 1; }
