# Headway. `make` builds build/headway; `make serve` and `make test` are the two commands of the README.
# Sources are found by wildcard; a kernel file that needs an instruction set lies in the folder named after it.
BUILD   ?= build
CC      ?= cc
ARCH    := $(shell $(CC) -dumpmachine | cut -d- -f1)
PKGS    := libuv jansson libpcre2-8 libutf8proc libxxhash
CFLAGS  ?= -O2 -g
BASE_FLAGS := -std=gnu17 -Wall -Wextra -Werror -fno-math-errno -ffp-contract=off -Isrc -pthread -MMD -MP
PKG_CFLAGS  = $(shell pkg-config --cflags $(PKGS))
PKG_LIBS    = $(shell pkg-config --libs $(PKGS))
ALL_CFLAGS  = $(BASE_FLAGS) $(PKG_CFLAGS) $(CFLAGS) $(EXTRA)
LIBS        = $(PKG_LIBS) -lm -pthread

# Folders of the CPU backend that this architecture can compile.
ifneq (,$(filter x86_64 amd64,$(ARCH)))
SKIP := src/tensor/cpu/neon/%
endif
ifneq (,$(filter aarch64 arm64,$(ARCH)))
SKIP := src/tensor/cpu/avx2/% src/tensor/cpu/avx512/%
endif
SOURCES := $(filter-out $(SKIP),$(shell find src -name '*.c' | LC_ALL=C sort))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o)
LIB_OBJECTS := $(filter-out $(BUILD)/obj/cli/%,$(OBJECTS))

$(BUILD)/obj/tensor/cpu/avx2/%.o: ISA := -mavx2 -mfma -mf16c
$(BUILD)/obj/tensor/cpu/avx512/%.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mf16c -mfma
$(BUILD)/obj/tensor/cpu/neon/%.o: ISA := -march=armv8.2-a+dotprod+fp16

.PHONY: all clean lib
all: $(BUILD)/headway
lib: $(BUILD)/libheadway.a

$(BUILD)/headway: $(OBJECTS)
	@echo "LD $@"; $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(OBJECTS) $(LIBS)

$(BUILD)/libheadway.a: $(LIB_OBJECTS)
	@echo "AR $@"; rm -f $@; ar rcs $@ $(LIB_OBJECTS)

$(BUILD)/obj/%.o: src/%.c
	@mkdir -p $(@D); echo "CC $<"; $(CC) $(ALL_CFLAGS) $(ISA) -c -o $@ $<

clean:
	rm -rf $(BUILD)

-include $(OBJECTS:.o=.d)
-include tests/tests.mk
