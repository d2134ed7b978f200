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

# Why each warning beyond -Wall -Wextra: -Wshadow and -Wconversion find real bugs in code that counts
# bytes; the prototypes keep every function either static or declared in a header; no variable-length
# arrays, since tasks run on stacks of fixed size.
WARNINGS = -Wall -Wextra -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla \
           -Wpointer-arith -Wwrite-strings $(if $(filter 1 true yes,$(WERROR)),-Werror)
SYNOD_CFLAGS = -std=c11 -D_GNU_SOURCE $(WARNINGS) -Iruntime \
               $(shell $(PKGCONFIG) --cflags lua5.4 libuv sqlite3 libcurl libxml-2.0 2>/dev/null)

# Static: one file to copy, and a start without the dynamic linker's work.
BIN_LIBS = -Wl,-Bstatic -llua5.4 -luv_a -lsqlite3 -Wl,-Bdynamic -lpthread -lrt -lz -lm -ldl
SO_LIBS  = -luv -lsqlite3 -lpthread -lrt -lm -ldl

SOURCES   = $(sort $(wildcard runtime/*/*.c))
MAIN      = $(wildcard runtime/main.c)
LUA_FILES = $(shell find lua scripts -name '*.lua' 2>/dev/null | sort)

BIN_OBJECTS = $(patsubst runtime/%.c,$(BUILD)/bin/%.o,$(SOURCES) $(MAIN))
SO_OBJECTS  = $(patsubst runtime/%.c,$(BUILD)/pic/%.o,$(SOURCES))

# The nouns of bind.h whose file is not in the tree get an empty one, so that the rest can be loaded.
ABSENT = $(filter-out $(notdir $(basename $(wildcard runtime/bind/*.c))),\
           $(shell sed -n 's/^ *X(\([a-z]*\)).*/\1/p' runtime/bind/bind.h))
ifneq ($(ABSENT),)
$(BUILD)/pic/absent.o $(BUILD)/bin/absent.o: Makefile $(wildcard runtime/bind/*)
	@mkdir -p $(@D)
	@echo "note: not in the tree yet: $(ABSENT:%=runtime/bind/%.c)"
	$(Q)(echo '#include "bind/bind.h"'; for n in $(ABSENT); do \
	  echo "void bind_$$n(lua_State *L, struct vm *vm) { (void)L; (void)vm; }"; done) \
	  | $(CC) $(SYNOD_CFLAGS) -fPIC -x c -c -o $@ -
SO_OBJECTS  += $(BUILD)/pic/absent.o
BIN_OBJECTS += $(BUILD)/bin/absent.o
endif

# Each step says one line; V=1 shows the commands.
Q = $(if $(V),,@)
say = @$(if $(V),:,printf '  %-4s %s\n')

.PHONY: all help demo test clean
.DELETE_ON_ERROR:

all: $(if $(MAIN),$(BUILD)/synod) $(BUILD)/lib/synod/core.so ## build the program and the Lua module

help: ## print this list
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/  \1	\2/p' Makefile

test: all ## run every spec
	$(LUA) /usr/bin/busted

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

-include $(BIN_OBJECTS:.o=.d) $(SO_OBJECTS:.o=.d)
