package main

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/runtime"
	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// link is what receivers with and without a session have in common.
type link interface {
	ReceiveMessages(context.Context, int, *azservicebus.ReceiveMessagesOptions) ([]*azservicebus.ReceivedMessage, error)
	CompleteMessage(context.Context, *azservicebus.ReceivedMessage, *azservicebus.CompleteMessageOptions) error
}

func must[T any](value T, err error) T {
	done(err)
	return value
}

func done(err error) {
	if err != nil {
		panic(err)
	}
}

func check(holds bool, format string, values ...any) {
	if !holds {
		panic(fmt.Sprintf(format, values...))
	}
}

func equal(found, wanted any) {
	check(reflect.DeepEqual(found, wanted), "%#v is not %#v", found, wanted)
}

func within(wait time.Duration) context.Context {
	limited, cancel := context.WithTimeout(background, wait)
	time.AfterFunc(wait+time.Second, cancel)
	return limited
}

// failsWith expects an error of the SDK with this code.
func failsWith(code azservicebus.Code, err error) {
	var found *azservicebus.Error
	check(errors.As(err, &found) && found.Code == code, "%v is not the error %s", err, code)
}

// says expects an error with this text.
func says(text string, err error) {
	check(err != nil && strings.Contains(strings.ToLower(err.Error()), text), "%v does not say %q", err, text)
}

// status expects an answer of the administration with this status.
func status(wanted int, err error) {
	var found *azcore.ResponseError
	check(errors.As(err, &found) && found.StatusCode == wanted, "%v is not the status %d", err, wanted)
}

func text(body string) *azservicebus.Message {
	return &azservicebus.Message{Body: []byte(body)}
}

func send(through *azservicebus.Sender, messages ...*azservicebus.Message) {
	for _, message := range messages {
		done(through.SendMessage(within(patience), message, nil))
	}
}

// next returns the next message, which has to come.
func next(from link) *azservicebus.ReceivedMessage {
	messages := must(from.ReceiveMessages(within(patience), 1, nil))
	equal(len(messages), 1)
	return messages[0]
}

func sendAndReceive(message *azservicebus.Message) *azservicebus.ReceivedMessage {
	send(sender, message)
	return next(receiver)
}

func complete(from link, messages ...*azservicebus.ReceivedMessage) {
	for _, message := range messages {
		done(from.CompleteMessage(within(patience), message, nil))
	}
}

// expect receives messages with these bodies, in this order, and completes them.
func expect(from link, bodies ...string) {
	for _, body := range bodies {
		found := next(from)
		equal(string(found.Body), body)
		complete(from, found)
	}
}

func peek(from *azservicebus.Receiver, number int64, count int) []*azservicebus.ReceivedMessage {
	return must(from.PeekMessages(
		within(patience), count, &azservicebus.PeekMessagesOptions{FromSequenceNumber: to.Ptr(number)}))
}

func deferred(message *azservicebus.ReceivedMessage) *azservicebus.ReceivedMessage {
	found := must(receiver.ReceiveDeferredMessages(within(patience), []int64{*message.SequenceNumber}, nil))
	equal(len(found), 1)
	return found[0]
}

func deadLetters(from string) *azservicebus.Receiver {
	return must(client.NewReceiverForQueue(from, &azservicebus.ReceiverOptions{SubQueue: azservicebus.SubQueueDeadLetter}))
}

func subscribed(name string) *azservicebus.Receiver {
	return must(client.NewReceiverForSubscription(topic, name, nil))
}

func sessionOf(entity, id string) *azservicebus.SessionReceiver {
	return must(client.AcceptSessionForQueue(within(patience), entity, id, nil))
}

// pages returns the items of all pages.
func pages[Page, Item any](pager *runtime.Pager[Page], items func(Page) []Item) (found []Item) {
	for pager.More() {
		found = append(found, items(must(pager.NextPage(within(patience))))...)
	}
	return
}
