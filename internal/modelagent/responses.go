package modelagent

import "signalbox/internal/jsonwalk"

import "bytes"

// responses understands the Responses API.
type responses struct {
	emit func([]byte) error
}

func (a *responses) event(_ string, doc []byte) (bool, error) {
	var kind, delta, item, response, fault []byte
	for name, value := range jsonwalk.Members(doc) {
		switch name {
		case "type":
			kind = value
		case "delta":
			delta = value
		case "item":
			item = value
		case "response":
			response = value
		case "error":
			fault = value
		}
	}
	if !jsonwalk.IsObject(doc) || kind != nil && !jsonwalk.IsText(kind) {
		return false, networkOrProtocolError
	}
	name, _ := jsonwalk.Text(kind)
	switch string(name) {
	case "response.output_text.delta":
		s, ok := jsonwalk.Text(delta)
		if !ok {
			return false, invalidResponse
		}
		return false, a.emit(s)
	case "response.output_item.added", "response.output_item.done":
		return false, checkItem(item)
	case "response.completed":
		return true, a.completed(response)
	case "error", "response.failed":
		return false, modelFailed
	case "response.incomplete":
		return false, incompleteBecause(response)
	case "":
		if !jsonwalk.IsNull(fault) { // an error without an event type: gateways send it
			return false, modelFailed
		}
	}
	// Every kind of tool announces itself by its name: function_call_arguments,
	// mcp_call, web_search_call, custom_tool_call_input, mcp_list_tools.
	if bytes.Contains(name, []byte("_call")) || bytes.Contains(name, []byte("mcp_")) {
		return false, unsupportedTool
	}
	return false, nil
}

// marker: [DONE] ends streams of the other API, never one of this.
func (a *responses) marker() error { return incompleteResponse }

// completed checks the final snapshot. Its text is not relayed: the deltas
// were.
func (a *responses) completed(response []byte) error {
	if !jsonwalk.IsObject(response) {
		return networkOrProtocolError
	}
	if status, _ := jsonwalk.Text(jsonwalk.Member(response, "status")); string(status) != "completed" {
		return incompleteResponse
	}
	output := jsonwalk.Member(response, "output")
	if !jsonwalk.IsArray(output) {
		return invalidResponse
	}
	for item := range jsonwalk.Elements(output) {
		if err := checkItem(item); err != nil {
			return err
		}
	}
	return nil
}

func (a *responses) document(doc []byte) error {
	if err := a.completed(doc); err != nil {
		return err
	}
	for item := range jsonwalk.Elements(jsonwalk.Member(doc, "output")) {
		for part := range jsonwalk.Elements(jsonwalk.Member(item, "content")) {
			if kind, _ := jsonwalk.Text(jsonwalk.Member(part, "type")); string(kind) != "output_text" {
				continue
			}
			s, ok := jsonwalk.Text(jsonwalk.Member(part, "text"))
			if !ok {
				return invalidResponse
			}
			if err := a.emit(s); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkItem allows text and the thoughts behind it. Anything else is a tool,
// also of kinds that are not known yet.
func checkItem(item []byte) error {
	if !jsonwalk.IsObject(item) {
		return networkOrProtocolError
	}
	switch kind, _ := jsonwalk.Text(jsonwalk.Member(item, "type")); string(kind) {
	case "message", "reasoning":
		return nil
	}
	return unsupportedTool
}

// incompleteBecause tells an answer cut at its length from one that failed.
func incompleteBecause(response []byte) error {
	reason, _ := jsonwalk.Text(jsonwalk.Member(jsonwalk.Member(response, "incomplete_details"), "reason"))
	if string(reason) == "max_output_tokens" {
		return incompleteResponse
	}
	return modelFailed
}
