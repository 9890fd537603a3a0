package main

import (
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var settlementSteps = []step{
	{"finds among the dead what was abandoned as often as allowed", func() {
		send(sender, text("poison"))
		for range 3 {
			done(receiver.AbandonMessage(background, next(receiver), nil))
		}
		found := next(dead)
		equal([]any{string(found.Body), *found.DeadLetterReason}, []any{"poison", "MaxDeliveryCountExceeded"})
		complete(dead, found)
	}},
	{"dead-letters without a reason", func() {
		done(receiver.DeadLetterMessage(background, sendAndReceive(text("bad")), nil))
		found := next(dead)
		check(found.DeadLetterReason == nil || *found.DeadLetterReason == "", "there is a reason")
		complete(dead, found)
	}},
	{"settles deferred messages in every other way too", func() {
		found := sendAndReceive(text("deferred"))
		done(receiver.DeferMessage(background, found, nil))
		marked := map[string]any{"abandoned": true}
		options := &azservicebus.AbandonMessageOptions{PropertiesToModify: marked}
		done(receiver.AbandonMessage(background, deferred(found), options))
		again := deferred(found)
		equal(again.ApplicationProperties, marked)
		done(receiver.DeferMessage(background, again, nil))
		reason := &azservicebus.DeadLetterOptions{Reason: to.Ptr("enough")}
		done(receiver.DeadLetterMessage(background, deferred(found), reason))
		last := next(dead)
		equal(*last.DeadLetterReason, "enough")
		complete(dead, last)
	}},
	{"is refused a deferred message that is not there", func() {
		_, err := receiver.ReceiveDeferredMessages(within(patience), []int64{999_999}, nil)
		failsWith(azservicebus.CodeNotFound, err)
	}},
	{"renews a lock", func() {
		found := sendAndReceive(text("slow"))
		before := *found.LockedUntil
		time.Sleep(20 * time.Millisecond)
		done(receiver.RenewMessageLock(background, found, nil))
		check(found.LockedUntil.After(before), "it was not renewed")
		complete(receiver, found)
	}},
	{"cannot settle a message whose lock is lost", func() {
		quick := prefix + "quick"
		properties := &admin.QueueProperties{LockDuration: to.Ptr("PT1S"), MaxDeliveryCount: to.Ptr[int32](1)}
		must(administration.CreateQueue(background, quick, &admin.CreateQueueOptions{Properties: properties}))
		send(must(client.NewSender(quick, nil)), text("lost"))
		late := must(client.NewReceiverForQueue(quick, nil))
		found := next(late)
		equal(*next(deadLetters(quick)).DeadLetterReason, "MaxDeliveryCountExceeded")
		failsWith(azservicebus.CodeLockLost, late.CompleteMessage(within(patience), found, nil))
		failsWith(azservicebus.CodeLockLost, late.RenewMessageLock(within(patience), found, nil))
	}},
	{"receives again what a closed receiver had not settled, when its lock is over", func() {
		send(sender, text("kept"))
		passing := must(client.NewReceiverForQueue(queue, nil))
		next(passing)
		done(passing.Close(background))
		found := next(receiver)
		equal(string(found.Body), "kept")
		complete(receiver, found)
	}},
	{"is refused a scheduled message to cancel that is not there", func() {
		failsWith(azservicebus.CodeNotFound, sender.CancelScheduledMessages(within(patience), []int64{999_999}, nil))
	}},
}
