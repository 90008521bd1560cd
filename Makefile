# Two commands do everything on a fresh Debian 12, as root: `make run` and `make test`.

CARGO ?= cargo
# Debian's own, which sees the packages that scripts/deps installs.
PYTHON ?= /usr/bin/python3
.PHONY: run cluster build install test check unit loom system bench bench-routes bench-queues bench-multicore soak soak-cluster miri stress fuzz eval docs deps deps-test deps-bench deps-eval deps-routes clean

# The main job: a router between a client and a server, real traffic, a live table of rates.
run: deps build
	$(PYTHON) tests/system/demo.py

# Four servers as one router (RouteBricks' RB4) on this machine, traffic between all pairs, and what the hosts saw; needs root.
cluster: deps build
	$(PYTHON) tests/system/cluster.py

build: deps
	$(CARGO) build --release --locked

# The program, its systemd units, and the user that they run as; needs root.
install: build
	install -m 755 target/release/ashlar /usr/local/bin/ashlar
	install -D -m 644 -t /etc/systemd/system dist/ashlar@.service dist/netns@.service
	install -d /etc/ashlar
	id ashlar > /dev/null 2>&1 || useradd --system ashlar

# All tests.
test: deps deps-test check unit loom build system

check:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings

unit:
	$(CARGO) test --workspace --locked

# What is made from sources in docs and CONTRIBUTING.md, written anew.
docs:
	ASHLAR_BLESS=1 $(CARGO) test -p ashlar --lib --locked docs

# Rings and published tables under every order of memory accesses, with bounded preemption.
loom:
	RUSTFLAGS="--cfg loom" LOOM_MAX_PREEMPTIONS=2 $(CARGO) test -p engine --lib --locked --target-dir target/loom -- loom

# Real peers in network namespaces; needs root.
system: build
	$(PYTHON) -m pytest -q tests/system

# One core against testpmd and l3fwd; needs root and 7.5 GiB of memory for hugepages, as all are there at once.
bench: deps deps-bench build
	$(PYTHON) eval/bench/bench.py

# Routes by netlink and BGP into the tables beside Linux, and what forwarding notices; needs root and two cores.
bench-routes: deps deps-routes build
	$(PYTHON) eval/routes/run

# Two cores against one, and flows that change worker while packets pass; needs root, two cores and 1.75 GiB for hugepages.
bench-queues: deps deps-eval build
	$(CARGO) build --release --locked -p ashlar --example paced
	$(PYTHON) eval/queues/run

# On a machine with more cores: what two cores cannot show, measured instead of computed.
bench-multicore: deps deps-eval build
	$(PYTHON) eval/run rb-fig6 vr-fig8-10 nic-fig2-3 nic-fig4-5

# The papers' figures and tables again, within half an hour; needs root, two cores and 1.75 GiB for hugepages.
eval: deps deps-eval build
	$(PYTHON) eval/run

# The long ones.
soak: deps deps-test build miri stress soak-cluster fuzz
	RUSTFLAGS="--cfg loom" $(CARGO) test -p engine --lib --release --locked --target-dir target/loom -- loom

miri:
	scripts/nightly miri

stress: build
	ASHLAR_SOAK=1 $(PYTHON) -m pytest -q tests/system

# Four servers for ten minutes without a false alarm, then twenty failures of each kind.
soak-cluster: build
	$(PYTHON) tests/system/soak_cluster.py

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

clean:
	$(CARGO) clean
