// Command tincanpeer is a stand-in for the program tincan and its relay. What it
// does and keeps is in the folder of its profile; see package tincantest.
package main

import (
	"os"

	"signalbox/internal/provider/tincan/tincantest"
)

func main() { os.Exit(tincantest.Main(os.Args)) }
