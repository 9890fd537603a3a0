#!/bin/sh
# Makes a private authority, which can vouch for this one name only, and its certificate for the name, in a folder.
#
#   sh deploy/container/make-authority.sh contoso.servicebus.windows.net deploy/container/tls
set -eu
name=$1 folder=$2
mkdir -p -m 0700 "$folder"
cd "$folder"
[ ! -e key.pem ] || exit 0
openssl req -x509 -newkey rsa:3072 -nodes -days 3650 -subj "/CN=gateway of $name" -keyout ca-key.pem -out ca.pem \
    -addext "keyUsage=critical,keyCertSign" -addext "nameConstraints=critical,permitted;DNS:$name" 2> /dev/null
openssl req -newkey rsa:3072 -nodes -subj "/CN=gateway" -keyout key.pem -out cert.csr 2> /dev/null
printf 'subjectAltName=DNS:%s\n' "$name" |
    openssl x509 -req -in cert.csr -CA ca.pem -CAkey ca-key.pem -CAcreateserial -days 825 -extfile /dev/stdin \
        -out cert.pem 2> /dev/null
rm cert.csr
chmod 0444 ca.pem cert.pem key.pem
