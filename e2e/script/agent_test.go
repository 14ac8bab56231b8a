package script

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// scriptedAgent is an ACP agent on the standard streams that does what its mode
// says with its one prompt. It is this test program in another role.
func scriptedAgent(mode string) {
	write := func(v any) {
		b, err := json.Marshal(v)
		if err != nil {
			panic(err)
		}
		if _, err := fmt.Fprintf(os.Stdout, "%s\n", b); err != nil {
			os.Exit(1)
		}
	}
	answer := func(id json.RawMessage, result any) {
		write(map[string]any{"jsonrpc": "2.0", "id": id, "result": result})
	}
	say := func(text string) {
		write(map[string]any{"jsonrpc": "2.0", "method": "session/update", "params": map[string]any{"sessionId": "s",
			"update": map[string]any{"sessionUpdate": "agent_message_chunk", "content": map[string]any{"type": "text", "text": text}}}})
	}
	ask := func(title string, input any) {
		write(map[string]any{"jsonrpc": "2.0", "id": "ask", "method": "session/request_permission", "params": map[string]any{
			"sessionId": "s", "toolCall": map[string]any{"toolCallId": "c", "title": title, "kind": "execute", "rawInput": input},
			"options": []any{map[string]any{"optionId": "yes", "name": "Yes", "kind": "allow_once"},
				map[string]any{"optionId": "no", "name": "No", "kind": "reject_once"}}}})
	}
	var prompt json.RawMessage
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var m struct {
			ID     json.RawMessage `json:"id"`
			Method string          `json:"method"`
			Result json.RawMessage `json:"result"`
		}
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			os.Exit(1)
		}
		switch m.Method {
		case "initialize":
			answer(m.ID, map[string]any{"protocolVersion": 1, "agentCapabilities": map[string]any{}, "authMethods": []any{}})
		case "session/new":
			answer(m.ID, map[string]any{"sessionId": "s"})
		case "session/cancel":
			answer(prompt, map[string]any{"stopReason": "cancelled"})
		case "session/prompt":
			prompt = append(json.RawMessage(nil), m.ID...)
			switch mode {
			case "refuse":
				say("I will not do that.")
				answer(prompt, map[string]any{"stopReason": "refusal"})
			case "die":
				say("I have begun and ")
				os.Exit(3)
			case "hang":
				say("This takes a while. ")
			case "ask":
				ask("Run the tests", map[string]any{"command": "make test"})
			case "escape":
				say("red \x1b[31mtext\x1b[0m, a title \x1b]0;gone\x07, \u009b2J and \u202ereversed")
				ask("Run \x1b[2J\x1b[1;1Hnothing", map[string]any{"command": "echo \x1b]52;c;aGk=\x07"})
			default:
				say("Done.")
				answer(prompt, map[string]any{"stopReason": "end_turn"})
			}
		case "":
			if strings.Contains(string(m.Result), `"yes"`) {
				say("I was allowed.")
			} else {
				say("I was not allowed.")
			}
			answer(prompt, map[string]any{"stopReason": "end_turn"})
		}
	}
}
