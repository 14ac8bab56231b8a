// Package approval carries out what only the operator may do: let a frozen
// plan run, decide what an agent asks, stop work, and say what became of work
// whose outcome nobody knows.
//
// It promises four things. Each act is one transaction with everything that
// follows from it. What is approved is what was shown: run and decisions carry
// the digest of what the operator saw, and anything else is Stale. The first
// decision wins, and later ones are told who made it. And every act is refused
// to any role but the operator's, whatever the door let through.
package approval
