package client

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"signalbox/internal/api"
	"signalbox/internal/approval"
	"signalbox/internal/certification"
	"signalbox/internal/coord"
	"signalbox/internal/credential/binding"
	"signalbox/internal/directory"
	"signalbox/internal/synthesis"
)

// everything reads all pages of a list that is short by its nature.
func everything[T any](ctx context.Context, c *Client, format string, args ...any) ([]T, error) {
	page, err := document[api.Page[T]](ctx, c, call{method: http.MethodGet, path: path(format, args...)})
	return page.Data, err
}

// Status tells how Signalbox stands.
func (c *Client) Status(ctx context.Context) (api.Status, error) {
	return get[api.Status](ctx, c, "/status")
}

// SetPaused stops or opens the admission of tasks.
func (c *Client) SetPaused(ctx context.Context, paused bool) (api.Status, error) {
	return post[api.Status](ctx, c, map[string]bool{"paused": paused}, "/admission")
}

// Stop asks Signalbox to end, at once or when nothing runs any more. It does
// not wait for that.
func (c *Client) Stop(ctx context.Context, drain bool) error {
	_, err := post[api.Stopping](ctx, c, map[string]bool{"drain": drain}, "/stop")
	return err
}

// Check gives what doctor finds.
func (c *Client) Check(ctx context.Context) ([]synthesis.Finding, error) {
	return everything[synthesis.Finding](ctx, c, "/doctor")
}

// Repair mends what is provably safe to mend, of all kinds or those given.
func (c *Client) Repair(ctx context.Context, codes ...synthesis.FindingCode) ([]synthesis.Finding, error) {
	return post[[]synthesis.Finding](ctx, c, map[string]any{"codes": codes}, "/doctor")
}

// Agents lists the directory.
func (c *Client) Agents(ctx context.Context) ([]coord.Agent, error) {
	return everything[coord.Agent](ctx, c, "/agents")
}

// Agent gives one agent.
func (c *Client) Agent(ctx context.Context, id string) (coord.Agent, error) {
	return get[coord.Agent](ctx, c, "/agents/%s", id)
}

// AddAgent registers an agent.
func (c *Client) AddAgent(ctx context.Context, id string, cfg coord.AgentConfig) (coord.Agent, error) {
	return post[coord.Agent](ctx, c, api.NewAgent{ID: coord.AgentID(id), AgentConfig: cfg}, "/agents")
}

// ReviseAgent gives an agent a new configuration in place of that revision.
func (c *Client) ReviseAgent(ctx context.Context, id string, revision int, cfg coord.AgentConfig) (coord.Agent, error) {
	return data[coord.Agent](ctx, c, call{method: http.MethodPut, path: path("/agents/%s", id), body: cfg, revision: revision, key: NewKey()})
}

// RemoveAgent takes an agent out of the directory.
func (c *Client) RemoveAgent(ctx context.Context, id string) error {
	_, err := data[coord.Agent](ctx, c, call{method: http.MethodDelete, path: path("/agents/%s", id), key: NewKey()})
	return err
}

// EnableAgent lets plans use an agent, or not.
func (c *Client) EnableAgent(ctx context.Context, id string, enabled bool) (coord.Agent, error) {
	return post[coord.Agent](ctx, c, map[string]bool{"enabled": enabled}, "/agents/%s/enabled", id)
}

// InspectAgent looks at an agent anew.
func (c *Client) InspectAgent(ctx context.Context, id string) (coord.Agent, error) {
	return post[coord.Agent](ctx, c, nil, "/agents/%s/inspect", id)
}

// Discover lists the known agents that are on this machine.
func (c *Client) Discover(ctx context.Context) ([]directory.Suggestion, error) {
	return everything[directory.Suggestion](ctx, c, "/suggestions")
}

// Presets lists the agent programs that are known by name.
func (c *Client) Presets(ctx context.Context) ([]api.Preset, error) {
	return everything[api.Preset](ctx, c, "/presets")
}

// ImportRegistry reads a registry file as suggestions.
func (c *Client) ImportRegistry(ctx context.Context, registry []byte) ([]api.Preset, error) {
	if !json.Valid(registry) {
		return nil, coord.Errorf(coord.Invalid, "the file is not JSON: an ACP registry file is needed")
	}
	page, err := document[api.Page[api.Preset]](ctx, c, call{method: http.MethodPost, path: path("/presets/import"), body: json.RawMessage(registry)})
	return page.Data, err
}

// Jobs gives a page of jobs without their plans, newest first, with numbers
// below before (0: the newest); next continues it.
func (c *Client) Jobs(ctx context.Context, before int64, limit int) (jobs []coord.Job, next int64, err error) {
	query := url.Values{"before": {strconv.FormatInt(before, 10)}, "limit": {strconv.Itoa(limit)}}
	page, err := document[api.Page[coord.Job]](ctx, c, call{method: http.MethodGet, path: path("/jobs"), query: query})
	return page.Data, page.Next, err
}

// Job gives one job with its plan.
func (c *Client) Job(ctx context.Context, ref string) (coord.Job, error) {
	return get[coord.Job](ctx, c, "/jobs/%s", ref)
}

// Validate checks a plan and gives it with its defaults.
func (c *Client) Validate(ctx context.Context, plan coord.Plan) (coord.Plan, error) {
	return post[coord.Plan](ctx, c, plan, "/plans/validate")
}

// Draft makes a job of a plan.
func (c *Client) Draft(ctx context.Context, plan coord.Plan) (coord.Job, error) {
	return post[coord.Job](ctx, c, plan, "/jobs")
}

// Revise replaces the plan of a draft that has that revision.
func (c *Client) Revise(ctx context.Context, ref string, revision int, plan coord.Plan) (coord.Job, error) {
	return data[coord.Job](ctx, c, call{method: http.MethodPut, path: path("/jobs/%s", ref), body: plan, revision: revision, key: NewKey()})
}

// Discard throws a draft away.
func (c *Client) Discard(ctx context.Context, ref string) (coord.Job, error) {
	return post[coord.Job](ctx, c, nil, "/jobs/%s/discard", ref)
}

// Freeze makes a draft exact, for review.
func (c *Client) Freeze(ctx context.Context, ref string) (coord.Job, error) {
	return post[coord.Job](ctx, c, nil, "/jobs/%s/freeze", ref)
}

// Run approves the frozen plan with that digest.
func (c *Client) Run(ctx context.Context, ref, digest string) (coord.Job, error) {
	return post[coord.Job](ctx, c, map[string]string{"digest": digest}, "/jobs/%s/run", ref)
}

// CancelJob asks for everything of a job to stop.
func (c *Client) CancelJob(ctx context.Context, ref string) (coord.Job, error) {
	return post[coord.Job](ctx, c, nil, "/jobs/%s/cancel", ref)
}

// CancelTask asks for one task to stop.
func (c *Client) CancelTask(ctx context.Context, job, key string) (coord.Task, error) {
	return post[coord.Task](ctx, c, nil, "/jobs/%s/tasks/%s/cancel", job, key)
}

// Retry drafts a job's unfinished tasks as a new job.
func (c *Client) Retry(ctx context.Context, ref string) (coord.Job, error) {
	return post[coord.Job](ctx, c, nil, "/jobs/%s/retry", ref)
}

// Continue drafts a plan that gets a job's results as data.
func (c *Client) Continue(ctx context.Context, ref string, plan coord.Plan) (coord.Job, error) {
	return post[coord.Job](ctx, c, plan, "/jobs/%s/continue", ref)
}

// Tasks gives a job's tasks in the order of its plan.
func (c *Client) Tasks(ctx context.Context, ref string) ([]coord.Task, error) {
	return everything[coord.Task](ctx, c, "/jobs/%s/tasks", ref)
}

// Attempts gives a job's attempts, oldest first.
func (c *Client) Attempts(ctx context.Context, ref string) ([]coord.Attempt, error) {
	return everything[coord.Attempt](ctx, c, "/jobs/%s/attempts", ref)
}

// Result gives what came of a job.
func (c *Client) Result(ctx context.Context, ref string) (coord.Result, error) {
	return get[coord.Result](ctx, c, "/jobs/%s/result", ref)
}

// Export writes a job's evidence to w as one zip archive.
func (c *Client) Export(ctx context.Context, ref string, w io.Writer) error {
	return c.copy(ctx, w, path("/jobs/%s/export", ref))
}

// ArtifactBytes writes an artifact's bytes to w.
func (c *Client) ArtifactBytes(ctx context.Context, id string, w io.Writer) error {
	return c.copy(ctx, w, path("/artifacts/%s/bytes", id))
}

func (c *Client) copy(ctx context.Context, w io.Writer, at string) error {
	res, err := c.send(ctx, call{method: http.MethodGet, path: at})
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if _, err := io.Copy(w, res.Body); err != nil {
		return &coord.Error{Code: coord.Unavailable, Message: "what was asked for was cut off in the middle: ask again, and see the log of signalbox serve", Err: err}
	}
	return nil
}

// Attempt gives one attempt, by "12/fix", "12/fix/1" or id.
func (c *Client) Attempt(ctx context.Context, ref string) (coord.Attempt, error) {
	return get[coord.Attempt](ctx, c, "/attempts/%s", ref)
}

// Explain tells what is known of an attempt, and what is not.
func (c *Client) Explain(ctx context.Context, ref string) (synthesis.Explanation, error) {
	return get[synthesis.Explanation](ctx, c, "/attempts/%s/explain", ref)
}

// Reconcile asks the provider what became of an attempt.
func (c *Client) Reconcile(ctx context.Context, ref string) (coord.Attempt, error) {
	return post[coord.Attempt](ctx, c, nil, "/attempts/%s/reconcile", ref)
}

// Resolve states what became of an attempt of unknown outcome.
func (c *Client) Resolve(ctx context.Context, ref string, how coord.ResolutionKind, reason, text string) (coord.Attempt, error) {
	return post[coord.Attempt](ctx, c, map[string]string{"how": string(how), "reason": reason, "text": text}, "/attempts/%s/resolve", ref)
}

// Requests gives a page of requests, newest first, with numbers below before.
func (c *Client) Requests(ctx context.Context, before int64, limit int) (requests []coord.Request, next int64, err error) {
	query := url.Values{"before": {strconv.FormatInt(before, 10)}, "limit": {strconv.Itoa(limit)}}
	page, err := document[api.Page[coord.Request]](ctx, c, call{method: http.MethodGet, path: path("/requests"), query: query})
	return page.Data, page.Next, err
}

// JobRequests gives the requests of a job, oldest first.
func (c *Client) JobRequests(ctx context.Context, ref string) ([]coord.Request, error) {
	return everything[coord.Request](ctx, c, "/jobs/%s/requests", ref)
}

// Request gives one request, by "r7" or id.
func (c *Client) Request(ctx context.Context, ref string) (coord.Request, error) {
	return get[coord.Request](ctx, c, "/requests/%s", ref)
}

// Decide decides a request.
func (c *Client) Decide(ctx context.Context, ref string, d approval.Decision) (coord.Request, error) {
	return post[coord.Request](ctx, c, d, "/requests/%s/decide", ref)
}

// ChangeSets gives up to limit change sets, newest first, with numbers below
// before (0: from the newest), and the next before (0: there are no more).
func (c *Client) ChangeSets(ctx context.Context, before int64, limit int) (sets []coord.ChangeSet, next int64, err error) {
	query := url.Values{"before": {strconv.FormatInt(before, 10)}, "limit": {strconv.Itoa(limit)}}
	page, err := document[api.Page[coord.ChangeSet]](ctx, c, call{method: http.MethodGet, path: path("/change-sets"), query: query})
	return page.Data, page.Next, err
}

// ChangeSet gives a change set without contents.
func (c *Client) ChangeSet(ctx context.Context, ref string) (coord.ChangeSet, error) {
	return get[coord.ChangeSet](ctx, c, "/change-sets/%s", ref)
}

// Display gives what a change set changes, exactly.
func (c *Client) Display(ctx context.Context, ref string) (approval.Display, error) {
	return get[approval.Display](ctx, c, "/change-sets/%s/diff", ref)
}

// Review approves or discards a change set.
func (c *Client) Review(ctx context.Context, ref string, r approval.Review) (coord.ChangeSet, error) {
	return post[coord.ChangeSet](ctx, c, r, "/change-sets/%s/review", ref)
}

// Comment remarks on a change set.
func (c *Client) Comment(ctx context.Context, ref, text string) (coord.ChangeSet, error) {
	return post[coord.ChangeSet](ctx, c, map[string]string{"text": text}, "/change-sets/%s/comment", ref)
}

// Again drafts an ended job once more, with what is to be done differently.
func (c *Client) Again(ctx context.Context, ref, message string) (coord.Job, error) {
	return post[coord.Job](ctx, c, map[string]string{"message": message}, "/jobs/%s/again", ref)
}

// Certificates gives what was proven on the machine, newest first.
func (c *Client) Certificates(ctx context.Context) ([]certification.Standing, error) {
	return everything[certification.Standing](ctx, c, "/certificates")
}

// Certify proves the sandbox and the agents' confinement now.
func (c *Client) Certify(ctx context.Context) ([]certification.Standing, error) {
	return post[[]certification.Standing](ctx, c, nil, "/certificates")
}

// Inbox gives everything that waits for the operator.
func (c *Client) Inbox(ctx context.Context) (api.Inbox, error) {
	return get[api.Inbox](ctx, c, "/inbox")
}

// Credentials lists the credentials of the configuration file, without values.
func (c *Client) Credentials(ctx context.Context) ([]binding.BoundCredential, error) {
	return everything[binding.BoundCredential](ctx, c, "/credentials")
}

// Tokens lists tokens and browser sessions.
func (c *Client) Tokens(ctx context.Context) ([]coord.Credential, error) {
	return everything[coord.Credential](ctx, c, "/tokens")
}

// AddToken makes a bearer token; its value is in the answer this once.
func (c *Client) AddToken(ctx context.Context, name string, role coord.Role) (api.Token, error) {
	return post[api.Token](ctx, c, api.NewToken{Name: name, Role: role}, "/tokens")
}

// RevokeToken ends a token or a session.
func (c *Client) RevokeToken(ctx context.Context, id string) error {
	_, err := data[coord.Credential](ctx, c, call{method: http.MethodDelete, path: path("/tokens/%s", id), key: NewKey()})
	return err
}

// Output calls each with every piece of what an attempt's agent wrote so far,
// in order, until each gives an error.
func (c *Client) Output(ctx context.Context, ref string, each func(coord.Text) error) error {
	for after := int64(0); ; {
		query := url.Values{"after": {strconv.FormatInt(after, 10)}, "limit": {strconv.Itoa(coord.MaxPage)}}
		page, err := document[api.Page[api.Piece]](ctx, c, call{method: http.MethodGet, path: path("/attempts/%s/output", ref), query: query})
		if err != nil {
			return err
		}
		for _, p := range page.Data {
			if err := each(p.Text); err != nil {
				return err
			}
		}
		if after = page.Next; after == 0 {
			return nil
		}
	}
}

// Now gives the cursor of the present moment, for Filter.After.
func (c *Client) Now(ctx context.Context) (string, error) {
	s, err := c.Status(ctx)
	return api.Cursor(s.Epoch, s.Head), err
}
