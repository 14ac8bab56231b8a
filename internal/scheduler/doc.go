// Package scheduler carries approved jobs out.
//
// It is level-triggered: evaluate is a pure function from what the journal
// holds, and the present moment, to what is to be done now; apply does it. A
// restart is the same path as a tick. What may run of a job at once is decided the
// same way within the operation that approves it. Each action begins with a commit
// that checks again, so that of two actors one wins and the other does nothing.
//
// It promises: the intent to send is durable before the first byte of work
// leaves, and nothing is ever sent twice for one task unless it is proven that
// nothing was sent; at most four tasks run at once, one for each agent, and one
// local writer; a stop is confirmed only by the provider's own word; what was
// lost after the intent to send is unknown, and says whether it may still run;
// nothing that was read from a provider is acted on before it is committed.
package scheduler
