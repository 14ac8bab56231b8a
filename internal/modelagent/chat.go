package modelagent

import "signalbox/internal/jsonwalk"

// chat understands the chat completions API.
type chat struct {
	emit    func([]byte) error
	stopped bool // finish_reason stop was seen
}

func (a *chat) event(name string, doc []byte) (bool, error) {
	choice, err := onlyChoice(doc)
	switch {
	case err != nil:
		return false, err
	case choice == nil:
		if name == "error" { // {"message": ...} under this name is a failure
			return false, modelFailed
		}
		return false, nil // usage, a keepalive, or a filter's report
	}
	return false, a.delta(choice)
}

// marker: [DONE] confirms an answer that has stopped.
func (a *chat) marker() error {
	if !a.stopped {
		return incompleteResponse
	}
	return nil
}

// delta takes the one choice of a chunk.
func (a *chat) delta(choice []byte) error {
	var delta, finish []byte
	for name, value := range jsonwalk.Members(choice) {
		switch name {
		case "delta":
			delta = value
		case "finish_reason":
			finish = value
		}
	}
	s, err := content(delta)
	if err != nil {
		return err
	}
	if len(s) > 0 {
		if err := a.emit(s); err != nil {
			return err
		}
	}
	// Servers send null or "" for "not yet"; any word but stop is an answer
	// that was cut, filtered, or is a tool's.
	switch string(finish) {
	case "", "null", `""`:
		return nil
	case `"stop"`:
		a.stopped = true
		return nil
	}
	return incompleteResponse
}

func (a *chat) document(doc []byte) error {
	choice, err := onlyChoice(doc)
	if err != nil {
		return err
	}
	if choice == nil {
		return invalidResponse
	}
	message := jsonwalk.Member(choice, "message")
	if !jsonwalk.IsObject(message) {
		return networkOrProtocolError
	}
	s, err := content(message)
	if err != nil {
		return err
	}
	if reason, _ := jsonwalk.Text(jsonwalk.Member(choice, "finish_reason")); string(reason) != "stop" {
		return incompleteResponse
	}
	if s == nil {
		return invalidResponse
	}
	return a.emit(s)
}

// onlyChoice gives the one choice of a chunk or response, nil without one.
func onlyChoice(doc []byte) ([]byte, error) {
	if !jsonwalk.IsObject(doc) {
		return nil, networkOrProtocolError
	}
	var choices, fault []byte
	for name, value := range jsonwalk.Members(doc) {
		switch name {
		case "choices":
			choices = value
		case "error":
			fault = value
		}
	}
	if !jsonwalk.IsNull(fault) { // servers that never fail send null all the time
		return nil, modelFailed
	}
	if !jsonwalk.IsNull(choices) && !jsonwalk.IsArray(choices) {
		return nil, networkOrProtocolError
	}
	var only []byte
	for choice := range jsonwalk.Elements(choices) {
		if only != nil {
			return nil, invalidResponse
		}
		if !jsonwalk.IsObject(choice) {
			return nil, networkOrProtocolError
		}
		only = choice
	}
	return only, nil
}

// content gives the text of a delta or message, nil without one.
func content(message []byte) ([]byte, error) {
	var value []byte
	for name, v := range jsonwalk.Members(message) {
		switch name {
		case "content":
			value = v
		case "tool_calls", "function_call":
			if !jsonwalk.IsEmpty(v) {
				return nil, unsupportedTool
			}
		}
	}
	if jsonwalk.IsNull(value) {
		return nil, nil
	}
	s, ok := jsonwalk.Text(value)
	if !ok {
		return nil, invalidResponse
	}
	return s, nil
}
