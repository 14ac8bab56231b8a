// Package fault lets a crash test kill the process at a chosen step. Without
// the build tag "fault", as in the product, a point does nothing and costs
// nothing.
//
// With the tag, SIGNALBOX_FAULT lists deaths, separated by commas: NAME or
// NAME:N makes the process kill itself with SIGKILL when it reaches the point
// NAME, or reaches it for the Nth time; parent@NAME:N makes it kill its parent
// instead, and go on. SIGNALBOX_FAULT_TRACE names a file to which the name of
// every point is appended, one a line, before anything else happens there. The
// hits are then counted in this file, over all processes that share it, so that
// a death does not strike the process that is started after it once more. While
// the file does not exist nothing is counted, and nobody dies.
package fault
