# Targets that only call other tools; included by the Makefile. The comment behind ## is the help.

PYTHON ?= $(firstword $(wildcard /usr/bin/python3) python3)
FUZZ_SECONDS ?= 60
# A child make with its own build folder. CUDA is left out: the sanitizers cannot look into it.
SUB = +$(MAKE) --no-print-directory NVCC=

test: all $(TEST_BINS) $(PROBE_BINS) ## build and run every test
	$(PYTHON) tests/run.py --build $(BUILD)

fast: $(FAST_BINS) ## the tests that need no model: units, ops
	$(if $(CASES),RIPTIDE_TEST_CASES=$(CASES)) \
	    $(PYTHON) tests/run.py --build $(BUILD) --tag $(TAG) $(if $(SAN),--patience 5)

# Three targets share the objects of one build: clang's warnings, sanitized tests, fuzz targets.
CLANG_ASAN := BUILD=build/asan CC=clang OPT=-O1 SAN="-fsanitize=address,undefined,fuzzer-no-link \
	-fno-sanitize-recover=all -fno-omit-frame-pointer"
asan: ## the fast tests under the address and undefined behaviour sanitizers, 4 cases an op
	$(SUB) $(CLANG_ASAN) CASES=4 fast

ubsan: ## the fast tests under the undefined behaviour sanitizer alone
	$(SUB) BUILD=build/ubsan OPT=-O1 SAN="-fsanitize=undefined -fno-sanitize-recover=all" fast

tsan: ## the fast tests with threads under the thread sanitizer, of each op the first 3 cases
	$(SUB) BUILD=build/tsan OPT=-O1 SAN="-fsanitize=thread" TAG=threads CASES=3 fast

clang: ## build everything with clang too (its warnings differ), as `asan` wants it
	$(SUB) $(CLANG_ASAN) all tests

# The emulator takes some 20 times as long: the tests of kernels run their first cases only.
AARCH64_TESTS := $(addprefix tests/unit/,base tensor token cache sample load backend) \
	tests/ops/test_ops.c
aarch64: ## build for aarch64 and run the tests below the models there, emulated
	$(SUB) BUILD=build/aarch64 CC=aarch64-linux-gnu-gcc LDLIBS="-lpcre2-8 -lutf8proc -lxxhash \
	    -lpthread -lm" aarch64-bins
	RIPTIDE_TEST_CASES=3 $(PYTHON) tests/run.py --build build/aarch64 --under qemu-aarch64 \
	    --patience 5 $(AARCH64_TESTS)

aarch64-bins: $(call libs,all) $(filter $(addprefix $(BUILD)/,$(AARCH64_TESTS:.c=) \
	$(addsuffix /%,$(AARCH64_TESTS))),$(TEST_BINS))

counts: $(BUILD)/tests/model/test_counts ## write tests/counts.csv anew, for review as a diff
	RIPTIDE_COUNTS_WRITE=tests/counts.csv $<

tests: $(TEST_BINS) $(PROBE_BINS) ## build all tests without running them

bench: $(BENCH_BINS) $(WORKSHOP) ## build the benchmark programs of bench/ and the workshop

fuzz: ## run every fuzz target for FUZZ_SECONDS (needs clang)
	$(SUB) $(CLANG_ASAN) fuzz-bins
	sh tools/fuzz_run.sh build/asan $(FUZZ_SECONDS)

fuzz-bins: $(FUZZ_BINS)

check: ## layers, style rules, format, linter
	$(PYTHON) tools/check_layers.py
	$(PYTHON) tools/check_style.py
	sh tools/check_format.sh
	sh tools/check_lint.sh

format: ## rewrite the sources as .clang-format says
	sh tools/check_format.sh --fix

install: all ## put the program and the bundled models under PREFIX
	install -d $(DESTDIR)$(PREFIX)/bin $(DESTDIR)$(PREFIX)/share/riptide/models
	install -m 755 $(BUILD)/riptide $(DESTDIR)$(PREFIX)/bin/riptide
	install -d $(DESTDIR)$(PREFIX)/share/bash-completion/completions
	install -m 644 tools/completion/riptide.bash \
	    $(DESTDIR)$(PREFIX)/share/bash-completion/completions/riptide
	for m in models/*/; do \
	    d=$(DESTDIR)$(PREFIX)/share/riptide/$$m; \
	    install -d $$d && install -m 644 $$m* $$d || exit 1; \
	done

clean: ## remove everything that was built
	rm -rf build

help: ## this list
	@echo "variables: BUILD=$(BUILD) CC=$(CC) OPT=$(OPT) PREFIX=$(PREFIX) NVCC=$(NVCC)"
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/  \1\t\2/p' tools/targets.mk | expand -t 12
	@echo "  all         the program \$$(BUILD)/riptide (the default)"

.PHONY: bench clang tests counts fuzz-bins aarch64 aarch64-bins
