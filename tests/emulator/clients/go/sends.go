package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// sends sends COUNT numbered messages to the queue orders: `accepted N` or `failed N reason` for each.
func sends() {
	client := must(azservicebus.NewClientFromConnectionString(connectionString, nil))
	sender := must(client.NewSender("orders", nil))
	count := must(strconv.Atoi(os.Getenv("COUNT")))
	for number := range count {
		id := strconv.Itoa(number)
		message := &azservicebus.Message{Body: []byte(id), MessageID: &id}
		if err := sender.SendMessage(background, message, nil); err != nil {
			fmt.Println("failed", id, err)
		} else {
			fmt.Println("accepted", id)
		}
		time.Sleep(100 * time.Millisecond)
	}
}
