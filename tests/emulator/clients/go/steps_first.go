package main

import (
	"errors"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

// firstSteps are one of each kind.
var firstSteps = []step{
	{"creates queues with their properties", func() {
		properties := &admin.QueueProperties{
			MaxDeliveryCount: to.Ptr[int32](3), LockDuration: to.Ptr("PT10S"), UserMetadata: to.Ptr("größe & <x>")}
		must(administration.CreateQueue(background, queue, &admin.CreateQueueOptions{Properties: properties}))
		must(administration.CreateQueue(background, pair, nil))
		withSessions := &admin.QueueProperties{RequiresSession: to.Ptr(true)}
		must(administration.CreateQueue(background, sessions, &admin.CreateQueueOptions{Properties: withSessions}))
		found := must(administration.GetQueue(background, queue, nil))
		equal([]any{*found.MaxDeliveryCount, *found.LockDuration, *found.UserMetadata, *found.RequiresSession, *found.Status},
			[]any{int32(3), "PT10S", "größe & <x>", false, admin.EntityStatusActive})
	}},
	{"sends a message and receives it with all its properties", func() {
		sender = must(client.NewSender(queue, nil))
		receiver = must(client.NewReceiverForQueue(queue, nil))
		dead = deadLetters(queue)
		properties := map[string]any{"text": "é", "whole": int64(7), "small": int32(-1), "part": 1.5, "yes": true}
		found := sendAndReceive(&azservicebus.Message{
			Body: []byte("body"), MessageID: to.Ptr("m-1"), CorrelationID: to.Ptr("c-1"), Subject: to.Ptr("subject"),
			To: to.Ptr("to"), ReplyTo: to.Ptr("reply"), ReplyToSessionID: to.Ptr("reply-session"),
			ContentType: to.Ptr("text/plain"), PartitionKey: to.Ptr("key"), TimeToLive: to.Ptr(time.Minute),
			ApplicationProperties: properties})
		equal([]any{string(found.Body), found.MessageID, *found.CorrelationID, *found.Subject, *found.To, *found.ReplyTo},
			[]any{"body", "m-1", "c-1", "subject", "to", "reply"})
		equal([]any{*found.ReplyToSessionID, *found.ContentType, *found.PartitionKey, *found.TimeToLive, found.DeliveryCount},
			[]any{"reply-session", "text/plain", "key", time.Minute, uint32(1)})
		equal(found.ApplicationProperties, properties)
		check(found.LockedUntil.After(time.Now()) && *found.SequenceNumber > 0, "it is not locked")
		equal(found.ExpiresAt.Sub(*found.EnqueuedTime), time.Minute)
		complete(receiver, found)
	}},
	{"fills a batch until it is full, and sends it", func() {
		batch := must(sender.NewMessageBatch(background, &azservicebus.MessageBatchOptions{MaxBytes: 2000}))
		var full error
		for full == nil {
			full = batch.AddMessage(&azservicebus.Message{Body: make([]byte, 100)}, nil)
		}
		check(errors.Is(full, azservicebus.ErrMessageTooLarge) && batch.NumMessages() > 5, "%v", full)
		done(sender.SendMessageBatch(background, batch, nil))
		for count := int32(0); count < batch.NumMessages(); count++ {
			complete(receiver, next(receiver))
		}
	}},
	{"schedules messages, and cancels them", func() {
		tomorrow := time.Now().Add(24 * time.Hour).UTC().Truncate(time.Millisecond)
		numbers := must(sender.ScheduleMessages(background, []*azservicebus.Message{text("a"), text("b")}, tomorrow, nil))
		found := peek(receiver, numbers[0], 1)[0]
		equal(found.State, azservicebus.MessageStateScheduled)
		check(found.ScheduledEnqueueTime.Equal(tomorrow), "%v is not %v", found.ScheduledEnqueueTime, tomorrow)
		done(sender.CancelScheduledMessages(background, numbers, nil))
		equal(len(peek(receiver, 0, 5)), 0)
	}},
	{"abandons with properties, which are merged and count a delivery", func() {
		message := text("again")
		message.ApplicationProperties = map[string]any{"kept": int64(1), "changed": "old"}
		changes := map[string]any{"changed": "new", "added": true}
		options := &azservicebus.AbandonMessageOptions{PropertiesToModify: changes}
		done(receiver.AbandonMessage(background, sendAndReceive(message), options))
		found := next(receiver)
		equal(found.ApplicationProperties, map[string]any{"kept": int64(1), "changed": "new", "added": true})
		equal(found.DeliveryCount, uint32(2))
		complete(receiver, found)
	}},
	{"defers, and receives by sequence number", func() {
		found := sendAndReceive(text("later"))
		options := &azservicebus.DeferMessageOptions{PropertiesToModify: map[string]any{"step": int64(2)}}
		done(receiver.DeferMessage(background, found, options))
		equal(peek(receiver, *found.SequenceNumber, 1)[0].State, azservicebus.MessageStateDeferred)
		later := deferred(found)
		equal([]any{string(later.Body), later.ApplicationProperties["step"]}, []any{"later", int64(2)})
		complete(receiver, later)
	}},
	{"dead-letters with a reason and properties", func() {
		done(receiver.DeadLetterMessage(background, sendAndReceive(text("bad")), &azservicebus.DeadLetterOptions{
			Reason: to.Ptr("broken"), ErrorDescription: to.Ptr("cannot be read"),
			PropertiesToModify: map[string]any{"attempt": int64(3)}}))
		found := next(dead)
		equal([]any{*found.DeadLetterReason, *found.DeadLetterErrorDescription, found.ApplicationProperties["attempt"]},
			[]any{"broken", "cannot be read", int64(3)})
		complete(dead, found)
	}},
	{"peeks without taking", func() {
		send(sender, text("first"), text("second"))
		first := peek(receiver, 0, 1)[0]
		second := peek(receiver, *first.SequenceNumber+1, 5)
		equal([]string{string(first.Body), string(second[0].Body)}, []string{"first", "second"})
		expect(receiver, "first", "second")
	}},
	{"accepts a session by its id, receives in order, and keeps its state", func() {
		through := must(client.NewSender(sessions, nil))
		for _, body := range []string{"1", "2", "3"} {
			send(through, &azservicebus.Message{Body: []byte(body), SessionID: to.Ptr("blue")})
		}
		send(through, &azservicebus.Message{Body: []byte("red"), SessionID: to.Ptr("red")})
		blue := sessionOf(sessions, "blue")
		check(blue.SessionID() == "blue" && blue.LockedUntil().After(time.Now()), "it is not locked")
		expect(blue, "1", "2", "3")
		equal(len(must(blue.GetSessionState(background, nil))), 0)
		done(blue.SetSessionState(background, []byte("step 5"), nil))
		equal(string(must(blue.GetSessionState(background, nil))), "step 5")
		done(blue.Close(background))
	}},
	{"receives from subscriptions what their rules let pass", func() {
		must(administration.CreateTopic(background, topic, nil))
		must(administration.CreateSubscription(background, topic, "all", nil))
		big := &admin.RuleProperties{Name: "big", Filter: &admin.SQLFilter{Expression: "size > @least",
			Parameters: map[string]any{"@least": int64(5)}}, Action: &admin.SQLAction{Expression: "SET big = 1"}}
		some := &admin.CreateSubscriptionOptions{Properties: &admin.SubscriptionProperties{DefaultRule: big}}
		must(administration.CreateSubscription(background, topic, "some", some))
		through := must(client.NewSender(topic, nil))
		for body, size := range map[string]int64{"small": 1, "large": 10} {
			send(through, &azservicebus.Message{Body: []byte(body), ApplicationProperties: map[string]any{"size": size}})
		}
		all := subscribed("all")
		complete(all, next(all), next(all))
		matching := subscribed("some")
		large := next(matching)
		equal([]any{string(large.Body), large.ApplicationProperties["big"]}, []any{"large", int64(1)})
		complete(matching, large)
	}},
}
