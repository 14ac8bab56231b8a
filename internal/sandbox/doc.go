// Package sandbox runs one program so that it can do no harm.
//
// It promises that a program reads the workspace and its runtime and nothing
// else of the operator's, writes nothing but its own scratch space, reaches no
// network and no other process, starts no other program, and that nothing of
// it is left when Run returns. What cannot be confined is refused, with the
// stage that failed and what would help; there is no weaker mode.
//
// There are two tiers on Linux. Namespaces (tier 1) gives the program a file
// system of its own and denies the rest a second time by Landlock and seccomp.
// Landlock (tier 2) is for machines where namespaces are refused, such as most
// containers: Landlock and seccomp alone, which leave two things open: the
// names and sizes of files outside can be asked for, and the size of the
// scratch space has no bound but that of each file. On macOS the system's own
// sandbox does it.
//
// A run takes these steps. The supervisor (Run) scans the workspace for what is
// hidden, and gives an order to a stage: this very binary, started again
// (StageMain), which takes its order from a pipe. The stage builds the root of
// tier 1, prepares everything, and becomes or starts the program with the
// restrictions on it. Every step that fails is told with its name.
//
// To start our binary takes longer than all the rest, so after a run the next
// stage is started at once and waits (starter). One that waits has no order and
// nothing to do harm with, and is used once. It is taken only while a stage that
// is started anew would be the same.
package sandbox
