package main

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// checksums writes the SHA-256 of each file of a directory into SHA256SUMS, which `sha256sum --check` reads.
func checksums(directory string) error {
	found, err := os.ReadDir(directory) // in the order of their names
	if err != nil {
		return err
	}
	return write(filepath.Join(directory, "SHA256SUMS"), func(w io.Writer) error {
		for _, f := range found {
			text, err := os.ReadFile(filepath.Join(directory, f.Name()))
			if err != nil {
				return err
			}
			if _, err := fmt.Fprintf(w, "%x  %s\n", sha256.Sum256(text), f.Name()); err != nil {
				return err
			}
		}
		return nil
	})
}
