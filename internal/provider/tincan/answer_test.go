package tincan_test

import (
	"strings"
	"testing"

	"signalbox/internal/provider/tincan"
)

func TestAnswersInJSON(t *testing.T) {
	const request = `"request":{"id":"req_1","from":"me","to":"muse"}`
	for _, c := range []struct {
		name, out, id string
		code          int
		gotID, status string
	}{
		{"pending", `{"outcome":"pending","result":{` + request + `,"status":"queued"}}`, "", 2, "req_1", "queued"},
		{"members of another version", `{"outcome":"pending","x":1,"result":{` + request + `,"status":"claimed","parent":{"id":"y"}}}`, "req_1", 2, "req_1", "claimed"},
		{"an unknown outcome", `{"outcome":"sent","result":{` + request + `,"status":"queued"}}`, "", 2, "req_1", ""},
		{"an outcome of another status", `{"outcome":"answered","result":{` + request + `,"status":"queued"}}`, "", 0, "req_1", ""},
		{"an exit of another outcome", `{"outcome":"pending","result":{` + request + `,"status":"queued"}}`, "", 0, "req_1", ""},
		{"no status", `{"outcome":"pending","result":{` + request + `}}`, "", 2, "req_1", ""},
		{"another id", `{"outcome":"pending","result":{` + request + `,"status":"queued"}}`, "req_2", 2, "", ""},
		{"an id with a space", `{"outcome":"pending","result":{"request":{"id":"req 1","to":"muse"},"status":"queued"}}`, "", 2, "", ""},
		{"an id of a number", `{"outcome":"pending","result":{"request":{"id":1,"to":"muse"},"status":"queued"}}`, "", 2, "", ""},
		{"a long id", `{"outcome":"pending","result":{"request":{"id":"` + strings.Repeat("x", 200) + `","to":"muse"},"status":"queued"}}`, "", 2, "", ""},
		{"a peer of other case", `{"outcome":"pending","result":{"request":{"id":"req_1","to":"Muse"},"status":"queued"}}`, "", 2, "", ""},
		{"no peer", `{"outcome":"pending","result":{"request":{"id":"req_1"},"status":"queued"}}`, "", 2, "", ""},
		{"a reply to another request", `{"outcome":"answered","result":{` + request + `,"status":"answered","reply":{"request_id":"req_2","from":"muse","status":"answered","body":"x"}}}`, "", 0, "req_1", ""},
		{"a reply of another status", `{"outcome":"answered","result":{` + request + `,"status":"answered","reply":{"request_id":"req_1","from":"muse","status":"failed","body":"x"}}}`, "", 0, "req_1", ""},
		{"a reply while pending", `{"outcome":"pending","result":{` + request + `,"status":"claimed","reply":{"request_id":"req_1","from":"muse","status":"answered","body":"x"}}}`, "", 2, "req_1", ""},
		{"a byte order mark", "\ufeff" + `{"outcome":"pending","result":{` + request + `,"status":"queued"}}`, "", 2, "", ""},
		{"two documents", `{"outcome":"pending","result":{` + request + `,"status":"queued"}}{}`, "", 2, "", ""},
		{"a list", `[{"outcome":"pending","result":{` + request + `,"status":"queued"}}]`, "", 2, "", ""},
		{"null", `null`, "", 2, "", ""},
		{"nothing", ``, "", 2, "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, status, _, err := tincan.Parse("json", "me", "muse", c.id, c.code, []byte(c.out))
			if id != c.gotID || status != c.status || (err == nil) != (c.status != "") {
				t.Errorf("it is %q %q, %v", id, status, err)
			}
		})
	}
}

func TestAnswersInText(t *testing.T) {
	const later = "). Check later with get_reply or `tincan get req_1`.\n"
	for _, c := range []struct {
		name, out, id       string
		code                int
		gotID, status, body string
	}{
		{"pending", "No reply yet from muse. Request id req_1 (status queued" + later, "", 0, "req_1", "queued", ""},
		{"pending, looked at", "No reply yet from muse. Request id req_1 (status claimed" + later, "req_1", 0, "req_1", "claimed", ""},
		{"ended", "Request req_1 to muse ended: expired\n", "req_1", 0, "req_1", "expired", ""},
		{"ended at once", "Request req_1 to muse ended: cancelled\n", "", 0, "req_1", "cancelled", ""},
		{"replied", "muse replied (answered):\nyes\nno\n", "req_1", 0, "req_1", "answered", "yes\nno"},
		{"replied with nothing", "muse replied (answered):\n\n", "req_1", 0, "req_1", "answered", ""},
		{"replied to ask, which has no id then", "muse replied (answered):\nyes\n", "", 0, "", "", ""},
		{"replied with a status that is no reply's", "muse replied (claimed):\nyes\n", "req_1", 0, "", "", ""},
		{"replied by another", "muse2 replied (answered):\nyes\n", "req_1", 0, "", "", ""},
		{"pending of another peer", "No reply yet from muse2. Request id req_1 (status queued" + later, "", 0, "", "", ""},
		{"pending of another request", "No reply yet from muse. Request id req_2 (status queued" + later, "req_1", 0, "", "", ""},
		{"pending with an end", "No reply yet from muse. Request id req_1 (status answered" + later, "req_1", 0, "req_1", "", ""},
		{"ended while pending", "Request req_1 to muse ended: claimed\n", "req_1", 0, "req_1", "", ""},
		{"a status that does not exist", "Request req_1 to muse ended: eaten\n", "req_1", 0, "req_1", "", ""},
		{"a second line", "Request req_1 to muse ended: expired\nmore\n", "req_1", 0, "", "", ""},
		{"no end of the line", "Request req_1 to muse ended: expired", "req_1", 0, "", "", ""},
		{"exit 1", "Request req_1 to muse ended: expired\n", "req_1", 1, "", "", ""},
		{"a notice", "Sent to muse (request req_1).\n", "", 0, "", "", ""},
		{"JSON", `{"outcome":"pending"}` + "\n", "", 0, "", "", ""},
		{"nothing", "", "", 0, "", "", ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			id, status, body, err := tincan.Parse("text", "me", "muse", c.id, c.code, []byte(c.out))
			if id != c.gotID || status != c.status || body != c.body || (err == nil) != (c.status != "") {
				t.Errorf("it is %q %q %q, %v", id, status, body, err)
			}
		})
	}
}

// What is taken for an answer names what was asked for, and a status that is
// known.
func FuzzAnswer(f *testing.F) {
	f.Add("json", true, 2, []byte(`{"outcome":"pending","result":{"request":{"id":"req_1","from":"me","to":"muse"},"status":"queued"}}`))
	f.Add("json", false, 0, []byte(`{"outcome":"answered","result":{"request":{"id":"req_1","to":"muse"},"status":"answered","reply":{"request_id":"req_1","from":"muse","status":"answered","body":"x","attachments":[{"id":"a"}]}}}`))
	f.Add("text", false, 0, []byte("No reply yet from muse. Request id req_1 (status queued). Check later with `tincan get req_1`.\n"))
	f.Add("text", true, 0, []byte("Request req_1 to muse ended: expired\n"))
	f.Add("text", true, 0, []byte("muse replied (declined):\nno\n"))
	statuses := "queued delivered claimed answered failed declined cancelled expired"
	f.Fuzz(func(t *testing.T, dialect string, known bool, code int, out []byte) {
		id := ""
		if known {
			id = "req_1"
		}
		got, status, body, err := tincan.Parse(dialect, "me", "muse", id, code, out)
		switch {
		case id != "" && got != "" && got != id:
			t.Errorf("the answer about %q was taken for one about %q", got, id)
		case strings.ContainsAny(got, " \n\t\x00") || len(got) > 128:
			t.Errorf("the id is %q", got)
		case err != nil && (status != "" || body != "" && status != ""):
			t.Errorf("with %v there is a status %q", err, status)
		case err == nil && (got == "" || !strings.Contains(" "+statuses+" ", " "+status+" ")):
			t.Errorf("without an error there are id %q and status %q", got, status)
		case err == nil && !strings.Contains(string(out), "muse") && !strings.Contains(string(out), `\u`):
			t.Errorf("an answer without the peer was taken: %q", out)
		}
	})
}

func FuzzAgents(f *testing.F) {
	f.Add([]byte("# relay version 0.0.42\nmuse           online   wake=poll last seen 3s ago kind=codex version=1\n"))
	f.Add([]byte("No agents have joined yet.\n"))
	f.Fuzz(func(t *testing.T, out []byte) {
		names := tincan.Names(out)
		for _, name := range names[:min(len(names), 100)] {
			if name == "" || strings.ContainsAny(name, " \t\n\r") || !strings.Contains(string(out), name) {
				t.Errorf("there is an agent %q", name)
			}
		}
	})
}
