# kproxy. The two commands to know: `make demo` and `make test`. Both install what they need.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# With COVERAGE=1, `make check` and `make test` note which lines they reach, also in the processes that they start.
RUN := $(BIN)/python $(if $(COVERAGE),-m coverage run) -m pytest
export COVERAGE_FILE := $(CURDIR)/.coverage/data

.PHONY: help demo test coverage test-compiled tools check docs test-matrix test-soak format bench bench-compiled bench-quick dist pyz image spark-package troubleshooting clean
.DEFAULT_GOAL := help

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 22

$(STAMP): pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[demo]" --group dev
	@touch $@

demo: $(STAMP) ## a real three-broker cluster with unreachable names, kproxy, real clients (ONCE=1 ends after the story)
	$(BIN)/kproxy demo $(if $(ONCE),--once)

# Four processes used all of two cores, with ten programs that waited for one: a slow machine missed deadlines. A test
# that loads the machine itself runs alone at the end, unless ARGS chooses tests.
test: $(STAMP) tools ## all tests, on real brokers and real clients
	$(RUN) -n 3 -m "not matrix and not soak and not alone" $(ARGS)
	$(if $(filter-out --ignore=%,$(ARGS)),,$(RUN) -m alone tests/soak)

# The floor is what the tests reached when it was set (93.9 %); what no test reaches is listed in .coverage/missing.txt.
coverage: $(STAMP) ## how much of kproxy the tests reach that ran with COVERAGE=1
	$(BIN)/coverage combine --quiet
	$(BIN)/coverage report --show-missing --skip-covered --fail-under=0 >.coverage/missing.txt
	$(BIN)/coverage report --format=total --precision=1 --fail-under=93

# A copy of the tree over which a compiled wheel is unpacked: the sources here stay without compiled modules.
COMPILED := build/compiled
$(COMPILED)/.unpacked: $(STAMP) hatch_build.py $(shell find kproxy -name '*.py' -o -name '*.pxd')
	rm -rf $(COMPILED) && mkdir -p $(COMPILED)/tree
	KPROXY_COMPILED=1 $(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir $(COMPILED) .
	git ls-files -z --cached --others --exclude-standard --deduplicate | xargs -0 cp --parents --target-directory $(COMPILED)/tree
	$(BIN)/python -m zipfile --extract $(COMPILED)/*.whl $(COMPILED)/tree
	@touch $@

test-compiled: $(COMPILED)/.unpacked ## the unit tests, fuzzing and the oracle on the compiled data plane; needs a C compiler
	cd $(COMPILED)/tree && PYTHONPATH=$$PWD TESTED=compiled ../../../$(BIN)/python -m pytest -q -n 2 -m "not matrix and not soak" $(or $(ARGS),tests/unit tests/fuzz tests/oracle)

# What the tests use that is neither on PyPI nor on Maven: a client, servers on the way to a broker, network namespaces,
# a reader of captures, Kerberos, a browser, shells. Without one its tests are skipped, with this reason.
PROGRAMS := chromium fish haproxy ip kcat microsocks sshd tinyproxy tshark krb5kdc kadmin.local kinit krb5-config zsh
TOOLS := chromium fish haproxy iproute2 kcat microsocks openssh-server tinyproxy tshark krb5-kdc krb5-admin-server krb5-user libkrb5-dev zsh
tools: $(STAMP)
	@export DEBIAN_FRONTEND=noninteractive; PATH=$$PATH:/usr/sbin which $(PROGRAMS) >/dev/null 2>&1 || { apt-get install -y -qq $(TOOLS) || { apt-get update -qq && apt-get install -y -qq $(TOOLS); }; } \
	  >/dev/null 2>&1 || echo "not all of these are installed (apt-get install $(TOOLS)): tests that need one are skipped"
	@$(BIN)/python -c "import gssapi" 2>/dev/null || $(BIN)/python -m pip install --quiet --editable ".[gssapi]" >/dev/null 2>&1 \
	  || echo "gssapi cannot be built (it needs a C compiler and libkrb5-dev): the tests of Kerberos are skipped"
	@$(BIN)/python -c "import pyspark" 2>/dev/null || $(BIN)/python -m pip install --quiet --group spark >/dev/null 2>&1 \
	  || echo "pyspark cannot be installed: the tests of kproxy.spark are skipped"

check: $(STAMP) ## the fast loop: format, lint, types, import direction, unit tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform darwin --cache-dir .mypy_cache/darwin
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/win32 -p kproxy.config -p kproxy.advice.explain -p kproxy.advice.lint
	$(BIN)/lint-imports --no-cache
	$(RUN) -q -n 4 tests/unit -m "not matrix and not soak" $(ARGS)

format: $(STAMP) ## format and sort
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# What the image is built and run with.
test-matrix: PROGRAMS += buildah debootstrap runc
test-matrix: TOOLS += buildah debootstrap runc
test-matrix: $(STAMP) tools ## slow: versions of brokers and clients, long fuzzing
	HYPOTHESIS_PROFILE=thorough $(BIN)/python -m pytest -q -m "not matrix" tests/unit/protocol/wire tests/unit/protocol/rewrite tests/unit/proxy/relay tests/unit/proxy/cluster tests/unit/proxy/switching
	$(BIN)/python -m pytest -m matrix $(ARGS)

test-soak: $(STAMP) tools ## slow: sessions that outlast many logins, half an hour of chaos
	$(BIN)/python -m pytest -m soak $(ARGS)

bench: $(STAMP) ## kproxy beside HAProxy and no relay at all, about 25 minutes; needs root, cc, iproute2 and haproxy
	$(BIN)/python -m bench $(ARGS)

bench-compiled: $(COMPILED)/.unpacked ## the same with the compiled data plane
	cd $(COMPILED)/tree && PYTHONPATH=$$PWD ../../../$(BIN)/python -m bench $(ARGS)

bench-quick: $(STAMP) ## the same with a few loads, under a minute; one JSON object last
	$(BIN)/python -m bench --quick $(ARGS)

# The tools of a release have an environment of their own: nothing of kproxy needs them.
RELEASE := build/release/bin
$(RELEASE)/pex:
	$(PYTHON) -m venv build/release
	$(RELEASE)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(RELEASE)/python -m pip install --quiet build twine pex cyclonedx-bom

DIST := dist
dist: $(RELEASE)/pex ## a wheel and a source archive in dist/, checked, and a list of what they need (SBOM)
	$(RELEASE)/python -m build --outdir $(DIST) .
	$(RELEASE)/twine check --strict $(DIST)/*.whl $(DIST)/*.tar.gz
	rm -rf build/installed && $(PYTHON) -m venv build/installed && build/installed/bin/python -m pip install --quiet $(DIST)/*.whl
	$(RELEASE)/cyclonedx-py environment --output-reproducible --output-file $(DIST)/kproxy.cdx.json build/installed

# For this kind of machine, and each of these Pythons: one file has what all of them need.
PYTHONS = $(foreach version,3.11 3.12 3.13 3.14,$(shell command -v python$(version)))
pyz: $(RELEASE)/pex ## dist/kproxy.pyz, one file that runs with each Python from 3.11 on that is on this machine
	@mkdir -p $(DIST)
	$(RELEASE)/pex . --console-script kproxy --venv prepend --output-file $(DIST)/kproxy.pyz \
	  --python-shebang "/usr/bin/env python3" $(foreach python,$(PYTHONS),--python $(python))
	@echo "$(DIST)/kproxy.pyz runs with: $(PYTHONS)"

# Docker's, Podman's and Buildah's `build` are alike, but in the format of the two others an image has no health check.
ENGINE = $(firstword $(shell for one in docker podman buildah; do command -v $$one; done))
IMAGE = kproxy:$(shell sed -n 's/^version = "\(.*\)"/\1/p' pyproject.toml)
image: ## the container image kproxy:VERSION, made by Docker, Podman or Buildah (ENGINE=… for another)
	@test -n "$(ENGINE)" || { echo "make image needs Docker, Podman or Buildah" >&2; exit 1; }
	$(ENGINE) build $(if $(filter podman buildah,$(notdir $(firstword $(ENGINE)))),--format docker) --tag $(IMAGE) $(ARGS) .

spark-package: $(STAMP) ## what Spark is given, in dist/: the plugin's jar, a wheel, an archive with a Python of its own
	@$(BIN)/python -c "import pyspark" 2>/dev/null || $(BIN)/python -m pip install --quiet --group spark
	$(BIN)/python -m kproxy.spark package dist $(ARGS)

SITE := build/site
docs: $(STAMP) ## the documentation site in build/site, with a search; a broken link is an error (BUILDER=linkcheck asks other servers too)
	$(BIN)/python -m sphinx -W --keep-going -n -q -b $(or $(BUILDER),html) -c tools/site -d build/doctrees . $(SITE)
	$(if $(BUILDER),,cp $(SITE)/README.html $(SITE)/index.html)

troubleshooting: $(STAMP) ## docs/troubleshooting.md, from kproxy/advice/remedies and kproxy/base/messages
	$(BIN)/python -m tools.troubleshooting

clean: ## remove what the targets above made
	rm -rf $(VENV) build dist tests/oracle/build .cache .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
