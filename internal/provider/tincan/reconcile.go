package tincan

import (
	"context"
	"fmt"

	"signalbox/internal/coord"
	"signalbox/internal/provider"
	"signalbox/internal/provider/stdio"
)

// Reconcile asks the relay once what became of a request, under the profile that
// it was sent with. Without the request's id nothing can be asked.
func (a *Adapter) Reconcile(ctx context.Context, w provider.Work, h coord.Handle, r *coord.Receipt) (provider.Verdict, error) {
	d, err := openHandle(h)
	if err != nil {
		return provider.Verdict{}, err
	}
	v := provider.Verdict{Finding: provider.FoundNothing}
	if r == nil || r.Kind != receiptKind || !validID(r.Reference) {
		v.Evidence = []string{fmt.Sprintf("The relay was not asked: tincan did not tell the id of the request that it may have made. Look for a text to %s of %s with the SHA-256 %s.", d.Peer, d.Agent, d.Text)}
		return v, nil
	}
	n, err := a.look(ctx, d, r.Reference)
	if ctx.Err() != nil {
		return v, context.Cause(ctx)
	}
	return judge(v, n, err), nil
}

// judge puts what was found in sentences.
func judge(v provider.Verdict, n answer, err error) provider.Verdict {
	if err != nil {
		v.Evidence = []string{stdio.Reason("The relay's answer is not known. " + err.Error())}
		return v
	}
	v.Evidence = append(v.Evidence, fmt.Sprintf("The relay says that the request is %s.", n.status))
	// What an earlier process saw of claims is not known here.
	end := n.end(false)
	switch {
	case end != nil:
		v.Finding, v.End, v.Activity = provider.FoundEnded, end, coord.Ended
		if v.Text = stdio.Cut(n.body, coord.MaxStatement); len(v.Text) < len(n.body) {
			v.Evidence = append(v.Evidence, fmt.Sprintf("The reply has %d bytes, of which the first are kept.", len(n.body)))
		}
		for _, c := range n.contents() {
			v.Evidence = append(v.Evidence, fmt.Sprintf("The reply has an attachment that stays at the relay: %s, %s.", stdio.Quote(c.Name), c.Reference))
		}
	case n.status == expired:
		v.Evidence = append(v.Evidence, reasonExpired)
	default:
		v.Finding = provider.FoundWorking
	}
	return v
}
