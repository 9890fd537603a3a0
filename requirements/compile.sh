#!/bin/sh
# Writes the hashed requirements files from the pyproject.toml files. No index address is recorded.
# Run from the root of the repository with uv on the PATH; `-U` as an argument upgrades.
set -eu
compile() {
    uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
        --no-emit-index-url --no-emit-find-links --no-annotate --no-header "$@"
}
# The control plane, with those extras of the library that it requires: what [tool.build-packages] in its file says.
plane="pyproject.toml packages/control-plane/pyproject.toml packages/amqp10/pyproject.toml"
plane="$plane packages/emulator/pyproject.toml packages/gateway/pyproject.toml"
plane="$plane --extra aio --extra identity --extra redis --extra tracing --extra websockets"
# shellcheck disable=SC2086
compile "$@" $plane --extra pipeline --group setup -o requirements/run.txt
# shellcheck disable=SC2086
compile "$@" $plane --extra pipeline --group setup --group test --group check \
    -c requirements/run.txt -o requirements/test.txt
# shellcheck disable=SC2086
compile "$@" $plane --group setup -c requirements/run.txt -o requirements/demo.txt
for group in setup redis-server java; do
    compile "$@" --group "$group" -o "requirements/$group.txt"
done
