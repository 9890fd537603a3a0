#!/bin/sh
# The live tests that azservicebus comes with, led to a namespace by a connection string alone: what they ask a token
# service for they get from SERVICEBUS_CONNECTION_STRING, and addresses get the port SERVICEBUS_PORT.
set -eu
package=github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus
if [ "$1" = build ]; then
    go mod download "$package"
    mkdir live
    cp -r "$(go list -m -f '{{.Dir}}' "$package")/." live
    chmod -R u+w live
    cd live
    cat > internal/sbauth/local.go <<'END'
package sbauth

import (
	"fmt"
	"os"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/internal/conn"
)

func local(credential azcore.TokenCredential) *TokenProvider {
	if fmt.Sprintf("%T", credential) != "*azidentity.DefaultAzureCredential" {
		return &TokenProvider{tokenCred: credential}
	}
	properties, err := conn.ParseConnectionString(os.Getenv("SERVICEBUS_CONNECTION_STRING"))
	if err != nil {
		panic(err)
	}
	provider, err := NewTokenProviderWithConnectionString(properties)
	if err != nil {
		panic(err)
	}
	return provider
}
END
    cat > internal/conn/local.go <<'END'
package conn

import "os"

func WithPort(host string) string { return host + ":" + os.Getenv("SERVICEBUS_PORT") }
END
    sed -i 's/return &TokenProvider{tokenCred: tokenCredential}/return local(tokenCredential)/' internal/sbauth/token_provider.go
    sed -i 's|"https://%s/", ns)|"https://%s/", conn.WithPort(ns))|' internal/atom/entity_manager.go
    sed -i 's|"wss://%s/", ns.FQDN|"wss://%s/", conn.WithPort(ns.FQDN)|
        s|\(fqdn = \)ns.customEndpoint|&\n\t} else if useCustomEndpoint {\n\t\t\1conn.WithPort(fqdn)|' internal/namespace.go
    for part in . ./admin ./internal; do (cd "$part" && go test -c -o live.test .); done
    exit
fi
cd "$(dirname "$0")/live"
export AZURE_RECORD_MODE=live
for part in . ./admin ./internal; do
    (cd "$part" && ./live.test -test.v -test.timeout 20m -test.skip "$1" -test.run "$2") || true
done
