// Package stdio is what adapters of agents that are local processes have in
// common: the start behind the gate, the connection of JSON messages in lines,
// the queue between the agent and the owner of an attempt, and the hash of what
// runs.
//
// It promises that nothing an agent prints grows memory or is mistaken for an
// answer, that an agent which does not read cannot hold anybody, that its whole
// tree is gone when the connection is closed or lost, and that Conn says of a
// loss no more than is certain. What the messages mean is for the adapter.
package stdio
