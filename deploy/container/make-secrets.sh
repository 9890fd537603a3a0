#!/bin/sh
# Writes random passwords, and the URLs with them, into a folder for compose.yaml. Existing files stay.
# Add the connection strings of the namespaces yourself: contoso_primary and contoso_secondary.
#
#   sh deploy/container/make-secrets.sh deploy/container/secrets
set -eu
folder=${1:-"$(dirname "$0")/secrets"}
# Only you can open the folder; in a container, a separate account reads the one file that it is given.
mkdir -p -m 0700 "$folder"

random() {
    od -An -N32 -tx1 /dev/urandom | tr -d ' \n'
}
keep() {
    if [ ! -e "$folder/$1" ]; then
        printf '%s\n' "$2" > "$folder/$1"
        chmod 0444 "$folder/$1"
    fi
}

keep secret_key "$(random)"
keep postgres_password "$(random)"
keep database_url "postgres://paired:$(cat "$folder/postgres_password")@postgres/paired"
if [ ! -e "$folder/redis_auth" ]; then
    password=$(random)
    keep redis_auth "requirepass $password"
    keep redis_url "redis://:$password@redis:6379/0"
fi
