package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

func annotated(body azservicebus.AMQPAnnotatedMessageBody) *azservicebus.AMQPAnnotatedMessage {
	done(sender.SendAMQPAnnotatedMessage(within(patience), &azservicebus.AMQPAnnotatedMessage{
		Body: body, Header: &azservicebus.AMQPAnnotatedMessageHeader{Durable: true, Priority: 7}}, nil))
	found := next(receiver)
	complete(receiver, found)
	return found.RawAMQPMessage
}

var messageSteps = []step{
	{"sends bodies of no bytes and of every byte", func() {
		for _, body := range [][]byte{{}, {0, 255, 10}, bytes.Repeat([]byte("x"), 200_000)} {
			found := sendAndReceive(&azservicebus.Message{Body: body})
			check(bytes.Equal(found.Body, body), "%d bytes came of %d", len(found.Body), len(body))
			complete(receiver, found)
		}
	}},
	{"sends AMQP messages with a value", func() {
		found := annotated(azservicebus.AMQPAnnotatedMessageBody{Value: map[string]any{"a": int64(1)}})
		equal(fmt.Sprint(found.Body.Value), "map[a:1]")
		equal(found.Header.Priority, uint8(7))
	}},
	{"sends AMQP messages with a sequence, and with several pieces of data", func() {
		sequence := [][]any{{int64(1), "b"}}
		equal(annotated(azservicebus.AMQPAnnotatedMessageBody{Sequence: sequence}).Body.Sequence, sequence)
		data := [][]byte{[]byte("one"), []byte("two")}
		equal(annotated(azservicebus.AMQPAnnotatedMessageBody{Data: data}).Body.Data, data)
	}},
	{"keeps the types of ids and properties", func() {
		properties := map[string]any{"byte": uint8(1), "long": uint64(1 << 63), "float": float32(0.5),
			"time": time.UnixMilli(1_700_000_000_123)}
		done(sender.SendAMQPAnnotatedMessage(within(patience), &azservicebus.AMQPAnnotatedMessage{
			Properties:            &azservicebus.AMQPAnnotatedMessageProperties{MessageID: uint64(1 << 63)},
			ApplicationProperties: properties}, nil))
		found := next(receiver)
		equal(found.RawAMQPMessage.Properties.MessageID, uint64(1<<63))
		equal(found.ApplicationProperties, properties)
		complete(receiver, found)
	}},
	{"receives a message that was sent without an id", func() {
		found := sendAndReceive(text("no id"))
		equal(len(found.MessageID), 32)
		complete(receiver, found)
	}},
	{"receives several messages at once, and completes them side by side", func() {
		batch := must(sender.NewMessageBatch(background, nil))
		for number := range 100 {
			done(batch.AddMessage(text(fmt.Sprint(number)), nil))
		}
		done(sender.SendMessageBatch(background, batch, nil))
		var settling sync.WaitGroup
		for found := 0; found < 100; {
			for _, message := range must(receiver.ReceiveMessages(within(patience), 100-found, nil)) {
				equal(string(message.Body), fmt.Sprint(found))
				found++
				settling.Go(func() { complete(receiver, message) })
			}
		}
		settling.Wait()
		equal(must(administration.GetQueueRuntimeProperties(background, queue, nil)).TotalMessageCount, int64(0))
	}},
	{"is refused a message that is too large", func() {
		err := sender.SendMessage(within(patience), &azservicebus.Message{Body: make([]byte, 300_000)}, nil)
		check(errors.Is(err, azservicebus.ErrMessageTooLarge), "%v", err)
	}},
	{"receives nothing from an empty queue", func() {
		_, err := receiver.ReceiveMessages(within(500*time.Millisecond), 1, nil)
		check(errors.Is(err, context.DeadlineExceeded), "%v", err)
		equal(len(peek(receiver, 0, 1)), 0)
	}},
	{"receives and deletes", func() {
		send(must(client.NewSender(pair, nil)), text("gone"))
		deleting := must(client.NewReceiverForQueue(pair,
			&azservicebus.ReceiverOptions{ReceiveMode: azservicebus.ReceiveModeReceiveAndDelete}))
		equal(string(next(deleting).Body), "gone")
		done(deleting.Close(background))
		equal(must(administration.GetQueueRuntimeProperties(background, pair, nil)).TotalMessageCount, int64(0))
	}},
	{"receives scheduled messages when they are due", func() {
		due := time.Now().Add(2 * time.Second).UTC().Truncate(time.Millisecond)
		must(sender.ScheduleMessages(background, []*azservicebus.Message{text("a")}, due, nil))
		send(sender, &azservicebus.Message{Body: []byte("b"), ScheduledEnqueueTime: to.Ptr(due)})
		for range 2 {
			found := next(receiver)
			check(!found.EnqueuedTime.Before(due), "it came too early")
			complete(receiver, found)
		}
	}},
	{"recognises duplicates", func() {
		once := prefix + "once"
		properties := &admin.QueueProperties{RequiresDuplicateDetection: to.Ptr(true)}
		must(administration.CreateQueue(background, once, &admin.CreateQueueOptions{Properties: properties}))
		through := must(client.NewSender(once, nil))
		same := &azservicebus.Message{Body: []byte("same"), MessageID: to.Ptr("same")}
		send(through, same, same)
		equal(must(administration.GetQueueRuntimeProperties(background, once, nil)).TotalMessageCount, int64(1))
	}},
	{"dead-letters messages that expire", func() {
		brief := prefix + "brief"
		properties := &admin.QueueProperties{DeadLetteringOnMessageExpiration: to.Ptr(true)}
		must(administration.CreateQueue(background, brief, &admin.CreateQueueOptions{Properties: properties}))
		send(must(client.NewSender(brief, nil)), &azservicebus.Message{TimeToLive: to.Ptr(200 * time.Millisecond)})
		equal(*next(deadLetters(brief)).DeadLetterReason, "TTLExpiredException")
	}},
}
