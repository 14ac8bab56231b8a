// Package process starts the programs of agents and ends them, with all that
// they started.
//
// It promises four things. A program runs only after its identity is durable
// in the ledger: until then a gate holds its place, and the gate ends by
// itself when the worker dies. A process is recognised by boot, pid and start
// time together, never by its pid alone, so that nothing of the operator's is
// ever ended by mistake. Kill ends the whole tree and returns after it is
// gone, daemons and sessions of their own included. A child gets exactly the
// environment, the directory and the three standard streams that it was given.
//
// Processes of a worker that died are ended by the next one through Sweep. The
// parent-death signal of Linux is not used: it is sent when the thread that
// started the child ends, and Go moves goroutines between threads and ends
// threads as it likes; it is also lost in grandchildren.
package process
