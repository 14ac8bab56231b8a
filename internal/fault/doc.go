// Package fault lets a crash test kill the process at a chosen step. Without
// the build tag "fault", as in the product, a point does nothing and costs
// nothing.
//
// With the tag, SIGNALBOX_FAULT=NAME or NAME:N makes the process kill itself
// with SIGKILL when it reaches the point NAME, or reaches it for the Nth time.
package fault
