// Command stagetest is the smallest program that can be the helper of a
// sandbox, for the tests: static and without the race detector, as the real one
// is built, whatever way the tests are built in.
package main

import (
	"os"

	"signalbox/internal/sandbox"
)

func main() {
	sandbox.StageMain()
	os.Exit(2)
}
