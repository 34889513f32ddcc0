# SPDX-License-Identifier: GPL-2.0
#
# Two kinds of targets: those that build the driver with kbuild, for a kernel
# that was given, and those that run it in the lab (tests/lab), which makes all
# it needs by itself. `make help` lists them.

KDIR ?= /lib/modules/$(shell uname -r)/build

# KDIR, KERNEL_SRC, DRIVER and FILTER reach the lab through the environment,
# as make passes on what was given on its command line; the default above it
# does not pass on.

CARGO ?= cargo
LAB := target/debug/ravb-lab

.PHONY: all
all: modules

# Driver, by kbuild.

.PHONY: modules modules_install rust-analyzer clippy
modules: need-metadata
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules

modules_install:
	$(MAKE) -C $(KDIR) M=$(CURDIR) modules_install

# For editors: writes rust-project.json, and into it where the generated file is
# that the crate includes; a build makes that.
rust-analyzer: need-metadata
	$(MAKE) -C $(KDIR) M=$(CURDIR) rust-analyzer
	sed -i 's|^\( *\)"RUST_MODFILE"|\1"RAVB_RS_BINDINGS": "$(CURDIR)/bindings/bindings_generated.rs",\n&|' \
		rust-project.json

# Builds the objects through clippy with the kernel's settings.
clippy: need-metadata
	$(MAKE) -C $(KDIR) M=$(CURDIR) CLIPPY=1 modules

.PHONY: need-metadata
need-metadata:
	@if [ ! -d "$(KDIR)" ]; then \
		echo "$(KDIR) does not exist: give a kernel build tree with KDIR=," >&2; \
		echo "or run \`make demo\`, which brings its own kernel" >&2; exit 1; \
	elif [ ! -e "$(KDIR)/rust/libkernel.rmeta" ]; then \
		echo "$(KDIR) has no Rust metadata (rust/libkernel.rmeta):" >&2; \
		echo "give a tree built with CONFIG_RUST=y in KDIR=; distributions'" >&2; \
		echo "header packages lack it. \`make stock\` builds the module for the" >&2; \
		echo "stock Debian arm64 kernel" >&2; exit 1; \
	fi

# Formatting; kbuild has no such targets for modules outside its tree.

RUST_FILES = $(shell git ls-files '*.rs')

.PHONY: rustfmt rustfmtcheck
rustfmt:
	rustfmt --edition 2021 --config-path .rustfmt.toml $(RUST_FILES)

rustfmtcheck:
	rustfmt --edition 2021 --config-path .rustfmt.toml --check $(RUST_FILES)

# Lab.

.PHONY: lab
lab:
	@command -v $(CARGO) > /dev/null || \
		{ echo "cargo is missing: install it (1.85 or newer)" >&2; exit 1; }
	@$(CARGO) build --quiet --locked --package ravb-lab

.PHONY: demo shell check check-all ksft faults check-list bench bench-full
.PHONY: bench-check stock graft update
demo: lab
	@$(LAB) demo

shell: lab
	@$(LAB) shell

check: lab
	@$(LAB) check

check-all: lab
	@$(LAB) check --all

# The kernel's own selftests, with both drivers.
ksft: lab
	@FILTER=$(or $(FILTER),ksft) $(LAB) check --all

check-list: lab
	@$(LAB) check --all --list

# Failures of each allocation in turn; the table of them goes into the documentation.
faults: lab
	@rm -f target/lab/faults.*
	@FILTER=debug-faults $(LAB) check --all
	@cp target/lab/faults.rst Documentation/

# What a packet costs, and whether it costs more than it did.
bench: lab
	@$(LAB) bench

# Also on kernels that are built here, with Rust compiled in four ways.
bench-full: bench
	@$(LAB) bench --lean

bench-check: lab
	@FILTER=bench- $(LAB) check

# The module for the stock kernel; prints where it is.
stock: lab
	@$(LAB) build module

# Copies the driver into the tree of KERNEL_SRC=.
graft: lab
	@$(LAB) graft

update: lab
	@$(LAB) update

# Cleaning.

MADE := *.o *.ko *.mod *.mod.c .*.cmd *.d modules.order Module.symvers \
	bindings/*.o bindings/.*.cmd bindings/*.d \
	ravb_*/*.o ravb_*/.*.cmd net/*.o net/.*.cmd \
	bindings/bindings_generated.rs rust-project.json

.PHONY: clean distclean
clean:
	rm -f $(MADE)

# Also what cargo made and what the lab cached (build root, kernel, QEMU).
distclean: clean lab
	@$(LAB) clean --all
	rm -rf target

.PHONY: help
help:
	@echo 'Driver (KDIR=, by default the running kernel):'
	@echo '  all, modules     - build ravb-rs.ko'
	@echo '  modules_install  - install it'
	@echo '  rust-analyzer    - write rust-project.json for editors'
	@echo '  clippy           - build through clippy with the kernel'\''s settings'
	@echo '  rustfmt          - format all Rust files'
	@echo '  rustfmtcheck     - check their format'
	@echo
	@echo 'Lab (needs Debian packages and cargo, no kernel and no board):'
	@echo '  demo             - real traffic through the driver; DRIVER=rust, c or both'
	@echo '  shell            - a prompt in the virtual machine; DRIVER=rust or c'
	@echo '  check            - run the tests; FILTER=text chooses by name'
	@echo '  check-all        - also the long ones'
	@echo '  ksft             - the kernel'\''s own selftests, with both drivers'
	@echo '  faults           - table of allocations that failed, for Documentation'
	@echo '  check-list       - names of all tests'
	@echo '  bench            - what a packet costs, beside the stock driver'
	@echo '  bench-full       - also on kernels with Rust compiled in different ways'
	@echo '  bench-check      - whether it costs more than it did'
	@echo '  stock            - build ravb-rs.ko for the stock Debian arm64 kernel'
	@echo '  graft            - put the driver into the kernel tree KERNEL_SRC='
	@echo '  update           - let the next run fetch the archive'\''s newest kernel'
	@echo '  KDIR=            - use this arm64 kernel build tree instead of the stock kernel'
	@echo '  KERNEL_SRC=      - use this source tree instead of Debian'\''s linux-source'
	@echo
	@echo '  clean            - remove what kbuild made'
	@echo '  distclean        - also cargo'\''s and the lab'\''s results'
