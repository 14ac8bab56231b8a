// Command client measures the client of a2a-go, as Signalbox's own is measured
// by bench/a2aclient; see there for its arguments and what it prints.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2aclient"
	"github.com/a2aproject/a2a-go/v2/a2aclient/agentcard"
)

func main() {
	if err := run(context.Background(), os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "client:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errors.New("it takes trips CARD N, alone CARD N or stream CARD")
	}
	card, err := agentcard.NewResolver(nil).Resolve(ctx, args[1], agentcard.WithPath(""))
	if err != nil {
		return err
	}
	var options []a2aclient.FactoryOption
	if args[0] == "alone" { // each message over a connection of its own
		options = append(options, a2aclient.WithJSONRPCTransport(&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}))
	}
	c, err := a2aclient.NewFromCard(ctx, card, options...)
	if err != nil {
		return err
	}
	n, text := 1, 0
	if len(args) > 2 {
		if n, err = strconv.Atoi(args[2]); err != nil {
			return err
		}
	}
	request := func() *a2a.SendMessageRequest {
		return &a2a.SendMessageRequest{Message: a2a.NewMessage(a2a.MessageRoleUser, a2a.NewTextPart("measure")), Config: &a2a.SendMessageConfig{ReturnImmediately: true}}
	}
	began := time.Now()
	if args[0] != "stream" {
		for range n {
			if _, err := c.SendMessage(ctx, request()); err != nil {
				return err
			}
		}
	} else {
		for e, err := range c.SendStreamingMessage(ctx, request()) {
			if err != nil {
				return err
			}
			if u, ok := e.(*a2a.TaskArtifactUpdateEvent); ok {
				for _, p := range u.Artifact.Parts {
					text += len(p.Text())
				}
			}
		}
	}
	if err := json.NewEncoder(os.Stdout).Encode(map[string]int64{"ns": time.Since(began).Nanoseconds(), "bytes": int64(text)}); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, os.Stdin)
	return err
}
