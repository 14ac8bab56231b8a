// Command install puts the peers of the tests into .cache/peers, as the tests
// do on demand, and prints where they are.
package main

import (
	"fmt"
	"os"

	"signalbox/e2e/peers"
)

func main() {
	dir, err := peers.Install()
	if err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
	fmt.Println(dir)
}
