// What azservicebus for Go can do, in numbered steps. The connection string is in SERVICEBUS_CONNECTION_STRING, the number
// of steps to walk in STEPS, all by default. Without the hint that this is an emulator the SDK speaks TLS, is led to the
// port by a custom endpoint, and takes the authority of the server's certificate from SSL_CERT_FILE.
package main

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

type step struct {
	name string
	do   func()
}

const patience = 30 * time.Second

var (
	connectionString = os.Getenv("SERVICEBUS_CONNECTION_STRING")
	administered     = cmp.Or(os.Getenv("ADMINISTRATION_CONNECTION_STRING"), connectionString) // behind a gateway
	prefix           = fmt.Sprintf("go-%d-", time.Now().UnixNano())
	queue            = prefix + "queue"
	pair             = prefix + "pair"
	sessions         = prefix + "sessions"
	topic            = prefix + "topic"
	background       = context.Background()
	client           *azservicebus.Client
	administration   *admin.Client
	sender           *azservicebus.Sender
	receiver, dead   *azservicebus.Receiver
)

// plainTransport sends what the administration client means for HTTPS to the port of the emulator.
type plainTransport struct{}

func (plainTransport) Do(request *http.Request) (*http.Response, error) {
	request.URL.Scheme = "http"
	return http.DefaultClient.Do(request)
}

func open() {
	client = must(connect(connectionString))
	administration = must(admin.NewClientFromConnectionString(
		administered, &admin.ClientOptions{ClientOptions: azcore.ClientOptions{Transport: plainTransport{}}}))
}

func connect(text string) (*azservicebus.Client, error) {
	options := &azservicebus.ClientOptions{RetryOptions: azservicebus.RetryOptions{MaxRetries: -1}}
	if !strings.Contains(text, "UseDevelopmentEmulator=true") {
		endpoint := regexp.MustCompile("sb://([^:;/]+):[0-9]+").FindStringSubmatch(text)
		text = strings.Replace(text, endpoint[0], "sb://"+endpoint[1], 1)
		options.CustomEndpoint = strings.TrimPrefix(endpoint[0], "sb://")
	}
	return azservicebus.NewClientFromConnectionString(text, options)
}

func main() {
	if len(os.Args) > 1 {
		sends()
		return
	}
	steps := append(firstSteps, administrationSteps...)
	for _, more := range [][]step{messageSteps, settlementSteps, sessionSteps, refusalSteps} {
		steps = append(steps, more...)
	}
	if wanted, err := strconv.Atoi(os.Getenv("STEPS")); err == nil {
		steps = steps[:wanted]
	}
	open()
	passed := 0
	for number, each := range steps {
		if walk(number+1, each) {
			passed++
		}
	}
	fmt.Printf("# pass %d\n", passed)
	check(client.Close(background) == nil, "the client did not close")
	if passed < len(steps) {
		os.Exit(1)
	}
}

func walk(number int, each step) (passed bool) {
	began := time.Now()
	defer func() {
		if failure := recover(); failure != nil {
			fmt.Printf("not ok %d %s: %v\n", number, each.name, failure)
			return
		}
		passed = true
		fmt.Printf("ok %d %s (%.1f s)\n", number, each.name, time.Since(began).Seconds())
	}()
	each.do()
	return
}
