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
fuzz-run: fuzz-build
	@set -e; for n in $(FUZZ_NAMES); do \
	    case $$n in *"$(FUZZ)"*) ;; *) continue ;; esac; \
	    mkdir -p $(BUILD)/corpus/$$n $(BUILD)/found; seeds=; [ ! -d tests/fuzz/seeds/$$n ] || seeds=tests/fuzz/seeds/$$n; \
	    echo "FUZZ $$n for $(FUZZ_SECONDS) s"; \
	    $(BUILD)/bin/$${n}_fuzz -max_total_time=$(FUZZ_SECONDS) -timeout=10 -rss_limit_mb=1024 -verbosity=0 \
	        -print_final_stats=1 -artifact_prefix=$(BUILD)/found/$$n- $(BUILD)/corpus/$$n $$seeds 2>&1 | \
	        tee $(BUILD)/found/$$n.log | grep -E 'number_of_executed_units|ERROR|SUMMARY|artifact' || true; \
	    if grep -qE 'ERROR: |SUMMARY: ' $(BUILD)/found/$$n.log; then exit 1; fi; done
