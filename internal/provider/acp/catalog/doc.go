// Package catalog knows ACP agents by name: those that this project looked at
// or whose makers publish a command, and those of a registry file.
//
// It promises that what it gives are suggestions. Nothing of them is fetched,
// started or believed, and none says anything about the program of that name on
// this machine: only an inspection does.
package catalog
