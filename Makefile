# Every target sets itself up: on a fresh clone `make demo` or `make test` is enough.
#
#   VENV=.venv      where the environment lives
#   PYTHON=python3  the Python to make it from (otherwise the newest of 3.13, 3.12, 3.11 found)
#   JOBS=2          how many processes run the tests
#   PACKSTONE_TEST_PATIENCE=4  multiplies the time limits of tests, for a busy machine
#   ARGS=...        more arguments for pytest, the demo or the benchmark, e.g. ARGS="-k universal -x"

VENV ?= .venv
VENV35 ?= .venv-spark35
VENV_INTEROP ?= .venv-interop
VENV_SERVERS ?= .venv-servers
PYTHON ?=
ARGS ?=
# Test processes; a file's tests stay together, and those that share the Spark session (4 GB) are in one process.
JOBS ?= 2
# The share of examples that `make test` runs (tests/samples.py); CI runs all of them.
EXAMPLES_PCT ?= 10

PY := $(VENV)/bin/python
# What `make test-servers` starts or runs that is not Packstone's: servers, a KDC, and the checks of what is in deploy/.
SERVERS := $(addprefix $(VENV_SERVERS)/.stamp-,packages hdfs databases kerberos manifests grafana)
# C1 and the serial collector start faster; the archive (scripts/make-cds-archive) contains Spark's preloaded classes.
FAST_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# Otherwise the JVM prints on stdout if the archive does not match; stdout belongs to the command under test.
QUIET_JVM := -Xlog:disable
jvm_options = $(FAST_JVM) -XX:SharedArchiveFile=$(abspath $(1))/spark.jsa -Xshare:auto $(QUIET_JVM)

# Bytecode of our own modules, as every installed package has it: otherwise each process compiles a hundred of them.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-servers test-spark35 interop lint fmt bench bench-formats bench-growth bench-tree bench-segments bench-scan soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.stamp-java ## Create the environment in .venv, with Spark and, if there is none, Java

demo: install ## Run the guided tour on a generated lake
	$(VENV)/bin/packstone demo $(ARGS)

# Which tests need a server is found from their fixtures (tests/needs.py). Every test is in exactly one of test,
# test-servers, interop and soak; tests/test_house.py checks it.
test: install $(VENV)/.stamp-archive ## Run the tests that need no server (ARGS="-k name" for some of them)
	PACKSTONE_TEST_EXAMPLES_PCT="$(EXAMPLES_PCT)" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q -n $(JOBS) --dist loadscope --durations=10 -m "not (soak or slow or servers)" $(ARGS) tests

test-servers: install $(VENV)/.stamp-archive $(SERVERS) ## Run the tests on HDFS, S3, MariaDB, PostgreSQL, Kerberos, YARN and Spark clusters, and the slow ones
	PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q -n $(JOBS) --dist loadfile --durations=10 -m "(slow or servers) and not soak" $(ARGS) tests

test-spark35: $(VENV35)/.stamp-java $(VENV35)/.stamp-archive $(SERVERS) ## Run test and test-servers on Spark 3.5, in .venv-spark35
	PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV35))" \
	    $(VENV35)/bin/python -m pytest -q --durations=10 -m "not soak" $(ARGS) tests

interop: install $(VENV)/.stamp-archive $(VENV_INTEROP)/.stamp-jars $(VENV35)/.stamp-java ## Read compacted tables with pypaimon, pypaimon-rust and Java Paimon
	PACKSTONE_INTEROP=1 PACKSTONE_INTEROP_VENV="$(abspath $(VENV_INTEROP))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q -n $(JOBS) --dist loadfile --durations=10 -m "not soak" $(ARGS) tests/interop

# One loop, so that every check runs and all failures are reported at once.
lint: install ## Check style, types, layers and the names of modules
	@failed=; \
	for check in "ruff check" "ruff format --check" "mypy" "lint-imports --no-logo" "python scripts/check-tree"; do \
	    echo "== $$check"; $(VENV)/bin/$$check || failed="$$failed  $$check;"; \
	done; \
	[ -z "$$failed" ] || { echo "lint failed:$$failed"; exit 1; }

fmt: install ## Format the code and apply ruff's fixes
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

bench: install ## Benchmark merging of small files (four sets) against other tools
	$(PY) bench/small_files.py $(ARGS)

bench-formats: install ## Benchmark merging of ORC, Avro, CSV and JSON lines against Spark
	$(PY) bench/small_files.py --sets orc,avro,csv,csv-gzip,json,json-gzip $(ARGS)

bench-growth: install ## Benchmark cost and memory of 1 to 10 GB and of up to 100,000 files (ARGS="--scale 0.01" for a short form)
	$(PY) bench/growth.py $(ARGS)

bench-tree: install ## Benchmark merging of sorted runs and whole Paimon compactions against other tools (after make interop also Java)
	$(PY) bench/merge_tree.py $(ARGS)

bench-segments: install ## Benchmark loading and compacting segment tables against Spark, and planning many segments
	$(PY) bench/segments.py $(ARGS)

bench-scan: install ## Benchmark filters and full scans of a segment table against Spark and DuckDB
	$(PY) bench/scan.py $(ARGS)

soak: install $(VENV)/.stamp-archive $(SERVERS) ## Run the long versions of the tests (crash matrix, models); an hour or more
	PACKSTONE_SOAK=1 PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q --durations=10 -m soak $(ARGS) tests

clean: ## Remove the environments and everything built
	rm -rf $(VENV) $(VENV35) $(VENV_INTEROP) $(VENV_SERVERS) build dist .coverage htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- how the environments are created: stamps, so that a second `make install` has nothing to do ----

$(VENV)/.stamp-packages: pyproject.toml constraints.txt scripts/make-venv
	PYTHON="$(PYTHON)" scripts/make-venv $(VENV) constraints.txt
	@touch $@

$(VENV35)/.stamp-packages: pyproject.toml constraints-spark35.txt scripts/make-venv
	PYTHON="$(PYTHON)" PYTHONS="python3.11 python3.12 python3" scripts/make-venv $(VENV35) constraints-spark35.txt
	@touch $@

$(VENV_INTEROP)/.stamp-packages: constraints-interop.txt scripts/make-interop-venv | $(VENV)/.stamp-packages
	PYTHON="$(PYTHON)" UV="$(VENV)/bin/uv" scripts/make-interop-venv $(VENV_INTEROP) constraints-interop.txt
	@touch $@

$(VENV_SERVERS)/.stamp-packages: constraints-servers.txt scripts/make-servers-venv | $(VENV)/.stamp-packages
	PYTHON="$(PYTHON)" UV="$(VENV)/bin/uv" scripts/make-servers-venv $(VENV_SERVERS) constraints-servers.txt
	@touch $@

# No stamp where nothing could be reached: the next `make test-servers` asks again.
$(VENV_SERVERS)/.stamp-hdfs: scripts/fetch-hdfs-jars | $(VENV_SERVERS)/.stamp-packages
	scripts/fetch-hdfs-jars $(VENV_SERVERS)/hdfs-jars $(PY)
	@[ -e $(VENV_SERVERS)/hdfs-jars/why-not.txt ] || touch $@

# No stamp where something is missing: the next `make test-servers` asks again.
$(VENV_SERVERS)/.stamp-databases: scripts/ensure-databases | $(VENV_SERVERS)/.stamp-packages
	scripts/ensure-databases
	@! scripts/ensure-databases --check || touch $@

# No stamp where something is missing: the next `make test-servers` asks again.
$(VENV_SERVERS)/.stamp-kerberos: scripts/ensure-kerberos | $(VENV_SERVERS)/.stamp-packages
	scripts/ensure-kerberos
	@! scripts/ensure-kerberos --check || touch $@

# No stamp where it could not be built: the next `make test-servers` tries again.
$(VENV_SERVERS)/.stamp-manifests: scripts/build-manifest-check $(wildcard scripts/check-manifests/*) | $(VENV_SERVERS)/.stamp-packages
	scripts/build-manifest-check $(VENV_SERVERS)/manifest-check
	@[ -e $(VENV_SERVERS)/manifest-check/why-not.txt ] || touch $@

# No stamp where npm could not be reached: the next `make test-servers` asks again.
$(VENV_SERVERS)/.stamp-grafana: scripts/fetch-grafana-types | $(VENV_SERVERS)/.stamp-packages
	scripts/fetch-grafana-types $(VENV_SERVERS)/grafana-types
	@[ -e $(VENV_SERVERS)/grafana-types/why-not.txt ] || touch $@

# No stamp if Maven could not be reached: the next `make interop` tries again.
$(VENV_INTEROP)/.stamp-jars: $(VENV_INTEROP)/.stamp-packages scripts/fetch-interop-jars
	scripts/fetch-interop-jars $(VENV_INTEROP)/jars
	@[ -e $(VENV_INTEROP)/jars/why-not.txt ] || touch $@

$(VENV)/.stamp-java: $(VENV)/.stamp-packages scripts/ensure-java
	scripts/ensure-java $(VENV) constraints.txt
	@touch $@

$(VENV35)/.stamp-java: $(VENV35)/.stamp-packages scripts/ensure-java
	scripts/ensure-java $(VENV35) constraints-spark35.txt
	@touch $@

# Without the archive sessions start slower but everything works, so a failure is only reported.
%/.stamp-archive: %/.stamp-java scripts/make-cds-archive
	@$*/bin/python scripts/make-cds-archive $*/spark.jsa || echo "no class-data archive; the tests run without it" >&2
	@touch $@
