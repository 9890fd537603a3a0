# Each target sets up what it needs; the second time that costs a second. Extra arguments: make test ARGS="-k syphon"
PYTHON ?= python3
ARGS ?=

.PHONY: demo quick test nightly bench campaign soak check docs setup object-stores

# The recipes are plain commands on purpose: make then runs them without a shell in between, and the set-up notices
# when make is killed.
demo:
	@$(PYTHON) tools/bootstrap.py demo $(ARGS)

test:
	@$(PYTHON) tools/bootstrap.py test $(ARGS)

quick:
	@$(PYTHON) tools/bootstrap.py quick $(ARGS)

nightly:
	@$(PYTHON) tools/bootstrap.py nightly $(ARGS)

bench:
	@$(PYTHON) tools/bootstrap.py bench $(ARGS)

campaign:
	@$(PYTHON) tools/bootstrap.py campaign $(ARGS)

soak:
	@$(PYTHON) tools/bootstrap.py soak $(ARGS)

check:
	@$(PYTHON) tools/bootstrap.py check $(ARGS)

docs:
	@$(PYTHON) tools/bootstrap.py docs $(ARGS)

setup:
	@$(PYTHON) tools/bootstrap.py setup

object-stores:
	@$(PYTHON) tools/bootstrap.py object-stores
