# Two commands do everything on a fresh Debian 12, as root: `make run` and `make test`.

CARGO ?= cargo
# Debian's own, which sees the packages that scripts/deps installs.
PYTHON ?= /usr/bin/python3
.PHONY: run balance cluster build install quick test check unit loom system cards bench bench-ipsec bench-routes bench-queues bench-services bench-multicore routers soak soak-cluster soak-chaos soak-agreement soak-cards miri stress fuzz deny eval docs deps deps-test deps-bench deps-eval deps-routes deps-cards clean

# Start here: a router between a client and a server, real traffic, a live table of rates.
run: deps build
	$(PYTHON) tests/system/demo.py

# Four servers as one router (RouteBricks' RB4) on this machine, traffic between all pairs, and what the hosts saw; needs root.
cluster: deps build
	$(PYTHON) tests/system/cluster.py

# Two Linux boxes with FRR and an Ashlar behind a balancer as one router; prints lines `balance NAME VALUE`.
balance: deps-test deps-routes build
	$(PYTHON) tests/system/balance.py

build: deps
	$(CARGO) build --release --locked

MAN = /usr/local/share/man
BASH_COMPLETIONS = /usr/local/share/bash-completion/completions
ZSH_COMPLETIONS = /usr/local/share/zsh/site-functions
FISH_COMPLETIONS = /usr/local/share/fish/vendor_completions.d

# Installs the program, its manual pages and completions, its systemd units, and the user that they run as; needs root.
install: build
	install -s -m 755 target/release/ashlar /usr/local/bin/ashlar
	install -D -m 644 -t /etc/systemd/system dist/ashlar@.service dist/netns@.service
	install -d /etc/ashlar $(MAN)/man1 $(BASH_COMPLETIONS) $(ZSH_COMPLETIONS) $(FISH_COMPLETIONS)
	target/release/ashlar man $(MAN)/man1
	target/release/ashlar completions bash > $(BASH_COMPLETIONS)/ashlar
	target/release/ashlar completions zsh > $(ZSH_COMPLETIONS)/_ashlar
	target/release/ashlar completions fish > $(FISH_COMPLETIONS)/ashlar.fish
	id ashlar > /dev/null 2>&1 || useradd --system ashlar

# While you work: CRATE and TEST leave out all other crates, and tests without TEST in their names.
quick: CRATES = $(if $(CRATE),-p $(CRATE),--workspace)
quick:
	$(CARGO) fmt --all --check
	$(CARGO) clippy $(CRATES) --all-targets --locked -- -D warnings
	$(CARGO) test $(CRATES) --lib --locked $(TEST) -- $(SKIPPED)

# All tests. Those of network cards, of which there is a short part here, are skipped where QEMU cannot be installed.
test: deps deps-test unit check loom system
	-@scripts/deps cards
	ASHLAR_BIN=$(TESTED) $(PYTHON) -m pytest -q tests/cards -m short -k e1000e

# The program that tests run. To compile it with all optimisations takes longer than they would save.
TESTED = $(CURDIR)/target/debug/ashlar

# Who starts programs otherwise: machine::program itself, `ashlar keep`, which hands descriptors on, and `ashlar confine`,
# which becomes the program.
STARTERS = machine/src/program\.rs|ashlar/src/keep/mod\.rs|ashlar/src/confine/mod\.rs
check:
	scripts/words
	@! grep -rn 'Command::new(' crates --include=*.rs | grep -vE '/tests/|/examples/|tests?\.rs:|$(STARTERS)' || \
		{ echo 'error: start programs by machine::program, so that they inherit no descriptor' >&2; exit 1; }
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

# Tests that need root, or data from beside the project, are left out where there is none, and counted as filtered out.
SKIPPED = $(if $(wildcard $(or $(ASHLAR_SHARED),../shared)/data),,--skip shared_data) $(if $(filter 0,$(shell id -u)),,--skip needs_root)
unit:
	$(CARGO) test --workspace --locked -- $(SKIPPED)

# Writes the pages anew that are generated from the sources: docs/elements/, docs/click.md, the element in CONTRIBUTING.md.
docs:
	ASHLAR_BLESS=1 $(CARGO) test -p ashlar --lib --locked docs

# Rings and published tables in every order of memory accesses, with bounded preemption.
loom:
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 $(CARGO) test -p sync --lib --locked --target-dir target/loom -- loom

# Real peers in network namespaces, which only root can make. Modules run beside each other: mostly they wait for timers.
system: deps
	$(CARGO) build --workspace --bins --locked
	ASHLAR_BIN=$(TESTED) $(PYTHON) -m pytest -q -n $(BESIDE) --dist loadfile -m 'not alone' tests/system
	ASHLAR_BIN=$(TESTED) $(PYTHON) -m pytest -q -m alone tests/system

BESIDE = $(shell expr 2 + $$(nproc) / 2)

# Network cards, emulated by QEMU, in guests with Debian's kernel and this machine's files; needs root.
cards: deps deps-cards build
	$(PYTHON) -m pytest -q tests/cards

# One core compared with testpmd and l3fwd; needs root and 7.7 GiB of memory for hugepages, because all run at once. Then
# instructions per packet, with their bounds: they need the release build, which `make test` does not make.
bench: deps deps-bench build
	$(PYTHON) eval/bench/bench.py
	$(PYTHON) eval/bench/instructions --bound

# IPsec on one core compared with DPDK's ipsec-secgw and with the ciphers alone; needs root, two cores and 4.5 GiB for hugepages.
bench-ipsec: deps deps-bench build
	$(PYTHON) eval/ipsec/run

# Routes by netlink and BGP into the tables, compared with Linux, and their effect on forwarding; needs root and two cores.
bench-routes: deps deps-routes build
	$(PYTHON) eval/routes/run

# Two cores compared with one, and flows that move to another worker while packets pass; needs root, two cores and 1.75 GiB for hugepages.
bench-queues: deps deps-eval build
	$(CARGO) build --release --locked -p ashlar --example paced
	$(PYTHON) eval/queues/run

# What the services of conf/services cost on one core, ordering by deadlines on one and two, and a tree of shares, whatever the number
# of packets that wait, beside rte_sched; and whether guarantees hold. Prints `services NAME VALUE` lines.
bench-services: deps deps-bench
	$(PYTHON) eval/services/run

# Many routers in one process: what shared ports, routers and neighbours cost. Needs a quiet core.
routers: deps build
	$(PYTHON) eval/routers/run

# For a machine with more cores: measures what eval computes for two cores.
bench-multicore: deps deps-eval build
	$(PYTHON) eval/run rb-fig6 vr-fig8-10 vr9-baselines nic-fig2-3 nic-fig4-5 qs-fig4 qs-fig5

# Measures the papers' figures and tables again, in about an hour; needs root, two cores and 1.75 GiB for hugepages.
eval: deps deps-eval build
	$(PYTHON) eval/run

# The long tests.
soak: deps deps-test deps-cards build miri stress soak-cluster soak-agreement soak-chaos soak-cards fuzz deny
	SEEDS=10000 $(CARGO) test -p agree --lib --release --locked seeds
	RUSTFLAGS="--cfg loom" $(CARGO) test -p sync --lib --release --locked --target-dir target/loom -- loom
	ASHLAR_SOAK=1 $(CARGO) test -p ports --lib --release --locked memif

# Licences, known vulnerabilities, versions and sources of other people's crates (deny.toml). Not part of `make test`: it asks the
# advisory database, and to build cargo-deny takes minutes.
deny:
	@$(CARGO) deny --version > /dev/null 2>&1 || $(CARGO) install --locked cargo-deny
	$(CARGO) deny check

miri:
	scripts/nightly miri

stress: build
	ASHLAR_SOAK=1 $(PYTHON) -m pytest -q tests/system

# Four servers for ten minutes without a false alarm, then twenty failures of each kind.
soak-cluster: build
	$(PYTHON) tests/system/soak_cluster.py

# Ten minutes in which something happens to a router under load every second.
soak-chaos: build
	$(PYTHON) tests/system/chaos.py

# Ten minutes of chaos among four servers that agree by etcd, and among etcd's members.
soak-agreement: build
	$(PYTHON) tests/system/soak_agreement.py

# Ten minutes in which cards and interfaces are unplugged, renamed, made anew and changed under a router, in a guest.
soak-cards: build deps-cards
	$(PYTHON) tests/cards/soak_cards.py

fuzz:
	scripts/nightly fuzz 600

deps:
	@scripts/deps run

deps-test:
	@scripts/deps test

deps-bench:
	@scripts/deps bench

deps-eval:
	@scripts/deps eval

deps-routes:
	@scripts/deps routes

deps-cards:
	@scripts/deps cards

clean:
	$(CARGO) clean
