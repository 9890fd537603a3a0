package main

import (
	"net/http"
	"slices"

	"github.com/Azure/azure-sdk-for-go/sdk/azcore/to"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus/admin"
)

var administrationSteps = []step{
	{"refuses to create a queue twice", func() {
		_, err := administration.CreateQueue(background, queue, nil)
		status(http.StatusConflict, err)
	}},
	{"updates a queue", func() {
		found := must(administration.GetQueue(background, pair, nil))
		found.DefaultMessageTimeToLive = to.Ptr("P1D")
		updated := must(administration.UpdateQueue(background, pair, found.QueueProperties, nil))
		equal(*updated.DefaultMessageTimeToLive, "P1D")
	}},
	{"finds nothing where nothing is", func() {
		equal(must(administration.GetQueue(background, prefix+"none", nil)) == nil, true)
		equal(must(administration.GetTopic(background, prefix+"none", nil)) == nil, true)
		equal(must(administration.GetSubscription(background, topic, "none", nil)) == nil, true)
	}},
	{"lists queues page by page, with their counts", func() {
		names := pages(administration.NewListQueuesPager(&admin.ListQueuesOptions{MaxPageSize: 2}),
			func(page admin.ListQueuesResponse) (names []string) {
				for _, each := range page.Queues {
					names = append(names, each.QueueName)
				}
				return
			})
		check(slices.Contains(names, queue) && slices.Contains(names, sessions), "%v", names)
		counts := must(administration.GetQueueRuntimeProperties(background, queue, nil))
		equal([]any{counts.ActiveMessageCount, counts.DeadLetterMessageCount}, []any{int32(0), int32(0)})
	}},
	{"creates, reads, updates, lists and deletes rules", func() {
		correlation := &admin.CorrelationFilter{
			Subject: to.Ptr("red"), ApplicationProperties: map[string]any{"n": int64(1), "ok": true}}
		must(administration.CreateRule(background, topic, "all",
			&admin.CreateRuleOptions{Name: to.Ptr("red"), Filter: correlation}))
		rule := must(administration.GetRule(background, topic, "all", "red", nil))
		equal(rule.Filter, correlation)
		rule.Filter = &admin.FalseFilter{}
		updated := must(administration.UpdateRule(background, topic, "all", rule.RuleProperties))
		equal(updated.Filter, &admin.FalseFilter{})
		names := pages(administration.NewListRulesPager(topic, "all", nil),
			func(page admin.ListRulesResponse) (names []string) {
				for _, each := range page.Rules {
					names = append(names, each.Name)
				}
				return
			})
		equal(names, []string{"$Default", "red"})
		must(administration.DeleteRule(background, topic, "all", "red", nil))
		equal(must(administration.GetRule(background, topic, "all", "red", nil)) == nil, true)
	}},
	{"reads the namespace, and counts of a topic and a subscription", func() {
		equal(must(administration.GetNamespaceProperties(background, nil)).SKU, "Standard")
		counts := must(administration.GetTopicRuntimeProperties(background, topic, nil))
		equal([]any{counts.SubscriptionCount, counts.SQLFilterCount}, []any{int32(2), int32(2)})
		of := must(administration.GetSubscriptionRuntimeProperties(background, topic, "some", nil))
		equal(of.ActiveMessageCount, int32(0))
	}},
	{"forwards from one queue to another", func() {
		from := prefix + "from"
		must(administration.CreateQueue(background, from,
			&admin.CreateQueueOptions{Properties: &admin.QueueProperties{ForwardTo: to.Ptr(pair)}}))
		through := must(client.NewSender(from, nil))
		send(through, text("forwarded"))
		receiver := must(client.NewReceiverForQueue(pair, nil))
		expect(receiver, "forwarded")
		done(receiver.Close(background))
	}},
	{"receives from a topic through a subscription with sessions", func() {
		properties := &admin.SubscriptionProperties{RequiresSession: to.Ptr(true)}
		must(administration.CreateSubscription(background, topic, "in-sessions",
			&admin.CreateSubscriptionOptions{Properties: properties}))
		through := must(client.NewSender(topic, nil))
		send(through, &azservicebus.Message{Body: []byte("x"), SessionID: to.Ptr("green")})
		green := must(client.AcceptSessionForSubscription(within(patience), topic, "in-sessions", "green", nil))
		expect(green, "x")
		done(green.Close(background))
		must(administration.DeleteSubscription(background, topic, "in-sessions", nil))
	}},
}
