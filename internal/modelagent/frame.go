package modelagent

import (
	"bytes"
	"strconv"
	"unicode/utf8"

	"signalbox/internal/jsonwalk"
)

// failure is the kind of an error, and its whole text: nothing else about a
// failure leaves the process.
type failure string

func (f failure) Error() string { return string(f) }

// Errors of the protocol, told with JSON-RPC's own codes.
const (
	frameLimit         failure = "frame_limit"
	parseError         failure = "parse_error"
	invalidRequest     failure = "invalid_request"
	methodNotFound     failure = "method_not_found"
	invalidInitialize  failure = "invalid_initialize"
	invalidSession     failure = "invalid_session"
	sessionAlreadyUsed failure = "session_already_used"
	invalidPrompt      failure = "invalid_prompt"
	unsupportedContent failure = "unsupported_content"
	promptLimit        failure = "prompt_limit"
)

// Errors of an admitted prompt, told with code -32000. Beside them there is
// http_<status>.
const (
	credentialUnavailable  failure = "credential_unavailable"
	networkTimeout         failure = "network_timeout"
	networkOrProtocolError failure = "network_or_protocol_error"
	responseLimit          failure = "response_limit"
	outputLimit            failure = "output_limit"
	incompleteResponse     failure = "incomplete_model_response"
	emptyResponse          failure = "empty_model_response"
	modelFailed            failure = "model_failed"
	unsupportedTool        failure = "unsupported_model_tool"
	invalidResponse        failure = "invalid_model_response"
)

const (
	codeParse          = -32700
	codeInvalidRequest = -32600
	codeMethod         = -32601
	codeParams         = -32602
	codePrompt         = -32000
)

// maxID bounds an id that is a string, in characters.
const maxID = 128

// request is one message of the client.
type request struct {
	id     []byte // as it was sent; nil in a notification
	method string
	params []byte // an object, nil if absent
}

// parseRequest takes one line. Its error is a failure together with its code;
// a faulty message is answered with id null because its own id means nothing.
func parseRequest(line []byte) (request, int, error) {
	line = bytes.Trim(line, " \t\r\n")
	if !jsonwalk.Valid(line) {
		return request{}, codeParse, parseError
	}
	var r request
	var version, method []byte
	for name, value := range jsonwalk.Members(line) {
		switch name {
		case "jsonrpc":
			version = value
		case "id":
			r.id = value
		case "method":
			method = value
		case "params":
			r.params = value
		}
	}
	// A line that is no object has no members, and so no version.
	v, _ := jsonwalk.Text(version)
	m, isText := jsonwalk.Text(method)
	if string(v) != "2.0" || !isText || !validID(r.id) || r.params != nil && !jsonwalk.IsObject(r.params) {
		return request{}, codeInvalidRequest, invalidRequest
	}
	r.method = string(m)
	return r, 0, nil
}

// validID allows what JSON-RPC in ACP allows: nothing, null, a 64-bit integer
// or a string.
func validID(id []byte) bool {
	switch {
	case jsonwalk.IsNull(id):
		return true
	case id[0] == '"':
		s, ok := jsonwalk.Text(id)
		return ok && utf8.RuneCount(s) <= maxID
	}
	_, err := strconv.ParseInt(string(id), 10, 64)
	return err == nil
}

// result makes the answer to a request; body is JSON.
func result(id []byte, body string) []byte {
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"result":` + body + `}`)
}

// refusal makes an error answer from a failure. A nil id is told as null.
func refusal(id []byte, code int, failed error) []byte {
	if id == nil {
		id = []byte("null")
	}
	kind := failed.Error() // a plain word, which needs no escape
	return []byte(`{"jsonrpc":"2.0","id":` + string(id) + `,"error":{"code":` + strconv.Itoa(code) +
		`,"message":"` + kind + `","data":{"kind":"` + kind + `"}}}`)
}
