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
BUSTED    = $(LUA) /usr/bin/busted
SPECS     =

# Why each warning beyond -Wall -Wextra: -Wshadow and -Wconversion find real bugs in code that counts
# bytes; the prototypes keep every function either static or declared in a header; no variable-length
# arrays, since tasks run on stacks of fixed size.
WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
           -Wpointer-arith -Wwrite-strings $(if $(filter 1 true yes,$(WERROR)),-Werror)
LIBRARY_CFLAGS := $(shell $(PKGCONFIG) --cflags lua5.4 libuv sqlite3 libcurl libxml-2.0 2>/dev/null)
SYNOD_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -Iruntime $(LIBRARY_CFLAGS)

# Static: one file to copy, and a start without the dynamic linker's work.
BIN_LIBS = -Wl,-Bstatic -llua5.4 -luv_a -lsqlite3 -Wl,-Bdynamic -lpthread -lrt -lz -lm -ldl
SO_LIBS  = -luv -lsqlite3 -lpthread -lrt -lm -ldl

SOURCES   = $(sort $(wildcard runtime/*/*.c))
LUA_FILES = $(sort $(shell find lua -name '*.lua'))

BIN_OBJECTS = $(patsubst runtime/%.c,$(BUILD)/bin/%.o,$(SOURCES) runtime/main.c) $(BUILD)/bin/library.o
SO_OBJECTS  = $(patsubst runtime/%.c,$(BUILD)/pic/%.o,$(SOURCES))

# Each step says one line; V=1 shows the commands.
Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-4s %s\n')

.PHONY: all help demo test deps install clean always
.DELETE_ON_ERROR:

all: $(if $(wildcard runtime/vm/task.c),$(BUILD)/synod) $(BUILD)/lib/synod/core.so ## build the program and the Lua module

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1	\2/p' Makefile

# What is missing is installed first; only then can make know the libraries' flags, hence the second make.
demo: ## three instances wait for each other at a start-up barrier
	@tools/deps build
	@$(MAKE) --no-print-directory all
	@dir=$$(mktemp -d) && trap 'rm -rf "$$dir"' EXIT && \
	  $(BUILD)/synod run -n 3 --store "embedded:$$dir/demo.db" scripts/startup-barrier.lua

test: ## run every spec
	@tools/deps build test
	@$(MAKE) --no-print-directory all
	$(BUSTED) $(SPECS)

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

-include $(BIN_OBJECTS:.o=.d) $(SO_OBJECTS:.o=.d)
