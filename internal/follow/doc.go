// Package follow writes on a screen what happens to a job, and puts what its
// agents ask before the operator.
//
// It promises that nothing is shown before it is on the disk, that each request
// is put once, and that who stops following stops nothing else.
package follow
