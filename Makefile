# riptide: one Makefile. `make help` lists the targets. All output goes to $(BUILD).
# Layers: each folder of src/ is an archive; tests link only the archives their folder may use.

CC ?= gcc
BUILD ?= build
OPT ?= -O2
SAN ?=
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
PREFIX ?= /usr/local

WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror
CFLAGS += -std=c11 -D_GNU_SOURCE -g $(OPT) $(SAN) $(WARN) -Isrc -I$(BUILD)/gen -fno-math-errno -ffp-contract=off -MMD -MP
LDFLAGS += $(SAN)
LDLIBS := -luv -lpcre2-8 -lutf8proc -lxxhash -lcrypto -lpthread -lm

FOLDERS := base tensor token chat cache load backend sample model decode engine server cli bench
srcs = $(sort $(shell find src/$(1) -name '*.c' 2>/dev/null))
obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))

# Which archives a folder links, nearest first: the table of tools/layers.txt, closed.
DEPS_base    := base
DEPS_tensor  := tensor base
DEPS_token   := token base
DEPS_chat    := chat base
DEPS_cache   := cache base
DEPS_load    := load tensor base
DEPS_backend := backend tensor base
DEPS_sample  := sample token base
DEPS_model   := model load backend tensor base
DEPS_decode  := decode model load backend tensor base
DEPS_engine  := engine decode model sample load backend cache token tensor base
DEPS_server  := server engine decode model sample load backend cache chat token tensor base
DEPS_cli     := cli server engine decode model sample load backend cache chat token tensor base
DEPS_bench   := bench $(DEPS_cli)

CUDA_SRCS := $(sort $(shell find src/backend/cuda -name '*.cu' 2>/dev/null))
ifneq ($(NVCC),)
ifneq ($(CUDA_SRCS),)
HAS_CUDA := 1
CUDA_DIR := $(patsubst %/bin/nvcc,%,$(NVCC))
CFLAGS_registry := -DRIPTIDE_CUDA
CUDA_OBJS := $(patsubst src/%.cu,$(BUILD)/obj/%.cu.o,$(CUDA_SRCS))
LDLIBS += -L$(CUDA_DIR)/lib64 -lcudart_static -ldl -lrt -lstdc++
endif
endif
NVFLAGS ?= -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a -gencode arch=compute_80,code=compute_80
NVFLAGS += -Isrc -lineinfo --expt-relaxed-constexpr -Xcompiler -Wall,-Wextra,-Werror --Werror all-warnings

# The suffix of a kernel file sets the instruction set it is compiled for.
%_avx2.o: ISA := -mavx2 -mfma -mf16c -mbmi2
%_avx512.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx2 -mfma -mf16c -mbmi2
%_avx512vnni.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx2 -mfma -mf16c -mbmi2
%_avx512bf16.o: ISA := -mavx512f -mavx512bw -mavx512vl -mavx512dq -mavx512vnni -mavx512bf16 -mavx2 -mfma -mf16c -mbmi2
# `ref` is the definition: plain loops, vectorised by the compiler only where that keeps the order.
$(BUILD)/obj/backend/ref/%.o: OPT_EXTRA := -O3
$(BUILD)/obj/backend/cpu/%.o: OPT_EXTRA := -O3
$(BUILD)/obj/backend/registry.o: OPT_EXTRA := $(CFLAGS_registry)

.PHONY: all cuda test fast asan tsan ubsan fuzz bench check format install clean help
all: $(BUILD)/riptide
ifeq ($(HAS_CUDA),)
	@echo "note: no nvcc found (or no CUDA sources): built without the cuda backend"
endif

$(BUILD)/obj/%.o: src/%.c | $(BUILD)/gen/.dir
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) $(OPT_EXTRA) $(ISA) -c $< -o $@

$(BUILD)/obj/%.cu.o: src/%.cu
	@mkdir -p $(@D)
	$(NVCC) $(NVFLAGS) -MMD -MP -MF $(BUILD)/obj/$*.cu.d -c $< -o $@

$(BUILD)/gen/.dir:
	@mkdir -p $(@D) && touch $@

define archive
$(BUILD)/lib$(1).a: $(call obj,$(call srcs,$(1))) $(if $(filter backend,$(1)),$(CUDA_OBJS))
	@rm -f $$@; mkdir -p $$(@D); ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call archive,$(f))))

libs = $(foreach f,$(DEPS_$(1)),$(BUILD)/lib$(f).a)

$(BUILD)/riptide: $(call libs,bench) $(BUILD)/obj/cli/cli_main.o
	$(CC) $(LDFLAGS) -o $@ $(BUILD)/obj/cli/cli_main.o -Wl,--start-group $(call libs,bench) -Wl,--end-group $(LDLIBS)

# tests/unit/<folder>/test_x.c, tests/ops/test_x.c, tests/model/test_x.c: one cmocka binary each.
TEST_SRCS := $(sort $(wildcard tests/unit/*/test_*.c tests/ops/test_*.c tests/model/test_*.c))
TEST_BINS := $(patsubst tests/%.c,$(BUILD)/tests/%,$(TEST_SRCS))
TEST_SUPPORT := $(BUILD)/tests/support/test_main.o $(BUILD)/tests/support/guard.o

$(BUILD)/tests/support/%.o: tests/support/%.c
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -c $< -o $@

define unit_rule
$(BUILD)/tests/unit/$(1)/%: tests/unit/$(1)/%.c $(TEST_SUPPORT) $(call libs,$(1))
	@mkdir -p $$(@D)
	$(CC) $(CFLAGS) -Itests -o $$@ $$< $(TEST_SUPPORT) $(LDFLAGS) -Wl,--start-group $(call libs,$(1)) -Wl,--end-group -lcmocka $(LDLIBS)
endef
$(foreach f,$(FOLDERS),$(eval $(call unit_rule,$(f))))
$(BUILD)/tests/ops/%: tests/ops/%.c $(TEST_SUPPORT) $(call libs,backend)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -o $@ $< $(TEST_SUPPORT) $(LDFLAGS) -Wl,--start-group $(call libs,backend) -Wl,--end-group -lcmocka $(LDLIBS)
$(BUILD)/tests/model/%: tests/model/%.c $(TEST_SUPPORT) $(call libs,cli)
	@mkdir -p $(@D)
	$(CC) $(CFLAGS) -Itests -o $@ $< $(TEST_SUPPORT) $(LDFLAGS) -Wl,--start-group $(call libs,cli) -Wl,--end-group -lcmocka $(LDLIBS)

include tools/targets.mk

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
