# riptide: one Makefile. `make help` lists the targets. All output goes to $(BUILD).
# Each folder of src/ is an archive; a folder's tests link only the archives it may use, which
# tools/layers.txt tells. Targets that only call other tools are in tools/targets.mk.

ifeq ($(origin CC),default)
CC := gcc
endif
BUILD ?= build
OPT ?= -O2
SAN ?=
NVCC ?= $(firstword $(wildcard /usr/local/cuda/bin/nvcc) $(shell command -v nvcc 2>/dev/null))
PREFIX ?= /usr/local

all:

# --- what is built -----------------------------------------------------------------------------

ifeq ($(filter clean help format,$(MAKECMDGOALS)),)
include $(BUILD)/gen/layers.mk
endif
$(BUILD)/gen/layers.mk: tools/layers.txt tools/layers_mk.awk
	@mkdir -p $(@D)
	@awk -f tools/layers_mk.awk tools/layers.txt > $@.part && mv $@.part $@

srcs = $(sort $(shell find src/$(1) -name '*.c' 2>/dev/null))
obj = $(patsubst src/%.c,$(BUILD)/obj/%.o,$(1))
DEPS_all := $(FOLDERS)
libs = $(foreach f,$(DEPS_$(1)),$(BUILD)/lib$(f).a)
comma := ,
MAINS := $(wildcard src/*/*_main.c)

# CUDA is built where there is a compiler for it; without one the rest is complete.
CUDA_SRCS := $(sort $(wildcard src/backend/cuda/*.cu))
ifneq ($(NVCC),)
ifneq ($(wildcard src/backend/cuda/cuda_backend.cu),)
HAS_CUDA := 1
CUDA_DIR := $(patsubst %/bin/nvcc,%,$(realpath $(NVCC)))
CUDA_OBJS := $(patsubst src/%.cu,$(BUILD)/obj/%.cu.o,$(CUDA_SRCS))
CUDA_LIBS := -L$(CUDA_DIR)/lib64 -lcudart_static -ldl -lrt -lstdc++
endif
endif

# --- how ---------------------------------------------------------------------------------------

# Cutting a message short is what snprintf is used for; gcc's guess when depends on -O.
WARN := -Wall -Wextra -Wshadow -Wstrict-prototypes -Wmissing-prototypes -Werror \
	-Wno-format-truncation -Wno-unknown-warning-option
FLAGS := -std=c11 -D_GNU_SOURCE -g $(OPT) $(SAN) $(WARN) -Isrc -I$(BUILD)/gen -fno-math-errno \
	-ffp-contract=off -MMD -MP $(CFLAGS)
LDLIBS := -lcurl -luv -ledit -lpcre2-8 -lutf8proc -lxxhash -lcrypto -lsqlite3 $(CUDA_LIBS) -lpthread -lm
NVFLAGS ?= -O3 -std=c++17 -gencode arch=compute_90a,code=sm_90a \
	-gencode arch=compute_80,code=compute_80
# -fmad=false: what is fused is said, or two kernels that owe each other the same bits may differ.
NVFLAGS += -fmad=false -Isrc -lineinfo --expt-relaxed-constexpr -Xcompiler -Wall,-Wextra,-Werror \
	--Werror all-warnings
# $(1) objects, $(2) the folder whose archives are linked
link = $(CC) $(SAN) -Wl,--as-needed $(LDFLAGS) -o $@ $(1) -Wl,--start-group $(call libs,$(2)) \
	$(if $(filter server,$(DEPS_$(2))),$(LLHTTP)) -Wl,--end-group $(3) $(LDLIBS)

# The suffix of a kernel file sets the instruction set it is compiled for. Its flags are known only
# to compilers for that machine; for another the file is empty.
ifneq ($(filter x86_64-%,$(shell $(CC) -dumpmachine)),)
AVX2 := -mavx2 -mfma -mf16c -mbmi2
AVX512 := $(AVX2) -mavx512f -mavx512bw -mavx512vl -mavx512dq
%_avx2.o: ISA := $(AVX2)
%_avx512.o: ISA := $(AVX512)
%_avx512vnni.o: ISA := $(AVX512) -mavx512vnni
%_amx.o: ISA := $(AVX512) -mavx512vnni -mamx-tile -mamx-int8
endif
# Kernels are loops: -O3. `ref` is the definition, vectorised only where that keeps the order.
# A sanitizer takes minutes for the kernels' many forms (v16_priv.h): it sees each loop once.
$(BUILD)/obj/backend/ref/%.o: EXTRA := $(if $(SAN),,-O3)
$(BUILD)/obj/backend/cpu/%.o: EXTRA := $(if $(SAN),-DV16_FORMS_ARE_ONE,-O3)
# Where each variable of all those forms lies would double the time to compile them; lines stay.
$(BUILD)/obj/backend/cpu/kernels_%.o: EXTRA += $(if $(SAN),,-g1)
$(BUILD)/obj/tensor/block_affine.o $(BUILD)/obj/tensor/block_encode_step.o \
	$(BUILD)/obj/tensor/quant.o: EXTRA := $(if $(SAN),,-O3)
$(BUILD)/obj/backend/registry.o: EXTRA := $(if $(HAS_CUDA),-DRIPTIDE_CUDA)
# The HTTP parser comes from Debian as C sources; strict mode refuses what others let pass.
LLHTTP_DIR ?= /usr/share/llhttp
LLHTTP_INCLUDE ?= /usr/share/include/llhttp
LLHTTP := $(BUILD)/libllhttp.a
$(BUILD)/obj/server/%.o: EXTRA := -isystem $(LLHTTP_INCLUDE)
$(BUILD)/obj/server/chat_page.o: src/server/chat.html

.PHONY: all test fast asan tsan ubsan fuzz check format install clean help FORCE
.DELETE_ON_ERROR:
.SECONDARY:

all: $(if $(filter src/cli/cli_main.c,$(MAINS)),$(BUILD)/riptide,$(call libs,all))
ifneq ($(HAS_CUDA),1)
	@echo "note: built without the cuda backend: $(if $(NVCC),it has no sources,no nvcc found)"
endif

# What was compiled with other flags is compiled again: the stamps change only with their text.
stamp = @mkdir -p $(@D); echo '$(1)' | cmp -s - $@ || echo '$(1)' > $@
$(BUILD)/gen/flags: FORCE
	$(call stamp,$(CC) $(FLAGS))
$(BUILD)/gen/has_cuda: FORCE
	$(call stamp,$(HAS_CUDA))
$(BUILD)/gen/nvflags: FORCE
	$(call stamp,$(NVCC) $(NVFLAGS))
$(BUILD)/obj/backend/registry.o: $(BUILD)/gen/has_cuda

$(BUILD)/obj/%.o: src/%.c $(BUILD)/gen/flags | $(BUILD)/gen/build_id.h
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -Wconversion -Wno-sign-conversion $(EXTRA) $(ISA) -c $< -o $@

$(BUILD)/obj/%.cu.o: src/%.cu $(BUILD)/gen/nvflags
	@mkdir -p $(@D)
	$(NVCC) $(NVFLAGS) -MMD -MP -MF $(BUILD)/obj/$*.cu.d -c $< -o $@

$(BUILD)/obj/llhttp/%.o: $(LLHTTP_DIR)/%.c
	@mkdir -p $(@D)
	$(CC) -std=c11 -g $(OPT) $(SAN) -w -DLLHTTP_STRICT_MODE=1 -I$(LLHTTP_INCLUDE) -c $< -o $@
$(LLHTTP): $(BUILD)/obj/llhttp/llhttp.o $(BUILD)/obj/llhttp/api.o $(BUILD)/obj/llhttp/http.o
	@rm -f $@
	ar rcs $@ $^

# A hash of the sources, for benchmark records and file names of caches. Written only when it
# changes, so that only what includes it is compiled again.
$(BUILD)/gen/build_id.h: FORCE
	@mkdir -p $(@D)
	@sh tools/build_id.sh $@

# $(1) folder. Mains stay outside the archive: each is linked into its own program.
define archive
$(BUILD)/lib$(1).a: $(call obj,$(filter-out $(MAINS),$(call srcs,$(1)))) $(if $(filter backend,$(1)),$(CUDA_OBJS))
	@rm -f $$@; mkdir -p $$(@D)
	ar rcs $$@ $$^
endef
$(foreach f,$(FOLDERS),$(eval $(call archive,$(f))))

# The program links every folder.
$(BUILD)/riptide: $(BUILD)/obj/cli/cli_main.o $(call libs,all) $(LLHTTP)
	$(call link,$<,all)

# --- tests -------------------------------------------------------------------------------------
# In a test a variable may have the name of a type (`model`); only locals must not hide each other.
# tests/unit/<folder>/test_x.c links what that folder may use, tests/ops/test_x.c what backend may;
# tests/model/test_x.c, tests/oracle/x.c, tests/fuzz/fuzz_x.c and bench/x.c link everything,
# unless their first line says `links: <folder>`.

TEST_SRCS := $(sort $(wildcard tests/unit/*/test_*.c tests/ops/test_*.c tests/model/test_*.c))
tagged = $(shell sed -s -n '1{/tags:.*$(1)/F;}' /dev/null $(2))
FAST_SRCS := $(call tagged,fast,$(filter tests/model/%,$(TEST_SRCS))) $(filter-out \
	$(call tagged,slow,$(TEST_SRCS)),$(filter tests/unit/% tests/ops/%,$(TEST_SRCS)))
# TAG=threads: only those that start threads.
TAG ?= fast
ifeq ($(TAG),threads)
FAST_SRCS := $(call tagged,[: ]threads[^-],$(FAST_SRCS))
endif
PROBE_SRCS := $(sort $(wildcard tests/oracle/*.c))
FUZZ_SRCS := $(sort $(wildcard tests/fuzz/fuzz_*.c))
bins = $(patsubst tests/%.c,$(BUILD)/tests/%,$(1))
TEST_BINS := $(call bins,$(TEST_SRCS))
FAST_BINS := $(call bins,$(FAST_SRCS))
PROBE_BINS := $(call bins,$(PROBE_SRCS))
FUZZ_BINS := $(call bins,$(FUZZ_SRCS))
TEST_SUPPORT := $(patsubst tests/%.c,$(BUILD)/tests/%.o,$(wildcard tests/support/*.c))
links = $(or $(shell sed -n '1s/.*links: *\([a-z]*\).*/\1/p' $(1)),all)

# To optimise sanitized code takes longer than these tests run, but for folders whose tests compute
# what they expect.
$(BUILD)/tests/unit/%.o: TEST_OPT := $(if $(SAN),-O0)
$(foreach f,backend load tensor token,$(BUILD)/tests/unit/$(f)/%.o): TEST_OPT :=
$(BUILD)/tests/%.o: tests/%.c $(BUILD)/gen/flags | $(BUILD)/gen/build_id.h
	@mkdir -p $(@D)
	$(CC) $(FLAGS) $(TEST_OPT) -Wno-shadow -Wshadow=local -Itests -c $< -o $@

# $(1) path below tests/ without suffix, $(2) folder
define test_rule
$(BUILD)/tests/$(1): $(BUILD)/tests/$(1).o $(TEST_SUPPORT) $(call libs,$(2)) $(if $(filter server,$(DEPS_$(2))),$(LLHTTP))
	$$(call link,$$< $(TEST_SUPPORT),$(2),-Wl$$(comma)--wrap=pthread_create -lcmocka)
endef
$(foreach t,$(filter tests/unit/%,$(TEST_SRCS)),$(eval $(call \
	test_rule,$(t:tests/%.c=%),$(word 3,$(subst /, ,$(t))))))
$(foreach t,$(filter tests/ops/%,$(TEST_SRCS)),$(eval $(call test_rule,$(t:tests/%.c=%),backend)))
$(foreach t,$(filter tests/model/%,$(TEST_SRCS)),$(eval $(call \
	test_rule,$(t:tests/%.c=%),$(call links,$(t)))))

# $(1) path below tests/ without suffix, $(2) folder, $(3) more to link
define program_rule
$(BUILD)/tests/$(1): $(BUILD)/tests/$(1).o $(call libs,$(2)) $(if $(filter server,$(DEPS_$(2))),$(LLHTTP))
	$$(call link,$$<,$(2),$(3))
endef
$(foreach t,$(PROBE_SRCS),$(eval $(call program_rule,$(t:tests/%.c=%),$(call links,$(t)))))
$(foreach t,$(FUZZ_SRCS),$(eval $(call program_rule,$(t:tests/%.c=%),$(call links,$(t)),-fsanitize=fuzzer)))

# --- benchmarks that are programs of their own (`riptide bench` has the others) -----------------

# `needs: <packages>` in the first line: built only where pkg-config knows these.
needs = $(shell sed -n '1s/.*needs: *\([^*]*[^ *]\) *\*.*/\1/p' $(1))
has = $(if $(call needs,$(1)),$(shell pkg-config --exists $(call needs,$(1)) 2>/dev/null && echo yes),yes)
BENCH_SRCS := $(foreach t,$(sort $(wildcard bench/*.c)),$(if $(call has,$(t)),$(t)))
BENCH_BINS := $(patsubst %.c,$(BUILD)/%,$(BENCH_SRCS))
$(BUILD)/bench/%.o: bench/%.c $(BUILD)/gen/flags | $(BUILD)/gen/build_id.h
	@mkdir -p $(@D)
	$(CC) $(FLAGS) -c $< -o $@
define bench_rule
$(BUILD)/$(1): $(BUILD)/$(1).o $(call libs,$(2)) $(if $(filter server,$(DEPS_$(2))),$(LLHTTP))
	$$(call link,$$<,$(2),$(3))
endef
$(foreach t,$(BENCH_SRCS),$(eval $(call bench_rule,$(t:%.c=%),$(call links,$(t)),$(if $(call \
	needs,$(t)),$(shell pkg-config --libs $(call needs,$(t)))))))

# Kernels under trial; links the product's own as the ones to beat.
WORKSHOP_OBJS := $(patsubst %.cu,$(BUILD)/%.cu.o,$(sort $(wildcard bench/workshop/*.cu)))
WORKSHOP := $(if $(HAS_CUDA),$(if $(WORKSHOP_OBJS),$(BUILD)/riptide-workshop))
$(BUILD)/bench/workshop/%.cu.o: bench/workshop/%.cu $(BUILD)/gen/nvflags
	@mkdir -p $(@D)
	$(NVCC) $(NVFLAGS) -MMD -MP -MF $(@:.o=.d) -c $< -o $@
$(BUILD)/riptide-workshop: $(WORKSHOP_OBJS) $(call libs,backend)
	$(call link,$(WORKSHOP_OBJS),backend)

include tools/targets.mk

-include $(shell find $(BUILD)/obj $(BUILD)/tests $(BUILD)/bench -name '*.d' 2>/dev/null)
