# Every target sets itself up: on a fresh clone `make demo` or `make test` is enough.
#
#   VENV=.venv      where the environment lives
#   PYTHON=python3  the Python to make it from (otherwise the newest of 3.13, 3.12, 3.11 found)
#   JOBS=2          how many processes run the tests
#   ARGS=...        more arguments for pytest, the demo or the benchmark, e.g. ARGS="-k universal -x"

VENV ?= .venv
VENV35 ?= .venv-spark35
VENV_INTEROP ?= .venv-interop
VENV_SERVERS ?= .venv-servers
PYTHON ?=
ARGS ?=
# Test processes, each with a Spark session of its own when it needs one (4 GB); a file's tests stay together.
JOBS ?= 2

PY := $(VENV)/bin/python
# What tests start or run that is not Packstone's: servers, a KDC, and the checks of what is in deploy/.
SERVERS := $(addprefix $(VENV_SERVERS)/.stamp-,packages hdfs databases kerberos manifests grafana)
# C1 and the serial collector start faster; the archive (scripts/make-cds-archive) holds Spark's classes ready-made.
FAST_JVM := -XX:TieredStopAtLevel=1 -XX:+UseSerialGC
# Otherwise the JVM says on stdout when the archive does not fit; stdout belongs to the command under test.
QUIET_JVM := -Xlog:disable
jvm_options = $(FAST_JVM) -XX:SharedArchiveFile=$(abspath $(1))/spark.jsa -Xshare:auto $(QUIET_JVM)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install demo test test-spark35 interop lint fmt bench bench-tree bench-segments bench-scan soak clean

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / {printf "  make %-13s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

install: $(VENV)/.stamp-java ## Make the environment in .venv, with Spark and, if there is none, Java

demo: install ## Run the guided tour on a generated lake
	$(VENV)/bin/packstone demo $(ARGS)

test: install $(VENV)/.stamp-archive $(SERVERS) ## Run the tests (ARGS="-k name" for some of them)
	PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q -n $(JOBS) --dist loadfile --durations=10 $(ARGS) tests

test-spark35: $(VENV35)/.stamp-java $(VENV35)/.stamp-archive $(SERVERS) ## Run the tests on Spark 3.5, in .venv-spark35
	PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV35))" \
	    $(VENV35)/bin/python -m pytest -q --durations=10 $(ARGS) tests

interop: install $(VENV)/.stamp-archive $(VENV_INTEROP)/.stamp-jars $(VENV35)/.stamp-java ## Let pypaimon, pypaimon-rust and Java Paimon read what Packstone compacted
	PACKSTONE_INTEROP=1 PACKSTONE_INTEROP_VENV="$(abspath $(VENV_INTEROP))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q -n $(JOBS) --dist loadfile --durations=10 $(ARGS) tests/interop

# One loop, so that every check runs and all failures are reported at once.
lint: install ## Check style, types, layers and sizes
	@failed=; \
	for check in "ruff check" "ruff format --check" "mypy" "lint-imports --no-logo" "python scripts/check-tree"; do \
	    echo "== $$check"; $(VENV)/bin/$$check || failed="$$failed  $$check;"; \
	done; \
	[ -z "$$failed" ] || { echo "lint failed:$$failed"; exit 1; }

fmt: install ## Format the code and fix what can be fixed
	$(VENV)/bin/ruff format
	$(VENV)/bin/ruff check --fix

bench: install ## Measure merging of small files against other ways
	$(PY) bench/small_files.py $(ARGS)

bench-tree: install ## Measure merging of sorted runs and whole Paimon compactions against other ways (after make interop: Java's too)
	$(PY) bench/merge_tree.py $(ARGS)

bench-segments: install ## Measure loading and compacting segment tables against Spark, and planning many segments
	$(PY) bench/segments.py $(ARGS)

bench-scan: install ## Measure filters and full scans of a segment table against Spark and DuckDB
	$(PY) bench/scan.py $(ARGS)

soak: install $(VENV)/.stamp-archive $(SERVERS) ## Run the long forms of the tests (crash matrix, models); an hour or more
	PACKSTONE_SOAK=1 PACKSTONE_SERVERS_VENV="$(abspath $(VENV_SERVERS))" PACKSTONE_JVM_OPTIONS="$(call jvm_options,$(VENV))" \
	    $(PY) -m pytest -q --durations=10 -m soak $(ARGS) tests

clean: ## Remove the environments and everything built
	rm -rf $(VENV) $(VENV35) $(VENV_INTEROP) $(VENV_SERVERS) build dist .coverage htmlcov .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	rm -rf artifacts derby.log metastore_db spark-warehouse
	find src tests scripts bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# ---- how the environments come about: stamps, so that a second `make install` has nothing to do ----

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

# No stamp where nothing could be reached: the next `make test` asks again.
$(VENV_SERVERS)/.stamp-hdfs: scripts/fetch-hdfs-jars | $(VENV_SERVERS)/.stamp-packages
	scripts/fetch-hdfs-jars $(VENV_SERVERS)/hdfs-jars $(PY)
	@[ -e $(VENV_SERVERS)/hdfs-jars/why-not.txt ] || touch $@

# No stamp where something is missing: the next `make test` asks again.
$(VENV_SERVERS)/.stamp-databases: scripts/ensure-databases | $(VENV_SERVERS)/.stamp-packages
	scripts/ensure-databases
	@! scripts/ensure-databases --check || touch $@

# No stamp where something is missing: the next `make test` asks again.
$(VENV_SERVERS)/.stamp-kerberos: scripts/ensure-kerberos | $(VENV_SERVERS)/.stamp-packages
	scripts/ensure-kerberos
	@! scripts/ensure-kerberos --check || touch $@

# No stamp where it could not be built: the next `make test` tries again.
$(VENV_SERVERS)/.stamp-manifests: scripts/build-manifest-check $(wildcard scripts/check-manifests/*) | $(VENV_SERVERS)/.stamp-packages
	scripts/build-manifest-check $(VENV_SERVERS)/manifest-check
	@[ -e $(VENV_SERVERS)/manifest-check/why-not.txt ] || touch $@

# No stamp where npm could not be reached: the next `make test` asks again.
$(VENV_SERVERS)/.stamp-grafana: scripts/fetch-grafana-types | $(VENV_SERVERS)/.stamp-packages
	scripts/fetch-grafana-types $(VENV_SERVERS)/grafana-types
	@[ -e $(VENV_SERVERS)/grafana-types/why-not.txt ] || touch $@

# No stamp where Maven could not be reached: the next `make interop` asks again.
$(VENV_INTEROP)/.stamp-jars: $(VENV_INTEROP)/.stamp-packages scripts/fetch-interop-jars
	scripts/fetch-interop-jars $(VENV_INTEROP)/jars
	@[ -e $(VENV_INTEROP)/jars/why-not.txt ] || touch $@

$(VENV)/.stamp-java: $(VENV)/.stamp-packages scripts/ensure-java
	scripts/ensure-java $(VENV) constraints.txt
	@touch $@

$(VENV35)/.stamp-java: $(VENV35)/.stamp-packages scripts/ensure-java
	scripts/ensure-java $(VENV35) constraints-spark35.txt
	@touch $@

# Without the archive sessions start slower and everything works all the same, so a failure is only told.
%/.stamp-archive: %/.stamp-java scripts/make-cds-archive
	@$*/bin/python scripts/make-cds-archive $*/spark.jsa || echo "no class-data archive; the tests run without it" >&2
	@touch $@
