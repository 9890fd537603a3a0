package main

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var sessionSteps = []step{
	{"accepts the next session, and peeks and defers in it", func() {
		// A receiver of a session names no session when it asks for deferred messages, so that it gets none.
		red := must(client.AcceptNextSessionForQueue(within(patience), sessions, nil))
		equal(red.SessionID(), "red")
		equal(string(must(red.PeekMessages(background, 1, nil))[0].Body), "red")
		found := next(red)
		done(red.DeferMessage(background, found, nil))
		equal(must(red.PeekMessages(background, 1, &azservicebus.PeekMessagesOptions{
			FromSequenceNumber: found.SequenceNumber}))[0].State, azservicebus.MessageStateDeferred)
		done(red.Close(background))
	}},
	{"renews the lock of a session", func() {
		blue := sessionOf(sessions, "blue")
		before := blue.LockedUntil()
		time.Sleep(20 * time.Millisecond)
		done(blue.RenewSessionLock(background, nil))
		check(blue.LockedUntil().After(before), "it was not renewed")
		done(blue.Close(background))
	}},
	{"finds the state of a session again, and clears it", func() {
		blue := sessionOf(sessions, "blue")
		equal(string(must(blue.GetSessionState(background, nil))), "step 5")
		done(blue.SetSessionState(background, nil, nil))
		equal(len(must(blue.GetSessionState(background, nil))), 0)
		done(blue.Close(background))
	}},
	{"cannot accept a session that is locked", func() {
		blue := sessionOf(sessions, "blue")
		_, err := client.AcceptSessionForQueue(within(patience), sessions, "blue", nil)
		says("session-cannot-be-locked", err)
		done(blue.Close(background))
	}},
	{"finds no next session where there is none", func() {
		_, err := client.AcceptNextSessionForQueue(within(3*time.Second), sessions, nil)
		// The namespace waits up to 1% less than the caller does: who ends the wait is a matter of chance.
		var found *azservicebus.Error
		refused := errors.As(err, &found) && found.Code == azservicebus.CodeTimeout
		check(refused || errors.Is(err, context.DeadlineExceeded), "%v", err)
	}},
	{"lists sessions with a state", func() {
		began := time.Now().Add(-time.Minute)
		lists := func(options *azservicebus.ListSessionsOptions) []string {
			return pages(client.NewListSessionsForQueuePager(sessions, options),
				func(page azservicebus.ListSessionsResponse) []string { return page.Sessions })
		}
		violet := sessionOf(sessions, "violet")
		done(violet.SetSessionState(background, []byte("1"), nil))
		for _, options := range []*azservicebus.ListSessionsOptions{nil, {SessionStateUpdatedAfter: &began}} {
			check(slices.Contains(lists(options), "violet"), "it is not listed")
		}
		done(violet.SetSessionState(background, nil, nil))
		done(violet.Close(background))
	}},
	{"is refused a queue with sessions without one", func() {
		without := must(client.NewReceiverForQueue(sessions, nil))
		_, err := without.ReceiveMessages(within(patience), 1, nil)
		says("session", err)
	}},
}
