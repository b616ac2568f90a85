# Targets that only call other tools; included by the Makefile.
test: all $(TEST_BINS)
	python3 tests/run.py --build $(BUILD)
fast: $(TEST_BINS)
	python3 tests/run.py --build $(BUILD) --tag fast
asan:
	$(MAKE) BUILD=build/asan SAN="-fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer" OPT=-O1 NVCC= fast
tsan:
	$(MAKE) BUILD=build/tsan SAN="-fsanitize=thread" OPT=-O1 NVCC= fast
clean:
	rm -rf build
