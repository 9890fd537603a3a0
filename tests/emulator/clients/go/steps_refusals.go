package main

import (
	"regexp"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

var refusalSteps = []step{
	{"is told of entities that do not exist", func() {
		nowhere := must(client.NewSender(prefix+"none", nil))
		failsWith(azservicebus.CodeNotFound, nowhere.SendMessage(within(patience), text("x"), nil))
	}},
	{"is told of keys that are wrong", func() {
		wrong := regexp.MustCompile("SharedAccessKey=[^;]*").ReplaceAllString(connectionString, "SharedAccessKey=wrong")
		stranger := must(connect(wrong))
		through := must(stranger.NewSender(queue, nil))
		failsWith(azservicebus.CodeUnauthorizedAccess, through.SendMessage(within(patience), text("x"), nil))
		done(stranger.Close(background))
	}},
	{"deletes what it made", func() {
		for _, name := range []string{"queue", "sessions", "from", "pair", "once", "brief", "quick"} {
			must(administration.DeleteQueue(background, prefix+name, nil))
		}
		must(administration.DeleteTopic(background, topic, nil))
		equal(must(administration.GetTopic(background, topic, nil)) == nil, true)
		_, err := administration.DeleteQueue(background, queue, nil)
		status(404, err)
	}},
}
