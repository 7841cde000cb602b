//go:build !linux

// Command compare needs the nf_tables of a Linux kernel.
package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprintln(os.Stderr, "compare: this needs the nf_tables of a Linux kernel")
	os.Exit(1)
}
