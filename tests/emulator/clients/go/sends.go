package main

import (
	"bufio"
	"encoding/base64"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/Azure/azure-sdk-for-go/sdk/messaging/azservicebus"
)

// sends makes one send of each line, `ENTITY ID BODY [ID BODY]…`, of base64: `accepted ID` or `failed ID reason`.
func sends() {
	options := azservicebus.ClientOptions{}
	if os.Getenv("TRY_S") != "" {
		options.RetryOptions.RetryDelay = time.Second
	}
	client := must(azservicebus.NewClientFromConnectionString(connectionString, &options))
	senders := map[string]*azservicebus.Sender{}
	for lines := bufio.NewReader(os.Stdin); ; {
		line, ended := lines.ReadString('\n')
		if ended != nil {
			return
		}
		words := strings.Split(strings.TrimSuffix(line, "\n"), " ")
		if senders[words[0]] == nil {
			senders[words[0]] = must(client.NewSender(words[0], nil))
		}
		if err := sendAll(senders[words[0]], words[0], words[1:]); err != nil {
			fmt.Println("failed", words[1], strings.ReplaceAll(err.Error(), "\n", " "))
		} else {
			fmt.Println("accepted", words[1])
		}
	}
}

func sendAll(sender *azservicebus.Sender, entity string, words []string) error {
	batch, err := sender.NewMessageBatch(background, nil)
	for at := 0; at < len(words) && err == nil; at += 2 {
		properties := map[string]any{
			"campaign-id": words[at], "ratio": 0.5, "due": time.UnixMilli(1770091506789),
			"ubyte": uint8(7), "ushort": uint16(7), "uint": uint32(7), "ulong": uint64(7),
			"byte": int8(7), "short": int16(7), "int": int32(7), "long": int64(7),
		}
		body := must(base64.StdEncoding.DecodeString(words[at+1]))
		message := &azservicebus.Message{Body: body, MessageID: &words[at], Subject: &entity, ApplicationProperties: properties}
		if len(words) == 2 {
			return sender.SendMessage(background, message, nil)
		}
		err = batch.AddMessage(message, nil)
	}
	if err != nil {
		return err
	}
	return sender.SendMessageBatch(background, batch, nil)
}
