# Headway. `make serve` and `make test` are the two commands of the README; `make help` lists the rest.
# Sources are found by wildcard; a kernel file that needs an instruction set lies in the folder named after it.
BUILD   ?= build
CC      ?= cc
CFLAGS  ?= -O2 -g
KERNEL_OPT ?= -O3
PREFIX  ?= /usr/local
PORT    ?= 8080
HOST    ?= 127.0.0.1
VERSION := 0.1.0
PKGS    := libuv jansson libpcre2-8 libutf8proc libxxhash libcurl inih hiredis

ARCH    := $(shell $(CC) -dumpmachine 2>/dev/null | cut -d- -f1)
ifeq (0,$(shell pkg-config --exists hiredis_ssl openssl 2>/dev/null; echo $$?)) # not on Debian 12
PKGS    += hiredis_ssl openssl
REDIS_TLS := -DHEADWAY_REDIS_TLS
endif
ifneq (,$(PKGS)) # a cross build has no packages at all
ifeq (0,$(shell pkg-config --exists liburing 2>/dev/null; echo $$?))
PKGS    += liburing
URING   := -DHEADWAY_URING
endif
endif
PKG_CFLAGS := $(shell pkg-config --cflags $(PKGS) 2>/dev/null)
PKG_LIBS   := $(shell pkg-config --libs $(PKGS) 2>/dev/null)
BASE_FLAGS := -std=gnu17 -Wall -Wextra -Werror -fno-math-errno -ffp-contract=off -Isrc -pthread -MMD -MP
ALL_CFLAGS  = $(BASE_FLAGS) $(PKG_CFLAGS) $(REDIS_TLS) $(URING) $(CFLAGS) $(EXTRA)
LIBS        = $(PKG_LIBS) -lm -pthread

# Folders of the CPU backend that this architecture can compile.
ifneq (,$(filter x86_64 amd64,$(ARCH)))
SKIP := src/tensor/cpu/neon/%
endif
ifneq (,$(filter aarch64 arm64,$(ARCH)))
SKIP := src/tensor/cpu/avx2/% src/tensor/cpu/avx512/% src/tensor/cpu/avx512bf16/%
endif
SOURCES := $(filter-out $(SKIP),$(shell find src -name '*.c' | LC_ALL=C sort))
OBJECTS := $(SOURCES:src/%.c=$(BUILD)/obj/%.o)
CLI_OBJECTS := $(filter $(BUILD)/obj/cli/%,$(OBJECTS))
LIB_OBJECTS := $(filter-out $(BUILD)/obj/cli/%,$(OBJECTS)) $(BUILD)/obj/server/dashboard/data.o
ifdef LIB_ROOMS # only these rooms, for a target that lacks the libraries
LIB_OBJECTS := $(filter $(LIB_ROOMS:%=$(BUILD)/obj/%/%),$(LIB_OBJECTS))
endif

$(BUILD)/obj/tensor/cpu/%.o $(BUILD)/obj/tensor/quant%.o: OPT := $(KERNEL_OPT)
$(BUILD)/obj/model/write/%.o: OPT := $(KERNEL_OPT)
$(BUILD)/obj/model/sampler.o: OPT := $(KERNEL_OPT) -fno-trapping-math
$(foreach set,avx2 avx512 avx512bf16,$(BUILD)/obj/tensor/cpu/$(set)/mat%.o): OPT := $(KERNEL_OPT) $(MATMUL_OPT)
$(BUILD)/obj/tensor/cpu/avx2/%.o: ISA := -mavx2 -mfma -mf16c $(VECTOR_OPT)
$(BUILD)/obj/tensor/cpu/avx512/%.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mf16c \
    -mfma $(VECTOR_OPT)
$(BUILD)/obj/tensor/cpu/avx512bf16/%.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mf16c \
    -mfma -mavx512vbmi -mavx512bf16 $(VECTOR_OPT)
$(BUILD)/obj/tensor/cpu/neon/%.o: ISA := -march=armv8.2-a+dotprod+fp16
$(BUILD)/obj/cli/main.o $(BUILD)/obj/cli/run_keeper.o: ISA := -DHEADWAY_VERSION='"$(VERSION)"'

.PHONY: all lib
all: $(BUILD)/headway
lib: $(BUILD)/libheadway.a

$(BUILD)/headway: $(CLI_OBJECTS) $(BUILD)/libheadway.a
	@echo "LD $@"; $(CC) $(ALL_CFLAGS) $(LDFLAGS) -o $@ $(CLI_OBJECTS) $(BUILD)/libheadway.a $(LIBS)

$(BUILD)/libheadway.a: $(LIB_OBJECTS) $(BUILD)/files
	@echo "AR $@"; rm -f $@; ar rcs $@ $(LIB_OBJECTS)

# Other flags than last time: everything is built again. Another list of files: the archive is.
FLAGS_NOW := $(CC) $(ALL_CFLAGS) $(KERNEL_OPT) $(LDFLAGS)
ifneq ($(FLAGS_NOW),$(file <$(BUILD)/flags))
$(shell mkdir -p $(BUILD))
$(file >$(BUILD)/flags,$(FLAGS_NOW))
endif
ifneq ($(LIB_OBJECTS),$(file <$(BUILD)/files))
$(file >$(BUILD)/files,$(LIB_OBJECTS))
endif

$(BUILD)/obj/%.o: src/%.c $(BUILD)/flags
	@mkdir -p $(@D); echo "CC $<"; $(CC) $(ALL_CFLAGS) $(OPT) $(ISA) -c -o $@ $<

# The page of the bench report is linked in as bytes.
$(BUILD)/obj/load/report_html.o: src/load/report.html

# The dashboard's files, inside the binary.
DASHBOARD := $(sort $(wildcard src/server/dashboard/*.html src/server/dashboard/*.css src/server/dashboard/*.js \
    src/server/dashboard/*.svg))
$(BUILD)/gen/dashboard.c: $(DASHBOARD) tools/embed.sh
	@mkdir -p $(@D); echo "EMBED $@"; tools/embed.sh $(DASHBOARD) >$@.new && mv $@.new $@

$(BUILD)/obj/server/dashboard/data.o: $(BUILD)/gen/dashboard.c $(BUILD)/flags
	@mkdir -p $(@D); echo "CC $<"; $(CC) $(ALL_CFLAGS) -c -o $@ $<

-include $(OBJECTS:.o=.d) $(BUILD)/obj/server/dashboard/data.d
-include tests/tests.mk
-include tests/fuzz.mk

# ---- for people -----------------------------------------------------------------------------------------------
JOBS := $(shell nproc 2>/dev/null || echo 2)
.PHONY: serve packages model install uninstall clean help

packages: # the libraries and tools that the build needs, by apt when something is missing
	@tools/packages.sh build

model: # the default model, into the cache folder
	@tools/fetch_model.sh

# A make of its own after `packages`: what pkg-config says is read when make starts.
serve: packages # build, fetch the default model, serve it: MODEL=file.gguf PORT=8080 HOST=127.0.0.1 FLAGS="--ctx 4096"
	@$(MAKE) -s --no-print-directory -j$(JOBS) all
	@model="$(MODEL)"; [ -n "$$model" ] || model=$$(tools/fetch_model.sh) || exit 1; \
	exec $(BUILD)/headway serve --model "$$model" --host $(HOST) --port $(PORT) $(FLAGS)

install: all # into DESTDIR/PREFIX
	install -Dm755 $(BUILD)/headway $(DESTDIR)$(PREFIX)/bin/headway
	install -Dm644 packaging/headway.1 $(DESTDIR)$(PREFIX)/share/man/man1/headway.1
	install -Dm644 packaging/headway.service $(DESTDIR)$(PREFIX)/lib/systemd/system/headway.service
	install -Dm644 packaging/headway.bash $(DESTDIR)$(PREFIX)/share/bash-completion/completions/headway
	install -Dm644 packaging/_headway $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_headway
	install -Dm644 packaging/headway.fish $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/headway.fish
	install -Dm755 tools/fetch_model.sh $(DESTDIR)$(PREFIX)/lib/headway/fetch_model.sh
	sed -i 's|@PREFIX@|$(PREFIX)|g' $(DESTDIR)$(PREFIX)/lib/systemd/system/headway.service

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/headway $(DESTDIR)$(PREFIX)/share/man/man1/headway.1 \
	    $(DESTDIR)$(PREFIX)/lib/systemd/system/headway.service \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/headway \
	    $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_headway \
	    $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/headway.fish \
	    $(DESTDIR)$(PREFIX)/lib/headway/fetch_model.sh

clean: # everything that make made; the models in the cache folder stay
	rm -rf $(BUILD)

help:
	@sed -nE 's/^([a-z][a-z0-9-]*):[^=#]*# (.*)/\1\t\2/p' Makefile tests/tests.mk tests/fuzz.mk | expand -t 16
