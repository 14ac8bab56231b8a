// Package certification proves on this machine what edits and tests stand on.
//
// It promises that a certificate is made only by the operator's order, from
// probes that were made now and no model took part in; that it binds the exact
// programs, kernel and boot it was made with; and that write and test are
// offered, dispatched and carried out only while one holds. What it cannot
// prove it lists as not proven.
package certification
