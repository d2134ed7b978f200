# synod: `make demo` shows it at work, `make test` tests it; both install what is missing.
#
# build/synod is the program; build/lib/synod/core.so the same runtime for a plain lua5.4 (and for the
# specs). The objects differ (position-independent or not), so each has its folder.

.DEFAULT_GOAL = all

CC      ?= cc
PREFIX  ?= /usr/local
BUILD   ?= build
CFLAGS  ?= -O2 -g
WERROR  ?= $(CI)

LUA       = lua5.4
PKGCONFIG = pkg-config
BUSTED    = $(LUA_PROGRAM) /usr/bin/busted
LUA_PROGRAM = $(shell command -v $(LUA))
LOADER    = $(shell readelf -p .interp $(LUA_PROGRAM) 2>/dev/null | grep -o '/lib[^ ]*')
SPECS     =
JOBS      = $(shell nproc)
SPEC_JOBS = $(shell expr $(JOBS) + 1)

# Why each warning beyond -Wall -Wextra: -Wshadow and -Wconversion find real bugs in code that counts
# bytes; the prototypes keep every function either static or declared in a header; no variable-length
# arrays, since tasks run on stacks of fixed size.
WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
           -Wpointer-arith -Wwrite-strings $(if $(filter 1 true yes,$(WERROR)),-Werror)
LIBRARY_CFLAGS := $(shell $(PKGCONFIG) --cflags lua5.4 libuv sqlite3 libcurl libxml-2.0 2>/dev/null)
SYNOD_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -Iruntime $(LIBRARY_CFLAGS)

# Static: one file to copy, and a start without the dynamic linker's work.
BIN_LIBS = -Wl,-Bstatic -llua5.4 -luv_a -lsqlite3 -Wl,-Bdynamic -lpthread -lrt -lm -ldl
SO_LIBS  = -luv -lsqlite3 -lpthread -lrt -lm -ldl

PEERS     = $(patsubst bench/peers/%.c,$(BUILD)/bench/%,$(wildcard bench/peers/*.c))
SOURCES   = $(sort $(wildcard runtime/*/*.c runtime/*/*/*.c))
C_FILES   = $(wildcard runtime/*.[ch] runtime/*/*.[ch] runtime/*/*/*.[ch] bench/peers/*.[ch] fuzz/*.[ch])
FUZZERS   = $(patsubst fuzz/%.c,%,$(wildcard fuzz/*.c))
LUA_FILES = $(sort $(shell find lua -name '*.lua'))

BIN_OBJECTS = $(patsubst runtime/%.c,$(BUILD)/bin/%.o,$(SOURCES) runtime/main.c) $(BUILD)/bin/library.o
SO_OBJECTS  = $(patsubst runtime/%.c,$(BUILD)/pic/%.o,$(SOURCES))
ASAN_OBJECTS = $(patsubst runtime/%.c,$(BUILD)/asan/%.o,$(SOURCES))
ASAN_MAIN    = $(BUILD)/asan/main.o $(BUILD)/asan/library.o

# Each step says one line; V=1 shows the commands.
Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-4s %s\n')

.PHONY: all help demo test lint format asan fuzz bench deps install clean always
.DELETE_ON_ERROR:

all: $(if $(wildcard runtime/vm/task.c),$(BUILD)/synod) $(BUILD)/lib/synod/core.so ## build the program and the Lua module

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1	\2/p' Makefile

# What is missing is installed first; only then can make know the libraries' flags, hence the second make.
demo: ## three instances wait for each other at a start-up barrier
	@tools/deps build
	@$(MAKE) --no-print-directory -j$(JOBS) all
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	  $(BUILD)/synod run -n 3 --store "embedded:$$dir/demo.db" scripts/startup-barrier.lua

test: ## run every spec
	@tools/deps build test
	@$(MAKE) --no-print-directory -j$(JOBS) all
	tools/specs $(SPEC_JOBS) $(SPECS) -- $(BUSTED)

lint: ## check the layout of C, Lua, and the rules of the house
	@tools/deps build lint
	$(say) LINT C
	$(Q)clang-format --dry-run -Werror $(C_FILES)
	$(say) LINT Lua
	$(Q)luacheck --quiet .
	$(say) LINT rules
	$(Q)$(LUA) tools/lint.lua

format: ## lay the C files out as lint wants them
	$(Q)clang-format -i $(C_FILES)

# The program and the module again, in their own folder, watched by the sanitizers. lua5.4 itself is not
# built so: the loader preloads the sanitizer's library, for it alone and not for what the specs start.
asan: ## run the specs under the address, leak and undefined behaviour sanitizers
	@tools/deps build test
	@$(MAKE) --no-print-directory -j$(JOBS) $(BUILD)/asan/synod $(BUILD)/asan/lib/synod/core.so
	SYNOD_BIN=$(BUILD)/asan/synod SYNOD_LIB=$(BUILD)/asan/lib SYNOD_ASAN=1 \
	  ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=86 UBSAN_OPTIONS=halt_on_error=1:print_stacktrace=1:exitcode=86 \
	  LSAN_OPTIONS=suppressions=tools/leaks.txt:print_suppressions=0 \
	  tools/specs $(SPEC_JOBS) $(SPECS) -- $(LOADER) --preload $(shell $(CC) -print-file-name=libasan.so) $(BUSTED)

# Clang's fuzzer under the sanitizers, one program a parser. What it finds is kept in build/fuzz/found.
fuzz: ## feed the parsers of outside data (TIME=600, seconds for each; FUZZ="list_xml" for some)
	@tools/deps build fuzz
	@$(MAKE) --no-print-directory -j$(JOBS) $(addprefix $(BUILD)/fuzz/,$(FUZZERS))
	tools/fuzz $(BUILD)/fuzz $(TIME) $(FUZZ)

bench: ## measure synod beside its peers (BENCH="--quick start" for a part)
	@tools/deps build test bench
	@$(MAKE) --no-print-directory -j$(JOBS) all $(PEERS)
	bench/run $(BENCH)

deps: ## install what demo, test and lint need, as far as it is missing
	@tools/deps build test lint

install: all ## install the program and the Lua module (PREFIX, DESTDIR)
	install -D -m 755 $(BUILD)/synod $(DESTDIR)$(PREFIX)/bin/synod
	install -D -m 644 $(BUILD)/lib/synod/core.so $(DESTDIR)$(PREFIX)/lib/lua/5.4/synod/core.so
	cd lua && find synod -name '*.lua' -exec install -D -m 644 {} $(DESTDIR)$(PREFIX)/share/lua/5.4/{} \;

clean: ## remove what was built
	rm -rf $(BUILD)

$(BUILD)/synod: $(BIN_OBJECTS)
	$(say) LINK $@
	$(Q)$(CC) -no-pie -rdynamic $(LDFLAGS) -o $@ $^ $(BIN_LIBS)

$(BUILD)/lib/synod/core.so: $(SO_OBJECTS)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(LDFLAGS) -o $@ $^ $(SO_LIBS)

$(BUILD)/bin/%.o: runtime/%.c Makefile
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(SYNOD_CFLAGS) $(CFLAGS) -fno-pie -MMD -MP -c -o $@ $<

$(BUILD)/pic/%.o: runtime/%.c Makefile
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(SYNOD_CFLAGS) $(CFLAGS) -fPIC -MMD -MP -c -o $@ $<

SANITIZE = -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer

$(BUILD)/asan/synod: $(ASAN_OBJECTS) $(ASAN_MAIN)
	$(say) LINK $@
	$(Q)$(CC) $(SANITIZE) -rdynamic $(LDFLAGS) -o $@ $^ $(BIN_LIBS)

$(BUILD)/asan/lib/synod/core.so: $(ASAN_OBJECTS)
	@mkdir -p $(@D)
	$(say) LINK $@
	$(Q)$(CC) -shared $(SANITIZE) $(LDFLAGS) -o $@ $^ $(SO_LIBS)

$(BUILD)/asan/%.o: runtime/%.c Makefile
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(SYNOD_CFLAGS) -O1 -g $(SANITIZE) -fPIC -MMD -MP -c -o $@ $<

$(BUILD)/asan/library.o: $(BUILD)/library.c runtime/library.h
	@mkdir -p $(@D)
	$(Q)$(CC) $(SYNOD_CFLAGS) -fPIC -c -o $@ $<

FUZZ_OBJECTS = $(patsubst runtime/%.c,$(BUILD)/fuzz/o/%.o,$(filter runtime/base/% runtime/world/% runtime/store/%,$(SOURCES)))
FUZZ_CC      = clang $(SYNOD_CFLAGS) -Wno-sign-conversion -O1 -g $(SANITIZE) -Ifuzz
TIME        ?= 600
FUZZ        ?= $(FUZZERS)

$(BUILD)/fuzz/o/%.o: runtime/%.c Makefile
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer-no-link -MMD -MP -c -o $@ $<

$(BUILD)/fuzz/synod.a: $(FUZZ_OBJECTS)
	$(Q)rm -f $@ && $(AR) rcs $@ $^

$(BUILD)/fuzz/%: fuzz/%.c fuzz/fuzz.h $(BUILD)/fuzz/synod.a
	$(say) CC $<
	$(Q)$(FUZZ_CC) -fsanitize=fuzzer -o $@ $< $(BUILD)/fuzz/synod.a $(SO_LIBS)

# What synod is measured beside. The meter is static, so that a command's peak memory is its own.
$(BUILD)/bench/meter:         PEER_LIBS = -static
$(BUILD)/bench/curl_cycle:    PEER_LIBS = -lcurl -lcrypto
$(BUILD)/bench/sqlite_writer: PEER_LIBS = -lsqlite3
$(BUILD)/bench/sqlite_records: PEER_LIBS = -lsqlite3
$(BUILD)/bench/os_barrier:    PEER_LIBS = -lpthread
$(BUILD)/bench/%: bench/peers/%.c bench/peers/peer.h Makefile
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(SYNOD_CFLAGS) $(CFLAGS) -o $@ $< $(PEER_LIBS)

# The Lua library inside the program: bytecode, which starts in less time than text.
LIBRARY_FORM ?= bytecode
$(BUILD)/library.c: tools/embed.lua $(LUA_FILES) $(BUILD)/library.list
	$(say) LUA $@
	$(Q)$(LUA) tools/embed.lua $(LIBRARY_FORM) $@ $(LUA_FILES)

# Changes when a file of the library comes or goes.
$(BUILD)/library.list: always
	@mkdir -p $(@D)
	@echo '$(LIBRARY_FORM) $(LUA_FILES)' | cmp -s - $@ || echo '$(LIBRARY_FORM) $(LUA_FILES)' > $@

$(BUILD)/bin/library.o: $(BUILD)/library.c runtime/library.h
	@mkdir -p $(@D)
	$(say) CC $<
	$(Q)$(CC) $(SYNOD_CFLAGS) $(CFLAGS) -fno-pie -c -o $@ $<

-include $(BIN_OBJECTS:.o=.d) $(SO_OBJECTS:.o=.d) $(ASAN_OBJECTS:.o=.d) $(ASAN_MAIN:.o=.d) $(FUZZ_OBJECTS:.o=.d)
