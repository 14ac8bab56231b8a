// Package workbench is what an agent may do in a workspace through Signalbox:
// the tools that it is offered, what their arguments mean, and what it is told.
//
// It promises that a call does what it may do at once (look, and write into the
// change set), and turns everything else into a request to the operator; that
// the operator's files change only by Perform, once for each approval and only
// from exactly what was approved; and that what an agent is told about a call
// is what happened.
package workbench
