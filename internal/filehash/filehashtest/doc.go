// Package filehashtest lets tests of what stands on package filehash look at
// remembered sums: it waits until files are old enough to be remembered, and
// tells how much this process has read, which Linux alone says.
package filehashtest
