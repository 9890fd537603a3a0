#!/bin/sh
# Writes the hashed requirements files from pyproject.toml. No index address is recorded.
# Run from the root of the repository with uv on the PATH; `-U` as an argument upgrades.
set -eu
compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@"
}
compile "$@" pyproject.toml --extra control-plane --extra pipeline --group setup -o requirements/run.txt
compile "$@" pyproject.toml --extra control-plane --extra pipeline --group setup --group test --group check \
    -c requirements/run.txt -o requirements/test.txt
compile "$@" pyproject.toml --extra control-plane --group setup -c requirements/run.txt -o requirements/demo.txt
for group in setup redis-server java; do
    compile "$@" --group "$group" -o "requirements/$group.txt"
done
