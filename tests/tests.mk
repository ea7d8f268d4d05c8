# Unit tests: every tests/unit/ROOM/NAME_test.c is one cmocka program linked with the library.
UNIT_SOURCES := $(shell find tests/unit -name '*_test.c' 2>/dev/null | LC_ALL=C sort)
UNIT_BINS := $(UNIT_SOURCES:tests/unit/%.c=$(BUILD)/unit/%)

$(BUILD)/unit/%: tests/unit/%.c $(BUILD)/libheadway.a
	@mkdir -p $(@D); echo "TEST-CC $<"; $(CC) $(ALL_CFLAGS) -Itests -o $@ $< $(BUILD)/libheadway.a $(LDFLAGS) $(shell pkg-config --libs cmocka) $(LIBS)

.PHONY: unit
unit: $(UNIT_BINS)
	@set -e; for t in $(UNIT_BINS); do echo "RUN $$t"; $$t; done
