package tincan

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// The dialects in which the program answers.
const (
	dialectJSON = "json"
	dialectText = "text"
)

// maxID bounds a request's id.
const maxID = 128

// maxAttachments is the relay's own bound, twice.
const maxAttachments = 16

// status is where a request is, as the relay says.
type status string

// The statuses of a relay.
const (
	queued    status = "queued"
	delivered status = "delivered"
	claimed   status = "claimed"
	answered  status = "answered"
	failed    status = "failed"
	declined  status = "declined"
	cancelled status = "cancelled"
	expired   status = "expired"
)

// final reports whether nothing can follow a status, and known whether it is
// one of those above.
func (s status) final() bool {
	return slices.Contains([]status{answered, failed, declined, cancelled, expired}, s)
}

func (s status) known() bool { return s.final() || s == queued || s == delivered || s == claimed }

// answer is what the relay said of one request, checked against what was asked.
type answer struct {
	id          string
	status      status
	body        string
	attachments []attachment
}

// attachment is a file that came with a reply and stays at the relay.
type attachment struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	MIME string `json:"mime"`
	Size int64  `json:"size"`
}

// asked is what an answer must be about.
type asked struct {
	dialect, agent, peer string
	// id is "" for the answer to ask, which brings it.
	id string
}

// mismatch is an output that is not the answer to what was asked, as a sentence.
type mismatch string

// Error gives the sentence.
func (m mismatch) Error() string { return string(m) }

const noAnswer = mismatch("What tincan printed is not an answer of the form that is known.")

// wire is the JSON of ask and get.
type wire struct {
	Outcome string `json:"outcome"`
	Result  struct {
		Request struct {
			ID   string `json:"id"`
			From string `json:"from"`
			To   string `json:"to"`
		} `json:"request"`
		Status status `json:"status"`
		Reply  *struct {
			Request     string       `json:"request_id"`
			From        string       `json:"from"`
			Status      status       `json:"status"`
			Body        string       `json:"body"`
			Attachments []attachment `json:"attachments"`
		} `json:"reply"`
	} `json:"result"`
}

// outcomes are the exit codes of the program with --json.
var outcomes = map[string]int{"answered": 0, "failed": 1, "pending": 2}

// outcome is the word for a status with --json.
func (s status) outcome() string {
	switch {
	case s == answered:
		return "answered"
	case s.final():
		return "failed"
	}
	return "pending"
}

// parse reads what ask or get printed. Whatever the error, an answer whose id is
// set names the request of what was asked, and its status is "" when it cannot
// be told.
func parse(a asked, out output) (answer, error) {
	if a.dialect == dialectText {
		return parseText(a, out)
	}
	return parseJSON(a, out)
}

func parseJSON(a asked, out output) (answer, error) {
	var w wire
	if json.Unmarshal(out.stdout, &w) != nil {
		return answer{}, noAnswer
	}
	r := w.Result
	if err := a.about(r.Request.ID, r.Request.To, r.Request.From); err != nil {
		return answer{}, err
	}
	got := answer{id: r.Request.ID}
	switch code, known := outcomes[w.Outcome]; {
	case !r.Status.known():
		return got, mismatch("The relay names a status that is not known: " + stdio.Quote(string(r.Status)) + ".")
	case !known || w.Outcome != r.Status.outcome() || code != out.code:
		return got, mismatch(fmt.Sprintf("tincan contradicts itself: outcome %s, status %s, exit code %d.", stdio.Quote(w.Outcome), r.Status, out.code))
	}
	if reply := r.Reply; reply != nil {
		if reply.Request != got.id || reply.From != a.peer || reply.Status != r.Status {
			return got, mismatch("The reply is not the peer's to this request.")
		}
		got.body = reply.Body
		got.attachments = reply.Attachments[:min(len(reply.Attachments), maxAttachments)]
	}
	got.status = r.Status
	return got, nil
}

// about checks whom an answer is about. from may be missing.
func (a asked) about(id, to, from string) error {
	switch {
	case !validID(id):
		return mismatch("What tincan printed names no request.")
	case a.id != "" && id != a.id:
		return mismatch("What tincan printed is about another request: " + stdio.Quote(id) + ".")
	case to != a.peer:
		return mismatch(fmt.Sprintf("What tincan printed is about a request %s to another peer: %s.", stdio.Quote(id), stdio.Quote(to)))
	case from != "" && from != a.agent:
		return mismatch(fmt.Sprintf("What tincan printed is about a request %s of another agent: %s.", stdio.Quote(id), stdio.Quote(from)))
	}
	return nil
}

// validID reports whether a request's id can be one.
func validID(id string) bool { return len(id) <= maxID && word(id) }

// The lines of the text dialect, without what varies.
const (
	textPending = "No reply yet from "
	textID      = ". Request id "
	textStatus  = " (status "
	textLater   = "). Check later with "
	textRequest = "Request "
	textTo      = " to "
	textEnded   = " ended: "
	textReplied = " replied ("
	textBody    = "):\n"
)

// parseText reads the text dialect. A reply in it names no request: that it is
// this one's is known only from the question.
func parseText(a asked, out output) (answer, error) {
	text, whole := bytes.CutSuffix(out.stdout, []byte("\n"))
	if out.code != 0 || !whole {
		return answer{}, noAnswer
	}
	s := string(text)
	if rest, ok := strings.CutPrefix(s, a.peer+textReplied); ok {
		word, body, ok := strings.Cut(rest, textBody)
		switch got := status(word); {
		case !ok || got != answered && got != failed && got != declined:
			return answer{}, noAnswer
		case a.id == "":
			return answer{}, mismatch("The peer replied at once, and tincan's text does not say to which request.")
		default:
			return answer{id: a.id, status: got, body: body}, nil
		}
	}
	var id, to, word string
	ok := false
	if rest, pending := strings.CutPrefix(s, textPending); pending {
		to, rest, _ = strings.Cut(rest, textID)
		id, rest, _ = strings.Cut(rest, textStatus)
		word, _, ok = strings.Cut(rest, textLater)
	} else if rest, request := strings.CutPrefix(s, textRequest); request {
		id, rest, _ = strings.Cut(rest, textTo)
		to, word, ok = strings.Cut(rest, textEnded)
	}
	if !ok || strings.Contains(s, "\n") {
		return answer{}, noAnswer
	}
	if err := a.about(id, to, ""); err != nil {
		return answer{}, err
	}
	got := answer{id: id, status: status(word)}
	if pending := strings.HasPrefix(s, textPending); !got.status.known() || got.status.final() == pending {
		got.status = ""
		return got, mismatch("The relay names a status that is not known: " + stdio.Quote(word) + ".")
	}
	return got, nil
}

// end is what an answer means for the attempt; nil while there is none, and when
// the request expired after its peer may have begun. untouched tells that it
// was watched all the time and never claimed.
func (n answer) end(untouched bool) *provider.End {
	switch n.status {
	case answered:
		if strings.TrimSpace(n.body) == "" && len(n.attachments) == 0 {
			return &provider.End{State: coord.AttemptFailed, Cause: provider.CauseEmpty, Reason: "The peer answered with nothing."}
		}
		return &provider.End{State: coord.AttemptCompleted}
	case failed:
		return &provider.End{State: coord.AttemptFailed, Cause: provider.CauseProviderError, Reason: "The peer says that it failed."}
	case declined:
		return &provider.End{State: coord.AttemptRejected, Cause: provider.CauseRefused, Reason: "The peer declined the request."}
	case cancelled:
		return &provider.End{State: coord.AttemptCancelled, Cause: provider.CauseCancelled, Reason: "The relay says that the request was withdrawn."}
	case expired:
		if untouched {
			return &provider.End{State: coord.AttemptFailed, Cause: causeExpired, Reason: "The request expired at the relay; the peer never took it."}
		}
	case queued, delivered, claimed:
	}
	return nil
}

// causeExpired is the cause of a request that nobody took in the time for which
// the relay keeps it.
const causeExpired = "expired"

// reasonExpired says why an expired request has no certain end.
const reasonExpired = "The request expired at the relay without an answer, but the peer may have taken it before and done a part."

// contents are the attachments as references; nothing is fetched.
func (n answer) contents() []provider.Content {
	var out []provider.Content
	for _, f := range n.attachments {
		if !validID(f.ID) {
			continue
		}
		out = append(out, provider.Content{Name: stdio.Cut(f.Name, coord.MaxName), Media: stdio.Cut(f.MIME, coord.MaxName), Reference: "tincan:attachment/" + f.ID})
	}
	return out
}

// row is a line of the list of agents.
type row struct {
	name   string
	online bool
	detail string
}

// maxRows bounds the lines of the list that are looked at.
const maxRows = 10_000

// parseAgents reads the list of agents; relay is its version, where it is told.
func parseAgents(stdout []byte) (rows []row, relay string) {
	n := 0
	for line := range strings.Lines(string(stdout)) {
		if n++; n > maxRows {
			break
		}
		if told, ok := strings.CutPrefix(line, "# relay version "); ok {
			relay = stdio.Clip(strings.TrimSpace(told), maxVersion)
			continue
		}
		fields := strings.Fields(line)
		if len(fields) < 2 || fields[1] != "online" && fields[1] != "offline" {
			continue
		}
		rows = append(rows, row{fields[0], fields[1] == "online", strings.Join(fields[1:], " ")})
	}
	return rows, relay
}

// maxVersion bounds what is repeated of a version.
const maxVersion = 64

// listed finds the peer by its exact name.
func listed(rows []row, peer string) (row, bool) {
	at := slices.IndexFunc(rows, func(r row) bool { return r.name == peer })
	if at < 0 {
		return row{}, false
	}
	return rows[at], true
}
